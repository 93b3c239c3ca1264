"""Tensors across the cut: clipping and noise of each record's gradient, 8 bits, and bits as -1 and 1."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.dp.accounting import Ledger
from tacit.kinds.split.common_terms import schedule_of
from tacit.kinds.split.costs import gradient_noise
from tacit.kinds.split.embedding_dp import EmbeddingDP
from tacit.kinds.split.tensors import (
    GradientNoise,
    activations_message,
    gradient_message,
    take_activations,
    take_gradient,
)
from tacit.randomness import seeded_rng
from tests.kinds.split.networks import settings_u, settings_v

RNG = np.random.default_rng(0)


def test_the_noise_is_that_of_twice_the_clip():
    noise = GradientNoise(clip=0.5, noise_multiplier=3.0)
    records = 20
    zeros = np.zeros((records, 40, 50), dtype=np.float32)
    out = noise.protect(zeros, seeded_rng(1)) * records  # each record's own gradient
    expected = 3.0 * 2 * 0.5
    assert out.std() == pytest.approx(expected, rel=0.02)
    assert stats.kstest(out.reshape(-1) / expected, "norm").pvalue > 1e-4
    event = noise.event(2000)
    assert (event.noise_multiplier, event.unit, event.relation) == (3.0, "record", "replace-one")


def test_each_record_is_clipped_by_itself():
    """Without noise to speak of, what comes out differs by at most 2 * clip for any two records."""
    noise = GradientNoise(clip=0.5, noise_multiplier=1e-6)
    gradient = RNG.standard_normal((4, 3, 5)).astype(np.float32) * np.array([1e-3, 1.0, 50.0, 1e4])[:, None, None]
    out = noise.protect(gradient.astype(np.float32) / 4, seeded_rng(2)) * 4
    norms = np.linalg.norm(out.reshape(4, -1), axis=1)
    assert norms[0] == pytest.approx(np.linalg.norm(gradient[0]), rel=1e-2)  # below the clip: as it is
    assert norms[1:] == pytest.approx(0.5, rel=1e-4)
    cosine = (out[3] * gradient[3]).sum() / np.linalg.norm(out[3]) / np.linalg.norm(gradient[3])
    assert cosine == pytest.approx(1, abs=1e-6)


def test_an_epsilon_for_the_training_holds_for_all_visits_and_followers():
    settings = settings_v(gradients={"protection": "noised", "epsilon": 2.0, "delta": 1e-6})
    schedule = schedule_of(settings, 70)
    noise = gradient_noise(settings, schedule)
    ledger = Ledger("record", "replace-one")
    ledger.spend(noise.event(6), schedule.visits)
    ledger.spend(noise.event(5), schedule.visits)
    assert 1.99 < ledger.epsilon(1e-6) <= 2.0
    assert gradient_noise(settings_u(), schedule) is None


@given(st.integers(1, 6), st.integers(1, 30), st.integers(0, 10**6))
def test_8_bits_are_without_bias_and_off_by_less_than_one_level(records, size, seed):
    gradient = torch.from_numpy(np.random.default_rng(seed).standard_normal((records, size)).astype(np.float32))
    gradient[0] = 0
    message = gradient_message(7, gradient, 8, np.random.default_rng(seed))
    assert len(message.body) == records * size
    back = take_gradient(message, 7, (records, size), 8, "peer")
    level = gradient.abs().amax(dim=1, keepdim=True) / 127
    assert ((back - gradient).abs() <= level * (1 + 1e-5)).all()
    assert (back[0] == 0).all()


def test_8_bits_average_to_the_gradient():
    gradient = torch.tensor([[1.0, 0.00123, -0.3337]])
    rng = np.random.default_rng(3)
    mean = sum(take_gradient(gradient_message(0, gradient, 8, rng), 0, (1, 3), 8, "peer") for _ in range(4000)) / 4000
    assert torch.allclose(mean, gradient, atol=4 * 0.5 / 127 / 4000**0.5)


def test_floats_cross_as_they_are():
    values = torch.from_numpy(RNG.standard_normal((3, 4)).astype(np.float32)).T
    arrived = take_activations(activations_message(2, values, None, None), 2, (4, 3), False, "peer")
    assert torch.equal(arrived.detach(), values)
    assert arrived.requires_grad
    back = take_gradient(gradient_message(2, values, 32, None), 2, (4, 3), 32, "peer")
    assert torch.equal(back, values)


def test_bits_arrive_as_minus_one_and_one():
    values = torch.tensor([[0.5, -0.5, 0.0], [2.0, 1e-9, -7.0]])
    message = activations_message(0, values, EmbeddingDP(), None)
    assert message.dtype == "bits"
    assert len(message.body) == 1
    assert take_activations(message, 0, (2, 3), True, "peer").tolist() == [[1, -1, -1], [1, 1, -1]]
