"""`tacit init`: a file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.exits import USER, end


@click.command("init")
@click.argument("kind", default="horizontal")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def command(kind: str, file: Path | None, force: bool) -> None:
    """Write a commented file to start from.

    KIND is horizontal, private_training, vertical_logistic or split, or a kind that an installed package offers. FILE
    is the name of the new file; default: KIND.yaml.
    """
    from tacit.config.load import ConfigError, write_starter
    from tacit.kind import find

    path = file or Path(f"{kind}.yaml")
    try:
        write_starter(find(kind).starter(), path, overwrite=force)
    except ConfigError as error:
        end(str(error), USER)
    click.echo(f"{path} is written. Run it with: tacit run {path}")
