"""`tacit keys`: who is who, for parties that talk over a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli.exits import FAILED, USER, end

if TYPE_CHECKING:
    from tacit.net.identity import Request

_PATH = click.Path(path_type=Path)


@click.group("keys")
def command() -> None:
    """Make and sign the keys by which parties know each other.

    One party, or a third, keeps the authority (init). Each party makes its keys (request); the authority signs its name
    (sign) and sends back the certificate with authority.pem.
    """


@command.command("init")
@click.argument("folder", default="authority", metavar="[DIR]", type=_PATH)
@click.option("--days", default=3650, show_default=True, help="How long it lasts.")
def init(folder: Path, days: int) -> None:
    """Make an authority in DIR (authority)."""
    from tacit.config.load import ConfigError
    from tacit.net.key_files import init_authority

    try:
        made = init_authority(folder, days=days)
    except ConfigError as error:
        end(str(error), USER)
    click.echo(f"The authority is made, until {made.expires:%Y-%m-%d}. Fingerprint: {made.fingerprint}")
    click.echo(f"Send {made.file} to every party; {folder / 'authority.private.pem'} never leaves this machine.")
    click.echo(f"Sign a party's request with: tacit keys sign NAME.request.pem --authority {folder}")


@command.command("request")
@click.argument("name")
@click.option("--out", "folder", default=".", metavar="DIR", type=_PATH, help="Where the files go.")
@click.option("--force", is_flag=True, help="Replace the keys that are there; their certificate becomes useless.")
def request(name: str, folder: Path, force: bool) -> None:
    """Make the keys of the party NAME, such as coordinator or client-3."""
    from tacit.config.load import ConfigError
    from tacit.net.key_files import make_request

    try:
        private, made = make_request(name, folder, overwrite=force)
    except ConfigError as error:
        end(str(error), USER)
    click.echo(f"Send {made.file} to the authority; {private} never leaves this machine.")
    click.echo(f"Tell them the fingerprint another way, as by telephone: {made.fingerprint}")


@command.command("sign")
@click.argument("file", metavar="REQUEST", type=_PATH)
@click.option("--authority", required=True, metavar="DIR", type=_PATH, help="The folder that `tacit keys init` made.")
@click.option("--out", metavar="FILE", type=_PATH, help="Where the certificate goes; NAME.certificate.pem by REQUEST.")
@click.option("--days", default=365, show_default=True, help="How long it lasts.")
@click.option("--yes", is_flag=True, help="Do not ask: the name and the fingerprint were checked.")
@click.option("--force", is_flag=True, help="Replace the certificate that is there.")
def sign(file: Path, authority: Path, out: Path | None, days: int, yes: bool, force: bool) -> None:
    """Sign a party's REQUEST, after you checked whose it is.

    Who holds the keys of a certificate is that party to all others. Ask the party for its fingerprint and compare. To
    renew a certificate, sign the same request again with --force.
    """
    from tacit.config.load import ConfigError
    from tacit.net.key_files import sign_request

    def approve(asked: Request) -> None:
        click.echo(f"{file} asks for the name {asked.name}. Fingerprint: {asked.fingerprint}")
        if yes:
            return
        if not sys.stdin.isatty():
            end("Nothing is signed: compare the fingerprint with the party's own, then repeat with --yes", USER)
        if not click.confirm(f"Did {asked.name} tell you this fingerprint?"):
            end("Nothing is signed.", FAILED)

    try:
        made = sign_request(authority, file, out, days=days, overwrite=force, approve=approve)
    except ConfigError as error:
        end(str(error), USER)
    click.echo(f"Send {made.file} and {authority / 'authority.pem'} to {made.name}: neither is secret.")
    click.echo(f"The certificate expires on {made.expires:%Y-%m-%d}.")


@command.command("show")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=_PATH)
def show(files: tuple[Path, ...]) -> None:
    """Say what each FILE is, of whom, and for how long. Nothing secret is shown."""
    from tacit.config.load import ConfigError
    from tacit.net.key_files import WARNING_DAYS, describe

    for file in files:
        try:
            found = describe(file)
        except ConfigError as error:
            end(str(error), USER)
        parts = [found.kind if found.name is None else f"{found.kind} {found.name}"]
        if found.expires is not None and found.days_left is not None:
            left = "expired" if found.days_left < 0 else f"{found.days_left} days left"
            parts.append(f"expires on {found.expires:%Y-%m-%d} ({left})")
        if found.fingerprint:
            parts.append(f"fingerprint {found.fingerprint}")
        click.echo(f"{file}: {', '.join(parts)}")
        if found.days_left is not None and found.days_left < WARNING_DAYS:
            remedy = "make a new one" if found.kind == "authority" else "have its request signed again"
            state = "is expired" if found.days_left < 0 else f"expires in {found.days_left} days"
            click.echo(f"Warning: {file} {state}: {remedy}", err=True)
