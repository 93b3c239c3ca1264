"""`tacit keys`: who is who, for parties that talk over a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli import enrolling
from tacit.cli.exits import FAILED, USER, end

if TYPE_CHECKING:
    from tacit.net.identity import Request

_PATH = click.Path(path_type=Path)
_AUTHORITY = "Folder made by `tacit keys init`."
_WARNINGS = 5  # in one command
# As in `tacit.net.revocation_list`, which is not loaded for --help.
_REASONS = (
    "unspecified",
    "key-compromise",
    "superseded",
    "affiliation-changed",
    "cessation-of-operation",
    "privilege-withdrawn",
)


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


@click.group("keys")
def command() -> None:
    """Make and sign the keys by which parties identify each other.

    One of the parties, or a third party, runs the authority (init). Each party makes its keys (request). The authority
    signs the request (sign) and returns the certificate with authority.pem.

    For many parties: `issue` makes all keys in one place; or `token`, `serve` and `enrol` let each party make its own.
    """


@command.command("init")
@click.argument("folder", default="authority", metavar="[DIR]", type=_PATH)
@click.option("--days", default=3650, show_default=True, help="Days until it expires.")
def init(folder: Path, days: int) -> None:
    """Make an authority in DIR; default: authority."""
    from tacit.config.source import ConfigError
    from tacit.net.key_files import init_authority

    try:
        made = init_authority(folder, days=days)
    except ConfigError as error:
        end(str(error), USER)
    click.echo(f"The authority is made. It expires on {made.expires:%Y-%m-%d}. Fingerprint: {made.fingerprint}")
    click.echo(f"Send {made.file} to every party; {folder / 'authority.private.pem'} never leaves this machine.")
    click.echo(f"Sign a party's request with: tacit keys sign NAME.request.pem --authority {folder}")


@command.command("request")
@click.argument("name")
@click.option("--out", "folder", default=".", metavar="DIR", type=_PATH, help="Folder for the files.")
@click.option("--force", is_flag=True, help="Replace existing keys; their certificate becomes useless.")
def request(name: str, folder: Path, force: bool) -> None:
    """Make the keys of the party NAME, such as coordinator or client-3."""
    from tacit.config.source import ConfigError
    from tacit.net.key_files import make_request

    try:
        private, made = make_request(name, folder, overwrite=force)
    except ConfigError as error:
        end(str(error), USER)
    click.echo(f"Send {made.file} to the authority; {private} never leaves this machine.")
    click.echo(f"Tell the authority the fingerprint over another channel, such as telephone: {made.fingerprint}")


@command.command("sign")
@click.argument("file", metavar="REQUEST", type=_PATH)
@click.option("--authority", required=True, metavar="DIR", type=_PATH, help="Folder made by `tacit keys init`.")
@click.option(
    "--out",
    metavar="FILE",
    type=_PATH,
    help="Path of the certificate; default: NAME.certificate.pem, in the folder of REQUEST.",
)
@click.option("--days", default=365, show_default=True, help="Days until it expires.")
@click.option("--yes", is_flag=True, help="Do not ask; for a name and fingerprint that you have checked.")
@click.option("--force", is_flag=True, help="Replace an existing certificate.")
def sign(file: Path, authority: Path, out: Path | None, days: int, yes: bool, force: bool) -> None:
    """Sign the REQUEST of a party, after you have checked who sent it.

    All parties accept the holder of a certificate's keys as that party. Ask the party for its fingerprint and compare.
    To renew a certificate, sign the same request again with --force.
    """
    from tacit.config.source import ConfigError
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


@command.command("issue")
@click.option("--names", required=True, metavar="FILE", type=_PATH, help="Names, one per line; # begins a comment.")
@click.option("--authority", default="authority", show_default=True, metavar="DIR", type=_PATH, help=_AUTHORITY)
@click.option("--out", default="issued", show_default=True, metavar="DIR", type=_PATH, help="A folder per name in it.")
@click.option("--days", default=365, show_default=True, help="Days until they expire.")
@click.option("--force", is_flag=True, help="Replace the keys of names that have a certificate.")
def issue(names: Path, authority: Path, out: Path, days: int, force: bool) -> None:
    """Make keys and certificates for many parties.

    The private keys are made on this machine. For the machines of others, use `tacit keys token`. Names whose folder
    has a certificate are skipped: repeat an interrupted command to complete it.
    """
    from tacit.cli.counted import counted
    from tacit.config.source import ConfigError
    from tacit.net.authority_folder import AuthorityFolder
    from tacit.net.issuing import issue as issue_all
    from tacit.net.issuing import names_in

    new = 0
    try:
        wanted = names_in(names)
        with counted("certificates", len(wanted)) as step:

            def made(name: str, fresh: bool) -> None:
                nonlocal new
                new += fresh
                step()

            useless = issue_all(AuthorityFolder(authority), wanted, out, days=days, overwrite=force, made=made)
    except ConfigError as error:
        end(str(error), USER)
    done = len(wanted) - new
    click.echo(f"{_many(new, 'new certificate')} in {out}" + (f"; {_many(done, 'name')} had one" if done else ""))
    if new:
        click.echo("Send each folder to its party over a channel that nobody else reads: it holds private keys.")
    for name, reason in sorted(useless.items())[:_WARNINGS]:
        click.echo(f"Warning: the certificate of {name} was not replaced, and is of no use: {reason}", err=True)
    if useless:
        more = f", {len(useless)} in all" if len(useless) > _WARNINGS else ""
        click.echo(f"Issue such names alone, with --force{more}.", err=True)


@command.command("revoke")
@click.argument("name")
@click.option("--authority", default="authority", show_default=True, metavar="DIR", type=_PATH, help=_AUTHORITY)
@click.option("--reason", default="unspecified", show_default=True, type=click.Choice(_REASONS), help="As in RFC 5280.")
@click.option(
    "--certificate",
    "certificates",
    multiple=True,
    metavar="FILE",
    type=_PATH,
    help="Only this certificate of NAME, also one that is not in the register; may be repeated.",
)
def revoke(name: str, authority: Path, reason: str, certificates: tuple[Path, ...]) -> None:
    """Take back all certificates of NAME, and its unused tokens.

    The authority signs the next revocation list: DIR/revoked.pem. Its keys are refused from then on wherever the list
    is known. NAME can get a new certificate, for new keys.
    """
    from tacit.config.source import ConfigError
    from tacit.net.authority_folder import AuthorityFolder
    from tacit.net.revoking import revoke_name

    try:
        opened = AuthorityFolder(authority)
        made, cancelled = revoke_name(opened, name, certificates, reason)
    except ConfigError as error:
        end(str(error), USER)
    if cancelled:
        click.echo(f"{_many(cancelled, 'unused token')} of {name} {'is' if cancelled == 1 else 'are'} void.")
    if made is None:
        click.echo(f"{name} had no certificate: the revocation list is as it was.")
        return
    click.echo(f"{opened.revoked_file} is {made.words} now, with {_many(len(made.entries), 'certificate')}.")
    click.echo("Copy it to the coordinator: its local file names it (keys: {revoked: FILE}), and it tells the others.")


@command.command("show")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=_PATH)
def show(files: tuple[Path, ...]) -> None:
    """Show the type, party, expiry and fingerprint of each FILE. Nothing secret is shown."""
    from tacit.config.source import ConfigError
    from tacit.net.certificates import WARNING_DAYS
    from tacit.net.key_files import describe

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


for each in (enrolling.token, enrolling.serve, enrolling.enrol):
    command.add_command(each)
