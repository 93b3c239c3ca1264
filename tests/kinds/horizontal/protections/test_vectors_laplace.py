"""Laplace noise on inference vectors: its scale, and what a score under it says."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.kinds.horizontal.protections.vectors_laplace import protect
from tests.kinds.horizontal.federations import settings_for


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_noise_has_the_scale_of_sensitivity_two(epsilon):
    vectors = np.tile(np.random.default_rng(0).dirichlet(np.full(10, 0.3), 1), (4000, 1))
    noise = protect(vectors, epsilon, None).value - vectors
    assert np.abs(noise).mean() == pytest.approx(2 / epsilon, rel=0.03)  # of Laplace noise, the scale
    assert noise.mean() == pytest.approx(0, abs=0.1 / epsilon)


def scored(epsilon: float) -> str:
    encrypt = {"privacy_eval_type": "LAPLACE", "laplace_eval_eps": epsilon}
    settings = settings_for(encrypt=encrypt, unsupervised={"cluster_client_num": 5})
    return settings.vectors.scored(settings)


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        (230260, "the score follows the one without protection"),
        (200, "the score follows the one without protection"),
        (50, "the score is pulled towards that of noise"),
        (10, "the score follows the model only faintly"),
        (4, "comparable to the whole range of a probability"),
        (1, "larger than the whole range of a probability, from 0 to 1: the score is one of noise and says nothing"),
    ],
)
def test_what_a_protected_score_means(epsilon, words):
    said = scored(epsilon)
    assert words in said
    assert f"ε = {epsilon:,}," in said


def test_at_one_the_scale_is_two():
    assert "2/ε = 2. " in scored(1)
