"""How a party is reached and who it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tacit.config.local import Keys, Local
from tacit.config.source import ConfigError
from tacit.net.identity import Credentials
from tacit.net.key_files import load_credentials
from tacit.net.pausing import Pausing
from tacit.net.pins import Pins
from tacit.net.transport import Transport, default_transport
from tacit.net.vitals import Vitals
from tacit.sections import Network


@dataclass(frozen=True, slots=True)
class Site:
    """How a party is reached and who it is."""

    address: str  # of the coordinator, or of whom the others connect to
    bind: str
    credentials: Credentials | None
    local: Local
    folder: Path = Path()  # that the local file's paths are relative to
    network: Network = field(default_factory=Network)
    pins: Pins = field(default_factory=Pins)  # the keys of parties that were met earlier in this run
    pausing: Pausing = field(default_factory=Pausing)  # what an operator asks of a coordinator
    vitals: Vitals = field(default_factory=Vitals)  # what an operator is shown
    # Made with the site, before a task is loaded: one that loads gRPC itself would have it take TLS 1.2.
    transport: Transport = field(default_factory=default_transport)


def own_credentials(local: Local, folder: Path, party: str) -> Credentials:
    """The keys that a party's local file names; ConfigError if they are not its own."""
    if local.keys is None:
        raise ConfigError("keys are missing: name them in the --local file (`tacit keys` makes them)")
    keys = local.keys
    credentials = credentials_of(keys, folder)
    if credentials.name != party:
        raise ConfigError(f"the certificate is of {credentials.name}, and you want to be {party}")
    return credentials


def credentials_of(keys: Keys, folder: Path) -> Credentials:
    """What the `keys` of a local file name, whose paths are relative to `folder`."""
    revoked = None if keys.revoked is None else folder / keys.revoked
    return load_credentials(folder / keys.private, folder / keys.certificate, folder / keys.authority, revoked=revoked)


def manner(site: Site) -> str:
    """How a party joins the network, in words."""
    if site.credentials is None:
        return "without certificates (--insecure): on this machine only, and any user of it can pose as any party"
    return f"as {site.credentials.name}, whose certificate is valid until {site.credentials.expires:%Y-%m-%d}"
