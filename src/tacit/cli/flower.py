"""`tacit flower`: a federation for a Flower fleet."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.exits import USER, end

_PATH = click.Path(path_type=Path)


@click.group("flower")
def command() -> None:
    """Run a file on a Flower fleet (extra flower)."""


@command.command("init")
@click.argument("file", type=_PATH)
@click.argument("folder", metavar="DIR", type=_PATH)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of FILE; may be repeated.")
def init(file: Path, folder: Path, overrides: tuple[str, ...]) -> None:
    """Write a Flower app for FILE into DIR, for `flwr run DIR`."""
    from tacit.config.load import ConfigError
    from tacit.flower.project import write_project

    try:
        thoughts = write_project(file, folder, overrides)
    except (ConfigError, ValueError) as error:
        end(str(error), USER)
    for thought in thoughts:
        click.echo(f"Note: {thought}", err=True)
    click.echo(f"{folder} is written. Flower sends telemetry and installs what an app names; to turn both off:")
    click.echo("  export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1")
    click.echo("  flower-superlink --disable-runtime-dependency-installation ...")
    click.echo("  flower-supernode --node-config 'tacit-local=\"/path/site.yaml\"' ...")
    click.echo(f"  flwr run {folder}")
