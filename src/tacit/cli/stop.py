"""`tacit stop`: stop a running party as SIGTERM does."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.asking import asked


@click.command("stop")
@click.argument("run", type=click.Path(path_type=Path))
def command(run: Path) -> None:
    """Stop the party that runs in the folder RUN, as SIGTERM does.

    It stores its state, tells the other parties that it comes back, and ends with exit code 5. The command does not
    wait for that. A supervisor that restarts on code 5 starts it again: stop the unit instead.

    Exit codes: 0 done, 2 no party runs there.
    """
    click.echo(asked(run, "stop")["text"])
