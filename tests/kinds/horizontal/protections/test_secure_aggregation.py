"""Masks around updates of a few bits: the mean that a run comes to, and what is clipped."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.events import Noted
from tacit.kinds.horizontal.masked import inside_of
from tacit.kinds.horizontal.protections.contract import Clips, Inside, UnusableUpdate
from tacit.kinds.horizontal.task import Fitted
from tests.kinds.horizontal.federations import Numbers, finished, run, settings_for


def masks(**keys):
    return {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"bits": 8, "clip": 16.0, "largest_weight": 20} | keys}


class Clipped(Numbers):
    """Client i learns i in each weight, and twice as much in the last."""

    def fit(self, client, model, work):
        learnt = np.full(self._size, float(client))
        learnt[-1] *= 2
        return Fitted({"weights": model["weights"] + learnt}, client + 1, 0.0)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_mean_is_right_but_for_rounding(dropout):
    keys = {"rounds": 1, "simulation": {"dropout": dropout}, "seed": 5}
    exact, told = run(settings_for(**keys, encrypt={"encrypt_type": "PW_ENCRYPT", "bound": 32.0}), Clipped())
    engine, kept = run(settings_for(**keys, encrypt=masks(bits=16, clip=32.0)), Clipped())
    assert [event.survivors for event in finished(kept)] == [event.survivors for event in finished(told)]
    assert (finished(kept)[0].survivors < 12) == (dropout > 0)
    step = 32.0 / (2**15 - 1) * 20 / 4  # a client has 4 samples or more on average, of largest_weight 20
    assert engine.coordinator.model["weights"] == pytest.approx(exact.coordinator.model["weights"], abs=step)


def test_numbers_beyond_the_clip_are_clipped_and_counted_in_the_run():
    """Of clients 0 to 11, those from 9 on learn more than 8 in each weight, and those from 5 on in the last."""
    engine, kept = run(settings_for(rounds=1, encrypt=masks(bits=16, clip=8.0)), Clipped())
    weights, learnt = np.arange(1, 13), np.arange(12)
    wanted = (np.minimum(learnt, 8) * weights).sum() / weights.sum()
    assert engine.coordinator.model["weights"][:-1] == pytest.approx(wanted, abs=0.01)
    (note,) = [event.text for event in kept.events if isinstance(event, Noted)]
    assert note.startswith(f"{3 * 4 + 7} of 60 numbers that were learnt are beyond pw_encrypt.clip")


def test_a_mechanism_of_few_bits_reads_words_as_any_other():
    settings = settings_for(encrypt=masks(bits=12, clip=1.0, largest_weight=4))
    inside = inside_of(settings, 3)
    assert isinstance(inside, Inside)
    assert isinstance(inside, Clips)
    words = inside.encode(np.array([1.0, -0.5, 0.0]), 2, b"", None)
    assert inside.seen(words, b"") == pytest.approx([2.0, -1.0, 0.0], abs=4 / 2047)
    assert inside.weight(words, 1) == 2
    assert inside.decode(words, 1, b"") == pytest.approx([1.0, -0.5, 0.0], abs=2 / 2047)
    with pytest.raises(UnusableUpdate, match=r"more samples than pw_encrypt\.largest_weight = 4"):
        inside.encode(np.zeros(3), 5, b"", None)


def test_an_exact_ring_is_narrower_and_comes_to_the_same_sum():
    usual, exact = (settings_for(encrypt={"encrypt_type": "PW_ENCRYPT", "bits": bits}) for bits in (None, "exact"))
    assert inside_of(usual, 5).ring == (6, 64)
    assert inside_of(exact, 5).ring == (6, 50)
    models = [run(each, Clipped())[0].coordinator.model["weights"] for each in (usual, exact)]
    assert (models[0] == models[1]).all()


@pytest.mark.slow  # 40 s
def test_digits_are_learnt_as_well_with_eight_bits_each_way():
    """By a hundred clients; half a point is two of the 360 test images."""
    keys = {"clients": 100, "rounds": 15, "seed": 3, "train": {"epochs": 2, "batch": 8, "learning_rate": 0.1}}
    _, whole = run(settings_for(**keys, encrypt={"encrypt_type": "PW_ENCRYPT"}))
    _, few = run(settings_for(**keys, encrypt=masks(clip=0.2), round={"down": 8}))
    accuracy = [finished(kept)[-1].metrics["accuracy"] for kept in (whole, few)]
    assert accuracy[1] >= accuracy[0] - 0.0056
