"""`tacit keys token`, `serve` and `enrol`: a certificate by a one-time token, for a party that makes its own keys."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tacit.cli.exits import USER, end

_PATH = click.Path(path_type=Path)
_AUTHORITY = "Folder made by `tacit keys init`."


@click.command("token")
@click.argument("name")
@click.option("--authority", default="authority", show_default=True, metavar="DIR", type=_PATH, help=_AUTHORITY)
@click.option("--address", required=True, metavar="HOST:PORT", help="Where parties reach `tacit keys serve`.")
@click.option("--days", default=7, show_default=True, help="Days until the token expires.")
@click.option("--certificate-days", default=365, show_default=True, help="Days until the certificate expires.")
def token(name: str, authority: Path, address: str, days: int, certificate_days: int) -> None:
    """Make a token for one certificate of NAME.

    The token is printed and not stored. Give it to NAME over a channel that nobody else reads: its holder gets the
    certificate.
    """
    from tacit.config.source import ConfigError
    from tacit.net import enrolment_tokens
    from tacit.net.authority_folder import AuthorityFolder

    _check_address(address)
    try:
        made = enrolment_tokens.create(
            AuthorityFolder(authority), name, address, days=days, certificate_days=certificate_days
        )
    except ConfigError as error:
        end(str(error), USER)
    click.echo(made.text)
    click.echo(f"Good for one certificate of {name}, within {days} days, while `tacit keys serve` runs.", err=True)
    click.echo(f"{name} runs: tacit keys enrol TOKEN", err=True)


@click.command("serve")
@click.option("--authority", default="authority", show_default=True, metavar="DIR", type=_PATH, help=_AUTHORITY)
@click.option("--address", required=True, metavar="HOST:PORT", help="Address to listen on, such as 0.0.0.0:8444.")
def serve(authority: Path, address: str) -> None:
    """Give certificates to the holders of tokens, until Ctrl-C.

    This process uses the authority's private key. Run it at the authority, only as long as parties enrol, and never on
    a coordinator's machine.
    """
    import asyncio
    import signal
    import time

    from tacit.config.source import ConfigError
    from tacit.net.authority_folder import AuthorityFolder
    from tacit.net.enrolment_server import EnrolmentServer

    _check_address(address)

    def say(text: str) -> None:
        click.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")

    async def served(folder: AuthorityFolder) -> None:
        stop, host = asyncio.Event(), address.rpartition(":")[0]
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, stop.set)
        server = EnrolmentServer(folder, say)
        await server.run(address, lambda port: say(f"enrolment on {host}:{port}, for the authority {authority}"), stop)

    try:
        asyncio.run(served(AuthorityFolder(authority)))
    except ConfigError as error:
        end(str(error), USER)
    click.echo("Stopped.")


@click.command("enrol")
@click.argument("text", metavar="TOKEN")
@click.option("--out", "folder", default=".", metavar="DIR", type=_PATH, help="Folder for the files.")
@click.option("--force", is_flag=True, help="Replace an existing certificate and its keys.")
def enrol(text: str, folder: Path, force: bool) -> None:
    """Make this party's keys, and get its certificate for TOKEN.

    With - the token is read from the standard input, so that it does not show in the list of processes. If the answer
    is lost, repeat the command: it uses the same keys.
    """
    from tacit.config.source import ConfigError
    from tacit.net.enrolment import enrol as enrol_by

    if text == "-":
        text = sys.stdin.read(2000)
    try:
        made = enrol_by(text, folder, overwrite=force, say=lambda text: click.echo(text, err=True))
    except ConfigError as error:
        end(str(error), USER)
    click.echo(f"{made.name} is enrolled, until {made.expires:%Y-%m-%d}. Fingerprint: {made.fingerprint}")
    click.echo("For its local file:")
    files = {"private": made.private, "certificate": made.certificate, "authority": made.authority}
    if made.revoked is not None:
        files["revoked"] = made.revoked
    click.echo(f"  keys: {{{', '.join(f'{key}: {path}' for key, path in files.items())}}}")


def _check_address(address: str) -> None:
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 2**16):
        end(f"--address is {address!r}: give HOST:PORT, such as keys.example:8444", USER)
