"""Models that are sent in a few bits: the same numbers on both sides, and nothing else is accepted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.events import Kept
from tacit.kinds.horizontal.answered import model_digest
from tacit.kinds.horizontal.download import download, download_bytes, restored, same_download
from tacit.kinds.horizontal.frames import to_client, to_frame
from tacit.kinds.horizontal.messages import Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tests.kinds.horizontal.federations import finished, run, settings_for

LAYOUT = Layout(("a", "b", "c"), ((3, 4), (), (5,)), "float32")


def model_of(seed: int, dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=12), rng.normal(size=1) * 100, rng.normal(size=5) * 1e-3]).astype(dtype)


@given(st.integers(0, 2**32), st.integers(8, 16), st.sampled_from(["float32", "float64"]))
def test_both_sides_have_the_same_numbers_and_they_are_near(seed, bits, dtype):
    layout, model = Layout(LAYOUT.names, LAYOUT.shapes, dtype), model_of(seed, dtype)
    sent = download(layout, model, bits)
    frame = to_frame(Work(0, sent.model, None, sent.coded))
    work = to_client(frame, layout, len(frame), bits)
    assert isinstance(work, Work)
    assert work.model.tobytes() == sent.model.tobytes()
    assert work.model.dtype == np.dtype(dtype)
    for part in (slice(0, 12), slice(12, 13), slice(13, 18)):
        step = np.abs(model[part]).max() / (2 ** (bits - 1) - 1)
        assert np.abs(sent.model[part].astype(np.float64) - model[part]).max() <= 0.5001 * step
    assert sent.nbytes == download_bytes(layout, bits) < 8 * 3 + 18 * bits / 8 + 512


def test_without_bits_the_model_is_sent_as_it_is():
    model = model_of(1)
    sent = download(LAYOUT, model, None)
    assert sent.coded is None
    assert sent.model.base is model
    assert not sent.model.flags.writeable
    assert sent.nbytes == download_bytes(LAYOUT, None) == 72


def test_a_model_of_zeros():
    assert not download(LAYOUT, np.zeros(18, np.float32), 8).model.any()


def test_models_that_clients_cannot_tell_apart_are_the_same_download():
    model = np.array([1.0, 0.5, 0.25] + [0.0] * 15, np.float32)
    moved = model.copy()
    moved[1] += 1e-4
    assert same_download(LAYOUT, model, moved, 8)
    assert not same_download(LAYOUT, model, moved, None)
    moved[1] += 0.1
    assert not same_download(LAYOUT, model, moved, 8)


@given(st.binary(max_size=200))
def test_other_lengths_are_refused(data):
    if len(data) == download_bytes(LAYOUT, 8):
        return
    with pytest.raises(PeerError, match="are due"):
        restored(LAYOUT, data, 8)


@pytest.mark.parametrize("step", [-1.0, np.nan, np.inf, 1e31])
def test_steps_that_no_model_has_are_refused(step):
    coded = download(LAYOUT, model_of(1), 8).coded
    assert coded is not None
    bad = np.array([step], "<f8").tobytes() + coded[8:]
    with pytest.raises(PeerError, match="steps are negative, NaN, infinite or enormous"):
        restored(LAYOUT, bad, 8)


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT"])
def test_a_run_with_rounded_downloads_learns_as_well(encrypt_type):
    """The coordinator keeps its model unrounded, so that the errors of rounding do not add up."""
    keys = {"clients": 6, "rounds": 6, "encrypt": {"encrypt_type": encrypt_type, "dp_eps": 1e6}}
    whole, _ = run(settings_for(**keys))
    few, kept = run(settings_for(**keys, round={"down": 8}))
    assert [event.survivors for event in finished(kept)] == [6] * 6
    weights = few.coordinator.model["weights"]
    assert len(np.unique(weights)) > 2**8  # not the rounded one
    difference = np.linalg.norm(weights - whole.coordinator.model["weights"])
    assert difference < 0.05 * np.linalg.norm(weights)
    metrics = [event.metrics["accuracy"] for event in finished(kept)]
    assert metrics[-1] > 0.85


class Moved:
    """Digits from a model that is not all zeros: rounding changes it."""

    def __init__(self) -> None:
        self._task = tasks.make("digits", 6, 0, {})

    def model(self):
        return {
            name: array + np.arange(array.size, dtype=array.dtype).reshape(array.shape) / 7
            for name, array in self._task.model().items()
        }

    def fit(self, client, model, work):
        return self._task.fit(client, model, work)


def test_a_resumed_simulation_knows_the_models_that_its_clients_were_sent():
    """A client knows the rounded model: if a round is repeated, it is the same one."""
    settings = settings_for(clients=6, rounds=1, encrypt={"encrypt_type": "PW_ENCRYPT"}, round={"down": 8})
    stopped, coordinator = (Prepared.of(settings, Moved()).coordinator(Kept(), lambda: 0.0) for _ in range(2))
    (_, work), *_ = stopped.begin(0.0)
    coordinator.restore(stopped.state(), stopped.model)
    coordinator.begin(0.0)
    assert coordinator.answered([0])[0]["models"] == [model_digest(coordinator.layout, work.model)]
    assert not np.array_equal(work.model, coordinator.layout.flatten(coordinator.model))
