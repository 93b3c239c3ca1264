"""`tacit unpause`: let a coordinator begin rounds again."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.asking import asked


@click.command("unpause")
@click.argument("run", type=click.Path(path_type=Path))
def command(run: Path) -> None:
    """End the pause of the federation whose coordinator runs in the folder RUN.

    It waits for clients as before a first round, for at most round.start_fl_job_time_window, and begins the next round.

    Exit codes: 0 done, 2 no party runs there, or it is no coordinator.
    """
    click.echo(asked(run, "unpause")["text"])
