"""`tacit runs`: the runs in a folder, as a table or as JSON."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tacit.cli.exits import USER, end

_HEAD = ("run", "state", "kind", "protection", "ε", "metric", "progress", "age")


@click.command("runs")
@click.argument("folder", metavar="[RUNS]", default="runs", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list, with figures that are not rounded.")
def command(folder: Path, as_json: bool) -> None:
    """List the runs in the folder RUNS (default: runs), the newest first.

    Each has its state (running, done, budget reached, stopped, failed, killed or damaged), kind, protection, the
    largest of its epsilons so far, a metric of the last round or epoch, and how long ago it began. A run is killed if
    its events have no end and no process of this machine writes them. `tacit board` shows the same as a page.

    Exit codes: 0 done, 2 a mistake in the input.
    """
    from tacit.report.listing import plain, to_json
    from tacit.store.run_summary import Following, runs_in

    try:
        names = runs_in(folder)
    except OSError as error:
        end(f"{folder}: runs cannot be listed there: {error.strerror}. Name the folder that holds them", USER)
    if as_json:
        click.echo(to_json([plain(Following(folder / name).refreshed()) for name in names]))
        return
    if not names:
        click.echo(f"{folder} holds no runs. `tacit run FILE` makes one")
        return
    _print_table(folder, names)


def _print_table(folder: Path, names: list[str]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from tacit.report.listing import listed
    from tacit.store.run_summary import Following

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in _HEAD:
        table.add_column(name, no_wrap=name in ("state", "progress", "age", "ε"), overflow="fold")
    notes = []
    for name in names:
        run = listed(Following(folder / name).refreshed(), time.time())
        measured = f"{run.measured} {run.metric}".strip()
        done = f"{run.progress} {run.unit}"
        table.add_row(run.folder, run.state, run.kind, run.protection, run.epsilon, measured, done, run.age)
        if run.state == "damaged":
            notes.append(f"{run.folder}: {run.reason}")
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.file.isatty():
        console.width = _WIDTH
    console.print(table)
    for note in notes:
        click.echo(note)


_WIDTH = 160  # where stdout is no terminal
