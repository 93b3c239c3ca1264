"""Masks: float masks give the weights away, ring masks do not."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.crypto.prg import add_masks
from tacit.kinds.horizontal.attacks.masks import audit_federation_masks, audit_masks, correlation
from tacit.kinds.horizontal.task import Fitted
from tests.kinds.horizontal.federations import settings_for

CLIENTS, NUMBERS = 8, 100_000
# Perfect masks look informative once in 10^7 times: the limit of the correlation is then 5.3 / sqrt(800,000) = 0.006.
CONFIDENCE = 1 - 1e-7


class Weights:
    """A task whose clients learn numbers of their own."""

    def model(self):
        return {"weights": np.zeros(NUMBERS)}

    def fit(self, client, model, work):
        return Fitted({"weights": np.random.default_rng(client).normal(0, 0.5, NUMBERS)}, 3, 0.1)


# The noise of distributed DP must not do the work of the masks: without them these uploads correlate by 0.06.
PROTECTIONS = {"PW_ENCRYPT": {}, "DDP_ENCRYPT": {"ddp_eps": 1e5}}


def audited(encrypt_type):
    encrypt = {"encrypt_type": encrypt_type, **PROTECTIONS[encrypt_type]}
    settings = settings_for(rounds=1, clients=CLIENTS, encrypt=encrypt)
    return audit_federation_masks(settings, Weights(), CONFIDENCE)


def float_masked(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pairwise masks as floats in [-1, 1], which cancel in the sum."""
    uploads = weights.copy()
    for one in range(len(weights)):
        for other in range(one):
            mask = rng.uniform(-1, 1, weights.shape[1])
            uploads[one] += mask
            uploads[other] -= mask
    return uploads


@pytest.mark.parametrize("clients", [4, 10])
def test_float_masks_are_caught(clients):
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.5, (clients, 4000))
    uploads = float_masked(weights, rng)
    assert uploads.sum(axis=0) == pytest.approx(weights.sum(axis=0))
    found = audit_masks(weights, uploads, "float masks")
    assert found.on.informative
    assert found.on.value == pytest.approx(0.5 / np.sqrt(0.25 + (clients - 1) / 3), abs=0.02)
    assert found.off.value == pytest.approx(1)


@pytest.mark.parametrize("encrypt_type", PROTECTIONS)
def test_ring_masks_pass(encrypt_type):
    found = audited(encrypt_type)
    assert found.on.trials == CLIENTS * NUMBERS
    assert not found.on.informative


@pytest.mark.parametrize(("encrypt_type", "bits"), [("PW_ENCRYPT", 32), ("PW_ENCRYPT", 36), ("DDP_ENCRYPT", 31)])
def test_ring_masks_that_are_too_short_are_caught(encrypt_type, bits, monkeypatch):
    """Sabotage: masks that leave so many upper bits of the ring alone. The least correlation of the three is 0.02."""
    from tacit.secagg import client

    real = add_masks

    def short(words, keys, **options):
        mask = np.zeros_like(words)
        real(mask, keys, **options)
        words += mask >> np.asarray(bits, mask.dtype)

    monkeypatch.setattr(client, "add_masks", short)
    assert audited(encrypt_type).on.informative


@pytest.mark.parametrize("truth", [0.0, 0.3])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_interval_holds_the_truth_as_often_as_it_says(truth, sign):
    rng = np.random.default_rng(2)
    held = []
    for _ in range(500):
        hidden, other = rng.normal(size=(2, 50))
        score = correlation(hidden, sign * truth * hidden + np.sqrt(1 - truth**2) * other, 0.8)
        held.append(score.low <= truth <= score.high)
    assert 0.75 < np.mean(held) < 0.85


def test_what_has_no_masks_is_refused():
    with pytest.raises(ValueError, match="no masks"):
        audit_federation_masks(settings_for(rounds=1), Weights())
    with pytest.raises(ValueError, match="at least 10"):
        correlation(np.zeros(4), np.zeros(4))
    with pytest.raises(ValueError, match="all the same"):
        correlation(np.zeros(40), np.arange(40))
