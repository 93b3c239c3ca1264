"""`tacit report`: the report of a run as a page, or a comparison of several runs."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.exits import USER, end


@click.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN_B ...]", type=click.Path(path_type=Path))
@click.option(
    "--share", is_flag=True, help="Leave out every figure that no ε covers, and settings that may hold paths."
)
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Path of the page.")
def command(runs: tuple[Path, ...], share: bool, output: Path | None) -> None:
    """Write the report of a run, or compare several.

    RUN is the folder of a run, such as runs/<time>-<name>; it may still be running. Its page is RUN/report.html, with
    each figure in RUN/plots. For two or more runs, comparison.html in the current folder overlays loss and score over
    the rounds; runs with protected inference results are dashed.

    With --share the page is RUN/report-share.html or comparison-share.html. It shows figures that the clients' ε covers
    and lists what it leaves out, such as training losses, survivors, refused clients and times.
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
