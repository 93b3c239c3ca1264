"""Being one party of a file, over a network: whatever its kind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.events import Noted, Sink
from tacit.kind import Join, S, Seat, fingerprint, kind_of
from tacit.net.identity import Credentials
from tacit.net.loopback import on_loopback
from tacit.net.pausing import Pausing
from tacit.net.pins import Pins
from tacit.net.revocation_list import RevocationList
from tacit.net.site import Site, own_credentials
from tacit.runs.outcome import Outcome, carried_out
from tacit.runs.policy import charged
from tacit.runs.resume import unfinished
from tacit.sections import Network, Settings
from tacit.store.directory import RunDirectory
from tacit.store.files import replace_file, sync_folder, write_twice
from tacit.store.party_folder import PAUSED_FILE, PEERS, PEERS_FILE, REVOKED, REVOKED_FILE, read_intact


def join_of(settings: S) -> Join[S]:
    """How parties of such a file join; ConfigError for a kind with one party."""
    join = kind_of(settings).join
    if join is None:
        raise ConfigError(f"kind {settings.kind} has one party: run it with tacit run")
    return join


def site_of(settings: Settings, local: Local, folder: Path, party: str, *, insecure: bool, noise: bool = False) -> Site:
    """Check that a party may take part like this. `noise`: tests may fix it."""
    if settings.insecure and not noise:
        raise ConfigError("simulation.insecure_noise_seed fixes the noise of real parties: leave it out of the file")
    address = local.coordinator or join_of(settings).address(settings, party)
    bind = local.bind or address
    shared: Network = getattr(settings, "network", Network())
    network = shared.adjusted(local.network)
    if insecure:
        for where in {address, bind}:
            if not on_loopback(where):
                raise ConfigError(f"--insecure is for this machine only, and {where} is not 127.0.0.1: give keys")
        return Site(address, bind, None, local, folder, network)
    return Site(address, bind, own_credentials(local, folder, party), local, folder, network)


def new_directory(
    settings: Settings, seat: Seat, runs: Path, state: Path | None, *, anew: bool = False
) -> RunDirectory:
    """The folder of a party that starts; a coordinator is not started if a run of its own was interrupted."""
    if seat.coordinates and state is None and not anew:
        old = unfinished(runs, settings, seat.name)
        if old is not None:
            raise ConfigError(f"{old} is a run of this coordinator that was interrupted: --resume {old}, or --new")
    named = f"{settings.name}-{seat.name}"
    return RunDirectory.create(
        runs,
        settings,
        time.time(),
        named=named,
        party=seat.whole,
        at=state,
        fingerprint=fingerprint(settings),
        counted=kind_of(settings).counted,
    )


def pins_in(folder: Path) -> Pins:
    """The keys of the parties that were met in a run, as its folder has them in `peers.json`; new ones go there."""
    path = folder / PEERS_FILE
    stored = read_intact(path, PEERS)
    known = {} if stored is None else stored.get("peers")
    if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
        raise ConfigError(f"{path}: it does not say which keys the other parties had: start a new run")

    def store(peers: Mapping[str, str]) -> None:
        write_twice(path, {"peers": dict(sorted(peers.items()))})

    return Pins(known, store)


def pausing_in(folder: Path) -> Pausing:
    """The pause of a coordinator's run: there is one as long as its folder holds the file `paused`."""
    path = folder / PAUSED_FILE

    def store(asked: bool) -> None:
        if asked:
            replace_file(path, b"An operator paused this run: `tacit unpause` ends it.\n")
        else:
            path.unlink(missing_ok=True)
            sync_folder(folder)

    return Pausing(path.exists(), store)


def keep_revocations(credentials: Credentials, folder: Path) -> str:
    """Have the newest revocation list kept in `revoked.json` of a run's folder. Returns what is to be said of it."""
    path = folder / REVOKED_FILE
    stored = (read_intact(path, REVOKED) or {}).get("list", "")

    def store(newest: RevocationList) -> None:
        write_twice(path, {"list": newest.pem.decode()})

    try:
        said = credentials.revocations.keep(str(stored).encode(), store)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}: start a new run, with the newest list of the authority") from None
    try:
        credentials.identify(credentials.certificate)
    except PeerError as error:
        raise ConfigError(str(error)) from None
    return said


def take_part(settings: Settings, seat: Seat, site: Site, *, sink: Sink, directory: RunDirectory) -> Outcome:
    """Be that party, to the end."""
    join = join_of(settings)
    if site.credentials is not None and (said := keep_revocations(site.credentials, directory.path)):
        sink.emit(Noted(said))
    site = replace(site, pins=pins_in(directory.path))
    with charged(settings, seat, site.local, site.folder, directory.path) as account:
        outcome = carried_out(
            settings,
            lambda kind, here: join.take_part(settings, seat, site, replace(here, paid=account.paid)),
            sink=sink,
            directory=directory,
            clients=bool(seat.clients),
        )
        account.over = outcome.status in ("done", "budget reached")
    return outcome
