"""The model that a client keeps: the last one, written beside the round and not in it."""

from __future__ import annotations

import threading

import numpy as np

from tacit.kinds.horizontal.last_model import LastModel
from tacit.kinds.horizontal.vector import Layout
from tacit.store.directory import read_model
from tacit.store.party_folder import Store
from tests.subprocesses import HANGS

LAYOUT = Layout.of({"weights": np.zeros((2, 3), np.float32), "bias": np.zeros(3, np.float32)})


def model(value: float):
    return np.full(LAYOUT.size, value, np.float32)


def test_the_last_model_is_kept_as_a_store_keeps_it(tmp_path):
    last = LastModel(tmp_path, LAYOUT)
    for attempt in range(3):
        last.keep(attempt, model(attempt))
        last.keep(attempt, model(99))  # another client of this process is sent the same
    assert last.close() == ""
    stored = read_model(tmp_path / "model.safetensors")
    assert {name: array.shape for name, array in stored.items()} == {"weights": (2, 3), "bias": (3,)}
    assert all((array == 2).all() for array in stored.values())
    assert Store(tmp_path).model_round() == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors"]


def test_nobody_waits_for_the_disk_and_only_the_newest_is_written_next(tmp_path, monkeypatch):
    written, release = [], threading.Event()

    def slow(self, model, number):
        assert release.wait(HANGS)
        written.append(number)

    monkeypatch.setattr(Store, "save_model", slow)
    last = LastModel(tmp_path, LAYOUT)
    try:
        for attempt in range(50):
            last.keep(attempt, model(attempt))  # returns although nothing can be written
        assert written == []
    finally:
        release.set()
    assert last.close() == ""
    assert written[-1] == 49
    assert len(written) <= 2


def test_a_model_that_cannot_be_written_does_not_end_the_run(tmp_path):
    last = LastModel(tmp_path / "gone", LAYOUT)
    last.keep(0, model(1))
    assert "No such file" in last.close()
