"""`tacit plan`: what a file will cost and reveal, before any training."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.exits import USER, end


@click.command("plan")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of FILE; may be repeated.")
@click.option("--party", metavar="NAME", help="Describe one party over the network: coordinator, client-3, ...")
@click.option("--local", "local_file", metavar="FILE", type=click.Path(path_type=Path), help="That party's own file.")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of that party's run, to show what it has paid so far.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("--plots", metavar="DIR", type=click.Path(path_type=Path), help="Draw the noise as SVG into DIR.")
def command(
    file: Path,
    overrides: tuple[str, ...],
    party: str | None,
    local_file: Path | None,
    state: Path | None,
    as_json: bool,
    plots: Path | None,
) -> None:
    """Show what FILE will cost in privacy and who will see what, without training.

    The plan has epsilon of a round and of the whole run, whom it protects and what it means; noise compared with
    signal; bytes and exchanges of each client; what leaves a client and how it is protected; what is not protected;
    and warnings.

    With --party it describes how `tacit join` will run that party: in which mode, with which data (--local), and what
    the party has paid so far (--state).
    """
    import json

    from tacit.cli.task_errors import task_traceback
    from tacit.config.local import load_local
    from tacit.config.task import look_beside
    from tacit.report.forecast import PartyForecast, draw, plain, words
    from tacit.runs.load import load
    from tacit.runs.plan import planned, planned_for

    if party is None and (local_file is not None or state is not None):
        end("--local and --state are one party's own: add --party NAME", USER)
    look_beside(file)
    try:
        settings = load(file, overrides)
        made = planned(settings) if party is None else planned_for(settings, party, *load_local(local_file), state)
    except ValueError as error:
        if task_traceback(error) is not None:
            raise
        end(str(error), USER)
    if plots is not None:
        try:
            drawn = draw(made.whole if isinstance(made, PartyForecast) else made, plots)
        except OSError as error:
            end(f"{plots}: pictures cannot be stored there: {error.strerror}", USER)
        for path in drawn:
            click.echo(f"Drawn: {path}", err=True)
        if not drawn:
            click.echo("Nothing to draw: only the Laplace noise on inference vectors has a picture.", err=True)
    if as_json:
        click.echo(json.dumps(plain(made), indent=2))
    else:
        click.echo(words(made), nl=False)
