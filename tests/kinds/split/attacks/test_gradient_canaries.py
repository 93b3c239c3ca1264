"""Canaries at the cut, through the leader's own code: honest noise stays consistent, and faults are refuted."""

from __future__ import annotations

import numpy as np
import pytest

from tests.inside import inside

pytest.importorskip("torch")

from tacit.audit.attacks.mechanisms import Effort
from tacit.dp.mechanisms import gaussian
from tacit.kinds.split import tensors
from tacit.kinds.split.attacks.gradient_canaries import audit_gradients
from tacit.kinds.split.tasks.load import make_part
from tacit.kinds.split.tensors import GradientNoise
from tacit.randomness import seeded_rng
from tacit.runs.load import load

SETTINGS = load(
    {
        "kind": "split",
        "name": "cut",
        "topology": "V",
        "task": "split_cancer",
        "parties": {"clinic": {"role": "leader"}, "laboratory": {"role": "follower"}, "scanner": {"role": "follower"}},
        "gradients": {"protection": "noised", "noise_multiplier": 1.0, "clip": 0.5},
        "train": {"epochs": 1, "batch": 64},
    }
)


def audited(confidence=0.99, samples=1600):
    parts = {name: make_part(SETTINGS, name) for name in inside(SETTINGS).parties}
    return audit_gradients(SETTINGS, parts, GradientNoise(0.5, 1.0), seeded_rng(0), Effort(samples, confidence))


def test_the_noise_of_an_honest_leader_is_consistent():
    found = audited(1 - 1e-7)
    assert not found.refuted
    assert found.curve.false_negatives > found.curve.needed > 0
    assert "; closest in what " in found.attack
    assert found.curve.samples == 2 * 1600  # of two followers, in four visits of 400 records


def half_bare(gradient, noise):
    """Every other number without noise."""
    noise[:, ::2] = 0
    return gradient + noise


@pytest.mark.parametrize("fault", [lambda gradient, noise: gradient + noise / 2, half_bare])
def test_faulty_noise_of_gradients_is_refuted(fault, monkeypatch):
    honest = gaussian

    def faulty(rows, **keys):
        released = honest(rows, **keys)
        return type(released)(fault(rows, released.value - rows), released.event)

    monkeypatch.setattr(tensors, "gaussian", faulty)
    assert audited().curve.refuted


def test_gradients_that_are_not_clipped_are_refuted(monkeypatch):
    monkeypatch.setattr(tensors, "clip_l2", lambda row, clip: None)
    found = audited()
    assert found.curve.refuted
    assert np.isfinite(found.curve.needed)
