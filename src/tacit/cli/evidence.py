"""`tacit evidence`: a signed pack from which others can check a run's figures."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.exits import USER, end

_PATH = click.Path(path_type=Path)


@click.command("evidence")
@click.argument("run", type=_PATH)
@click.option("--key", "private", required=True, metavar="FILE", type=_PATH, help="The signer's NAME.private.pem.")
@click.option("--certificate", metavar="FILE", type=_PATH, help="The signer's certificate, to be part of the pack.")
@click.option("-o", "--output", metavar="FILE", type=_PATH, help="Path of the pack; default: RUN/evidence.zip.")
def command(run: Path, private: Path, certificate: Path | None, output: Path | None) -> None:
    """Write a pack from which anyone without the data can check a run's figures offline.

    It has the settings, what leaves a party, the ledgers, the log, versions, claims that `tacit audit RUN` tested,
    and a page with answers for auditors; all of it signed. Like `tacit report --share`, it has no paths, names of
    parties or options, no figure that no ε covers and no finding about single records. The log is chained: what is
    withheld leaves a digest.

    `tacit verify PACK` checks it. The pack proves who signed it and that its figures follow from its events. It does
    not prove that the run was honest, or that nothing else was released.
    """
    from tacit.net.signer import read_signer
    from tacit.runs.evidence import make

    pack = output or run / "evidence.zip"
    try:
        key, public = read_signer(private, certificate)
        made = make(run, pack, key, public)
    except ValueError as error:
        end(str(error), USER)
    except OSError as error:
        end(f"{pack}: the pack cannot be written there: {error.strerror}", USER)
    click.echo(
        f"{made.lines} lines of the log ({made.withheld} withheld), {made.ledgers} ledgers, "
        f"{made.findings} tested claims"
    )
    click.echo(f"Pack: {made.path}")
    click.echo("Others check it with: tacit verify PACK --public-key FILE, or --authority authority.pem")
