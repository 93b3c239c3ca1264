"""What a client stores before anything paid for leaves it: whenever it changed, and only then."""

import json
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest

from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.kind import Seat
from tacit.kinds.horizontal import join
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Layout
from tacit.net.handshake import Parting
from tacit.net.site import Site
from tacit.net.star_guest import StarGuest
from tacit.runs.join import take_part
from tacit.runs.load import load
from tacit.store.directory import RunDirectory
from tacit.store.files import write_twice


def test_a_state_is_stored_when_it_changed(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(join, "write_twice", lambda path, data: (written.append(path), write_twice(path, data)))
    state = {"attempts": 1, "uploads": 1, "sums": 0}
    client = SimpleNamespace(state=lambda: dict(state))
    store = join._storer(tmp_path, 3, Costs(Settings(task="digits", rounds=3, clients=5), 10), "same")
    for changed in ({}, {}, {"sums": 1}, {}, {"attempts": 2}):
        state.update(changed)
        store(client)
        assert json.loads((tmp_path / "client-3.json").read_text())["state"] == state
    assert len(written) == 3


def test_a_state_that_could_not_be_stored_is_stored_the_next_time(tmp_path):
    client = SimpleNamespace(state=lambda: {"attempts": 1, "uploads": 1, "sums": 0})
    folder = tmp_path / "gone"
    store = join._storer(folder, 0, Costs(Settings(task="digits", rounds=3, clients=5), 10), "same")
    with pytest.raises(OSError, match="gone"):
        store(client)
    folder.mkdir()
    store(client)
    assert (folder / "client-0.json").exists()


def test_a_client_that_is_stopped_when_it_has_heard_the_end_is_done(tmp_path, monkeypatch):
    """Nobody would tell it again: the coordinator ends too."""
    settings = load({"kind": "horizontal", "name": "fleet", "task": "digits", "rounds": 1, "clients": 2})

    async def told(guest, should_stop):
        os.kill(os.getpid(), signal.SIGTERM)
        return Parting("done", "")

    monkeypatch.setattr(StarGuest, "run", told)
    site = Site("127.0.0.1:1", "127.0.0.1:1", None, Local())
    with RunDirectory.create(tmp_path, settings, 0.0, party="client-0") as directory:
        outcome = take_part(settings, Seat("client-0", (0,)), site, sink=directory, directory=directory)
    assert (outcome.status, outcome.text) == ("done", "")


def test_what_an_earlier_release_stored_has_answered_no_model(tmp_path):
    old = {"attempts": 4, "uploads": 4, "sums": 0}
    join._storer(tmp_path, 2, Costs(Settings(task="digits", rounds=3, clients=5), 10), "same")(
        SimpleNamespace(state=lambda: dict(old))
    )
    assert join._stored(tmp_path, 2, "same") == old
    client = Client(Settings(task="digits", rounds=3, clients=5), 2, None, Layout.of({"weights": np.zeros(10)}))
    client.restore(join._stored(tmp_path, 2, "same"))
    assert client.state() == old | {"models": [], "repeats": 0, "opened": []}


def test_what_a_client_answered_is_stored_and_read(tmp_path):
    state = {"attempts": 4, "uploads": 4, "sums": 2, "models": ["0a" * 32], "repeats": 1, "opened": [[0, 1], [1, 4]]}
    store = join._storer(tmp_path, 2, Costs(Settings(task="digits", rounds=3, clients=5), 10), "same")
    store(SimpleNamespace(state=lambda: dict(state)))
    assert join._stored(tmp_path, 2, "same") == state
    for name, wrong in (("models", ["0a"]), ("repeats", -1), ("opened", [["x"]])):
        write_twice(tmp_path / "client-2.json", {"state": state | {name: wrong}, "ledger": {}})
        with pytest.raises(ConfigError, match="what was spent cannot be read from it"):
            join._stored(tmp_path, 2, "same")
