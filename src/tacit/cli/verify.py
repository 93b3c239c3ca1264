"""`tacit verify`: check a pack of evidence, offline and without anybody's data."""

from __future__ import annotations

from pathlib import Path

import click

from tacit.cli.exits import FAILED, USER, end

_PATH = click.Path(path_type=Path)


@click.command("verify")
@click.argument("pack", type=_PATH)
@click.option("--public-key", "key", metavar="FILE", type=_PATH, help="The signer's request or certificate.")
@click.option(
    "--authority", metavar="FILE", type=_PATH, help="authority.pem, if the pack has the signer's certificate."
)
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def command(pack: Path, key: Path | None, authority: Path | None, as_json: bool) -> None:
    """Check a PACK that `tacit evidence` made: every hash, the chain of the log, the signature, and every ε.

    Give the signer's key with --public-key, or the authority whose certificate is to be trusted with --authority. Take
    either from another source than the pack.

    Exit codes: 0 all checks hold, 1 one does not hold or the pack was changed, 2 a mistake in the input.
    """
    import json
    from dataclasses import asdict

    from tacit.net.signer import public_key_of
    from tacit.runs.verification import verified
    from tacit.store.pack import BadPack

    if (key is None) == (authority is None):
        end("give the signer's key with --public-key, or the authority's certificate with --authority", USER)
    if not pack.is_file():
        end(f"{pack}: there is no such file: give a pack that tacit evidence made", USER)
    try:
        public = None if key is None else public_key_of(key)
        trusted = None if authority is None else authority.read_bytes()
    except OSError as error:
        end(f"{authority}: it cannot be read: {error.strerror}", USER)
    except ValueError as error:
        end(str(error), USER)
    try:
        found = verified(pack, public=public, authority=trusted)
    except BadPack as error:
        end(_plain(f"does not hold: {error}"), FAILED)
    except ValueError as error:
        end(_plain(str(error)), USER)
    if as_json:
        shown = {"holds": found.holds, "signer": found.signer, "checks": [asdict(each) for each in found.checks]}
        click.echo(json.dumps(shown, indent=2))
    else:
        for each in found.checks:
            click.echo(f"{each.verdict + ':':<15} {_plain(f'{each.what}: {each.text}')}")
        click.echo(_LIMITS)
    if not found.holds:
        raise SystemExit(FAILED)


def _plain(text: str) -> str:
    """On one line of a terminal: a pack comes from others, and must not write lines of its own, or move the cursor."""
    shown = "".join(each if each.isprintable() else "�" for each in text[:_LONGEST])
    return shown if len(text) <= _LONGEST else f"{shown}…"


_LONGEST = 2000
_LIMITS = "Not proved: that the run was carried out as it is told, and that nothing else was released."
