"""The keys of the parties that one party met in a run, in its folder: `peers.json`, and the same again as a copy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tacit.config.source import ConfigError
from tacit.net.pins import Pins
from tacit.store.files import write_twice
from tacit.store.party_folder import PEERS, PEERS_FILE, read_intact


def pins_in(folder: Path) -> Pins:
    """The pins of a run: those that are stored, and new ones are stored there."""
    path = folder / PEERS_FILE
    stored = read_intact(path, PEERS)
    known = {} if stored is None else stored.get("peers")
    if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
        raise ConfigError(f"{path}: it does not say which keys the other parties had: start a new run")

    def store(peers: Mapping[str, str]) -> None:
        write_twice(path, {"peers": dict(sorted(peers.items()))})

    return Pins(known, store)
