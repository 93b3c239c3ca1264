"""`tacit report`: what a run's directory says, as a page; or several runs side by side."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.exits import USER, end


@click.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN_B ...]", type=click.Path(path_type=Path))
@click.option("--share", is_flag=True, help="Leave out every figure that no ε covers, and what may hold paths.")
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Where the page goes.")
def command(runs: tuple[Path, ...], share: bool, output: Path | None) -> None:
    """Write the report of a run, or compare several.

    RUN is the folder of a run, such as runs/<time>-<name>; it may still be running. Its page is RUN/report.html, with
    each figure in RUN/plots. Of two or more runs, comparison.html here overlays loss and score over the rounds: a run
    whose inference results are protected is dashed.

    With --share the page is RUN/report-share.html or comparison-share.html. It shows what the clients' ε covers and
    lists what it leaves out, such as training losses, survivors, refused clients and times.
    """
    from tacit.runs.report import write_report

    try:
        page = write_report(list(runs), output, share)
    except ValueError as error:
        end(str(error), USER)
    except OSError as error:
        place = error.filename or runs[0]
        end(f"{place}: the report cannot be written there: {error.strerror}. Name a place with --output", USER)
    click.echo(f"Report: {page}")
