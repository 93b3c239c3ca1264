"""`tacit runs`: the runs in a folder, as a table or as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli.exits import USER, end

if TYPE_CHECKING:
    from tacit.store.run_summary import Summary

_HEAD = ("run", "state", "kind", "protection", "ε", "metric", "progress", "age")


@click.command("runs")
@click.argument("folder", metavar="[RUNS]", default="runs", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list, with figures that are not rounded.")
def command(folder: Path, as_json: bool) -> None:
    """List the runs in the folder RUNS (default: runs), the newest first.

    Each has its state (running, paused, done, budget reached, stopped, failed, killed or damaged), kind, protection,
    the largest of its epsilons so far, a metric of the last round or epoch, and how long ago it began. A run is killed
    if its events have no end and no process of this machine writes them. A narrow terminal shows fewer columns.
    `tacit board` shows the same as a page.

    Exit codes: 0 done, 2 a mistake in the input.
    """
    from tacit.report.listing import plain, to_json
    from tacit.store.run_summary import Following, runs_in

    try:
        names = runs_in(folder)
    except OSError as error:
        end(f"{folder}: runs cannot be listed there: {error.strerror}. Name the folder that holds them", USER)
    # Not by name: a folder that --state named has no date in it.
    runs = sorted((Following(folder / name).refreshed() for name in names), key=lambda run: run.began, reverse=True)
    if as_json:
        click.echo(to_json([plain(run) for run in runs]))
    elif not runs:
        click.echo(f"{folder} holds no runs. `tacit run FILE` makes one")
    else:
        _print_table(runs)


def _print_table(found: Sequence[Summary]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from tacit.report.listing import listed

    runs = [listed(each, time.time()) for each in found]
    rows = [
        (
            run.folder, run.state, run.kind, run.protection, run.epsilon, f"{run.measured} {run.metric}".strip(),
            f"{run.progress} {run.unit}", run.age,
        )
        for run in runs
    ]  # fmt: skip
    columns = {name: [row[place] for row in rows] for place, name in enumerate(_HEAD)}
    console = Console(markup=False, highlight=False, emoji=False)
    left_out: list[str] = []
    if console.file.isatty():
        left_out = _without(columns, console.width)
    else:
        console.width = _WIDTH
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        table.add_column(name, no_wrap=name not in _FOLDED, overflow="fold")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    console.print(table)
    for run in runs:
        if run.state == "damaged":
            click.echo(f"{run.folder}: {run.reason}")
    if left_out:
        click.echo(f"Not shown in {console.width} columns: {', '.join(left_out)}. --json has everything")


def _without(columns: dict[str, list[str]], width: int) -> list[str]:
    """Remove columns until the others fit: names that are folded over several lines cannot be read."""
    from rich.cells import cell_len

    def needed(name: str) -> int:
        longest = max(map(cell_len, (name, *columns[name])))
        return min(longest, _PROTECTION) if name == "protection" else longest

    left_out = []
    for name in _LEAST_NEEDED:
        if sum(map(needed, columns)) + _GAP * (len(columns) - 1) <= width:
            break
        del columns[name]
        left_out.append(name)
    return left_out


_WIDTH = 160  # where stdout is no terminal
_GAP = 3  # between two columns
_FOLDED = ("run", "protection")  # over several lines, if they are too long
_PROTECTION = 20  # characters of it in a line, at least
_LEAST_NEEDED = ("protection", "kind", "age", "metric")  # in a narrow terminal, the first is left out first
