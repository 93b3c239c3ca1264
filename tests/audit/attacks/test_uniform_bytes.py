"""Uniform words pass a test of uniformity, and uneven ones do not."""

from __future__ import annotations

import numpy as np
from scipy.stats import chisquare

from tacit.audit.attacks.uniform_bytes import LEAST, guessed_bytes, p_value


def test_uniform_words_pass():
    words = np.random.default_rng(0).bytes(400_000)
    assert p_value(words) > 1e-3
    assert not guessed_bytes(words).informative


def test_the_p_value_is_that_of_scipy_for_one_place():
    rng = np.random.default_rng(1)
    column = rng.binomial(255, 0.5, 5000).astype(np.uint8)
    words = rng.integers(0, 256, (5000, 8)).astype(np.uint8)
    assert p_value(words.tobytes()) > LEAST
    words[:, 3] = column
    assert chisquare(np.bincount(column, minlength=256)).pvalue < LEAST
    assert p_value(words.tobytes()) < LEAST
    assert guessed_bytes(words.tobytes()).informative
