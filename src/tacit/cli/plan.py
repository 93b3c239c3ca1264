"""`tacit plan`: what a file will cost and show, before anybody trains."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tacit.cli.exits import USER, end


@click.command("plan")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a key of FILE; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("--plots", metavar="DIR", type=click.Path(path_type=Path), help="Draw the noise as SVG into DIR.")
def command(file: Path, overrides: tuple[str, ...], as_json: bool, plots: Path | None) -> None:
    """Say what FILE will cost in privacy and who will see what, without training.

    Epsilon of a round and of the whole run, for whom and what it means; noise against signal; bytes and exchanges of
    each client; what leaves a client and how it is protected; what is not protected; what is worth a second thought.
    """
    import json

    from tacit.cli.task_errors import task_traceback
    from tacit.runs.config import load
    from tacit.runs.plan import draw, plain, planned, words

    sys.path += [str(Path.cwd()), str(file.resolve().parent)]
    try:
        made = planned(load(file, overrides))
    except ValueError as error:
        if task_traceback(error) is not None:
            raise
        end(str(error), USER)
    if plots is not None:
        try:
            drawn = draw(made, plots)
        except OSError as error:
            end(f"{plots}: pictures cannot be stored there: {error.strerror}", USER)
        for path in drawn:
            click.echo(f"Drawn: {path}", err=True)
        if not drawn:
            click.echo("Nothing to draw: only the Laplace noise on inference vectors has a picture.", err=True)
    click.echo(json.dumps(plain(made), indent=2) if as_json else words(made), nl=as_json)
