"""`tacit pause`: let a coordinator begin no further round."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.asking import asked


@click.command("pause")
@click.argument("run", type=click.Path(path_type=Path))
def command(run: Path) -> None:
    """Pause the federation whose coordinator runs in the folder RUN.

    The round that is under way is finished; no further one begins until `tacit unpause RUN`. Clients are told, and wait
    without limit: their network.patience does not count, also if they lose the connection or join during the pause. The
    pause is stored: a coordinator that is stopped or killed meanwhile, and started again, is still paused.

    Only the coordinator of a federation over a network can be paused. Any other party can be stopped and resumed.

    Exit codes: 0 done, 2 no party runs there, or it is no coordinator.
    """
    click.echo(asked(run, "pause")["text"])
