"""`tacit init`: a file or a folder to start from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.exits import USER, end

if TYPE_CHECKING:
    from tacit.kind import Kind

_SUFFIXES = (".yaml", ".yml")


@click.command("init")
@click.argument("kind", default="horizontal")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--task", metavar="NAME", help="Task of a folder; of a horizontal federation: torch, sklearn or lora.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def command(kind: str, path: Path | None, task: str | None, force: bool) -> None:
    """Write a commented file, or a folder that runs, to start from.

    KIND is horizontal, private_training, vertical_logistic, vertical_trees or split, or a kind that an installed
    package offers. A PATH that ends with .yaml is a file (default: KIND.yaml). Any other PATH is a folder with data, a
    model, a file, a test and a README.
    """
    from tacit.config.load import ConfigError, write_folder, write_starter
    from tacit.kind import find

    try:
        found = find(kind)
        if path is None and task is None:
            path = Path(f"{kind}.yaml")
        if path is not None and path.suffix in _SUFFIXES:
            if task is not None:
                raise ConfigError(f"--task is for a folder, and {path} is a file: leave out .yaml, or --task")
            write_starter(found.starter(), path, overwrite=force)
            click.echo(f"{path} is written. Run it with: tacit run {path}")
            return
        texts = _folder(found, task)
        path = path or Path(f"{kind}-{task}")
        write_folder(texts, path, overwrite=force)
    except ConfigError as error:
        end(str(error), USER)
    file = next(name for name in texts if Path(name).suffix in _SUFFIXES)
    click.echo(f"{path} is written: {', '.join(texts)}. Run it with: cd {quote(str(path))} && tacit run {file}")


def _folder(kind: Kind[Any], task: str | None) -> Mapping[str, str]:
    """The files of a folder by name. A kind without folders of its own has its file and a README."""
    from tacit.config.load import ConfigError

    templates = kind.templates()
    if task is not None and task not in templates:
        known = f"take {' or '.join(templates)}" if templates else "leave it out"
        raise ConfigError(f"--task is {task!r}, which {kind.name} does not have: {known}")
    if templates:
        return templates[task or next(iter(templates))]
    file = f"{kind.name}.yaml"
    return {file: kind.starter(), "README.md": f"# {kind.name}\n\n`tacit run {file}` runs it.\n"}
