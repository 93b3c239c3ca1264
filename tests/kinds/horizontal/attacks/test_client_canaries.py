"""Canaries through a client's own code: honest noise stays consistent, and each fault in it is refuted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.audit.attacks.mechanisms import Effort, audit_skellam
from tacit.dp import mechanisms
from tacit.dp.release import Released
from tacit.kinds.horizontal.attacks.client_canaries import audit_sums, audit_uploads, tensors
from tacit.kinds.horizontal.protections import local_dp
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Layout
from tacit.randomness import seeded_rng
from tacit.secagg import skellam
from tacit.secagg.skellam import SkellamEncoding

LAYOUT = Layout(("first", "bias", "last"), ((6, 8), (8,), (8, 3)), "float32")
SURE = 1 - 1e-7  # an honest mechanism is refuted by chance once in 10^7 tests
HONEST, FAULTY = Effort(samples=480, confidence=SURE), Effort(samples=480, confidence=0.99)
LOCAL = Settings.model_validate(
    {
        "task": "digits",
        "rounds": 1,
        "clients": 4,
        "encrypt": {
            "encrypt_type": "DP_ENCRYPT",
            "dp_encrypt": {"dp_eps": 4.0, "dp_delta": 1e-5, "dp_norm_clip": 0.5},
        },
    }
)
CENTRAL = Settings.model_validate(
    {
        "task": "digits",
        "rounds": 1,
        "clients": 6,
        "encrypt": {
            "encrypt_type": "DDP_ENCRYPT",
            "ddp_encrypt": {"ddp_eps": 4.0, "ddp_delta": 1e-5, "ddp_norm_clip": 0.5},
            "pw_encrypt": {"colluders": 2},
        },
    }
)


def uploads(effort=FAULTY):
    return audit_uploads(LOCAL, LAYOUT, seeded_rng(0), effort, clip=0.5)


def test_each_tensor_holds_a_canary_of_its_own():
    found = {name: places for name, places, _ in tensors(LAYOUT, seeded_rng(0))}
    assert [(places.min(), places.max()) for places in found.values()] == [(0, 47), (48, 55), (56, 79), (0, 79)]
    large = Layout(("one",), ((100_000,),), "float64")
    ((_, places, signs),) = tensors(large, seeded_rng(0))
    assert len(places) == len(signs) <= 512
    assert places[-1] == 99_999


def test_uploads_of_an_honest_client_are_consistent():
    found = uploads(HONEST)
    assert not found.refuted
    assert found.curve.false_negatives > found.curve.needed > 0
    assert found.audited.epsilon <= 4
    assert found.failure == pytest.approx(1 - SURE)


def gaussian_with(change):
    """The mechanism with a fault: `change` gets what was to be released and the noise in it."""
    honest = mechanisms.gaussian

    def faulty(values, **keys):
        released = honest(values, **keys)
        return Released(change(np.asarray(values, dtype=np.float64), released.value - values), released.event)

    return faulty


def bare_last_layer(values, noise):
    noise[..., 56:] = 0
    return values + noise


def half_bare(values, noise):
    noise[..., ::2] = 0
    return values + noise


def equal_pairs(values, noise):
    noise[..., 1::2] = noise[..., ::2]
    return values + noise


@pytest.mark.parametrize(
    ("change", "tensor"),
    [
        (lambda values, noise: values + noise / 16, None),
        (bare_last_layer, "last"),
        (half_bare, None),
        (equal_pairs, None),
    ],
)
def test_faulty_noise_of_uploads_is_refuted(change, tensor, monkeypatch):
    monkeypatch.setattr(mechanisms, "gaussian", gaussian_with(change))
    found = uploads()
    assert found.curve.refuted
    assert tensor is None or found.attack.endswith(tensor)


def test_uploads_that_are_not_clipped_are_refuted(monkeypatch):
    monkeypatch.setattr(local_dp, "clip_l2", lambda update, clip: None)
    assert uploads().curve.refuted


@pytest.mark.slow  # half a minute on a busy machine: a client for each of 8,000 uploads
def test_tensors_that_are_clipped_one_by_one_are_refuted(monkeypatch):
    honest = local_dp.clip_l2

    def clip_l2(update, clip):
        for part in np.split(update, [48, 56]):
            honest(part, clip)

    monkeypatch.setattr(local_dp, "clip_l2", clip_l2)
    found = uploads(replace(FAULTY, samples=8_000))
    assert found.curve.refuted
    assert found.attack.endswith("closest in all tensors together")


ENCODING = SkellamEncoding.for_budget(values=8, clip=0.5, clients=6, fewest=5, colluders=2, epsilon=4.0, delta=1e-5)


def noise_of_a_sum(encoding=ENCODING):
    return audit_skellam(
        encoding, delta=1e-5, honest=3, effort=Effort(samples=24_000, confidence=SURE), rng=seeded_rng(1)
    )


def test_skellam_noise_of_an_honest_sum_is_consistent():
    found = noise_of_a_sum()
    assert not found.refuted
    assert found.curve.margin > -0.4  # and the test is sharp


def test_half_a_share_of_skellam_noise_is_refuted(monkeypatch):
    honest = skellam.noise.skellam
    monkeypatch.setattr(skellam.noise, "skellam", lambda variance, shape, rng: honest(variance / 2, shape, rng))
    assert noise_of_a_sum().curve.refuted


def test_shares_without_the_colluders_are_refuted():
    assert noise_of_a_sum(replace(ENCODING, colluders=0)).curve.refuted


def test_sums_that_are_not_clipped_are_not_released(monkeypatch):
    monkeypatch.setattr(skellam, "clip_l2", lambda array, clip: None)
    with pytest.raises(ArithmeticError):
        noise_of_a_sum()


def test_canaries_in_opened_sums(monkeypatch):
    layout = Layout(("one",), ((24,),), "float32")
    assert not audit_sums(CENTRAL, layout, seeded_rng(0), replace(HONEST, samples=160), clip=0.5).refuted
    honest = skellam.noise.skellam
    monkeypatch.setattr(skellam.noise, "skellam", lambda variance, shape, rng: honest(variance / 400, shape, rng))
    assert audit_sums(CENTRAL, layout, seeded_rng(0), replace(FAULTY, samples=160), clip=0.5).curve.refuted
