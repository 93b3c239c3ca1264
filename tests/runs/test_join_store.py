"""What a client stores before anything paid for leaves it: whenever it changed, and only then."""

import json
from types import SimpleNamespace

import pytest

from tacit.horizontal.costs import Costs
from tacit.horizontal.settings import Settings
from tacit.runs import join


def test_a_state_is_stored_when_it_changed(tmp_path, monkeypatch):
    written = []
    write = join.write_twice
    monkeypatch.setattr(join, "write_twice", lambda path, data: (written.append(path), write(path, data)))
    state = {"attempts": 1, "uploads": 1, "sums": 0}
    client = SimpleNamespace(state=lambda: dict(state))
    store = join._storer(SimpleNamespace(path=tmp_path), 3, Costs(Settings(task="digits", rounds=3, clients=5), 10))
    for changed in ({}, {}, {"sums": 1}, {}, {"attempts": 2}):
        state.update(changed)
        store(client)
        assert json.loads((tmp_path / "client-3.json").read_text())["state"] == state
    assert len(written) == 3


def test_a_state_that_could_not_be_stored_is_stored_the_next_time(tmp_path):
    client = SimpleNamespace(state=lambda: {"attempts": 1, "uploads": 1, "sums": 0})
    folder = tmp_path / "gone"
    store = join._storer(SimpleNamespace(path=folder), 0, Costs(Settings(task="digits", rounds=3, clients=5), 10))
    with pytest.raises(OSError, match="gone"):
        store(client)
    folder.mkdir()
    store(client)
    assert (folder / "client-0.json").exists()
