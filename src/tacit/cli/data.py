"""`tacit data`: a party's table, before anything is trained or sent."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.exits import USER, end

_PATH = click.Path(path_type=Path)


@click.group("data")
def command() -> None:
    """Check the tables of a file before they are used."""


@command.command("check")
@click.argument("file", type=_PATH)
@click.option("--party", metavar="NAME", help="Check this party's table only; default: all local tables.")
@click.option("--local", "local_file", metavar="FILE", type=_PATH, help="That party's own file, which names its table.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of FILE; may be repeated.")
def check(file: Path, party: str | None, local_file: Path | None, overrides: tuple[str, ...]) -> None:
    """Report every problem of the tables of FILE, and how each column is used.

    FILE is the shared file of the parties, or a table by itself (.csv, .tsv, .parquet). All problems are listed at
    once, each with its line, column, value and remedy. `tacit run` and `tacit join` make the same check before
    anything is sent. This command sends and writes nothing. Its output shows values of the table: it is for the owner
    of the table only.

    Exit codes: 0 the tables can be used, 2 something must be corrected first.
    """
    from tacit.config.local import load_local
    from tacit.runs.data import check_data, check_table
    from tacit.runs.load import load

    if local_file is not None and party is None:
        end("--local is one party's own file: add --party NAME", USER)
    try:
        if file.suffix.lower() in (".csv", ".tsv", ".parquet", ".pq"):
            if party is not None or overrides:
                end(f"{file} is a table: --party, --local and --set go with the shared file of the parties", USER)
            found = check_table(file)
        else:
            found = check_data(load(file, overrides), party, *load_local(local_file))
    except ValueError as error:
        end(str(error), USER)
    except OSError as error:
        end(f"{error.filename}: {error.strerror}", USER)
    click.echo("\n".join(found.lines))
    if found.errors:
        raise SystemExit(USER)
