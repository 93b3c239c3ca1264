"""Functions of a masked score are those of the score, to the error that the module names."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.kinds.vertical_logistic.shared import fourier

SCORES = np.linspace(-117, 117, 4001)


def _combined(scores, coefficients, *, even=False, bits=24):
    """Through the protocol's path, with all shares at one party."""
    rng = np.random.default_rng(0)
    rho = rng.integers(0, 2**32, size=len(scores), dtype=np.uint32)
    waves = np.empty((len(coefficients), 2, len(scores)), dtype=np.uint64)
    fourier.write_waves(rho, bits, waves)
    words = np.rint(scores * 2**24).astype(np.int64).astype(np.uint32)
    share = fourier.combine(words + rho, np.array(coefficients) * 2.0**bits, waves, even=even)
    return share.view(np.int64) / 4.0**bits


@pytest.mark.parametrize(("harmonics", "error"), [(60, 6.5e-5), (30, 6.5e-3)])
def test_the_sigmoid(harmonics, error):
    found = _combined(SCORES, fourier.sigmoid(harmonics)) + 0.5
    assert np.abs(found - 1 / (1 + np.exp(-SCORES))).max() < error


def test_the_loss():
    scores = np.linspace(-64, 64, 2001)
    found = _combined(scores, fourier.softplus(60), even=True) + fourier.SOFTPLUS_MEAN
    assert np.abs(found - np.logaddexp(scores / 2, -scores / 2)).max() < 1e-3


def test_the_squashed_score_is_monotone_and_bounded():
    scores = np.linspace(-60, 60, 20001)
    found = _combined(scores, fourier.squash(60))
    assert np.abs(found - np.arcsinh(scores)).max() < 0.02
    assert (np.diff(found) > -1e-5).all()
    everywhere = _combined(np.linspace(-128, 128, 20001), fourier.squash(60))
    assert np.abs(everywhere).max() < fourier.SQUASHED


def test_angles_are_correctly_rounded_sines():
    words = np.random.default_rng(0).integers(0, 2**32, size=(50, 3), dtype=np.uint32)
    sine, cosine = fourier.angles(words)
    angle = words * (2 * np.pi / 2**32)
    np.testing.assert_allclose(sine, np.sin(angle), atol=2e-15)
    np.testing.assert_allclose(cosine, np.cos(angle), atol=2e-15)


@pytest.mark.parametrize("harmonics", [1, 8, 13, 60])
def test_waves_are_those_of_each_odd_multiple(harmonics):
    """Against numpy's own sines, beyond the words and harmonics that are computed together."""
    words = np.random.default_rng(1).integers(0, 2**32, size=(1500, 2), dtype=np.uint32)
    waves = np.empty((harmonics, 2, *words.shape), dtype=np.uint64)
    fourier.write_waves(words, 40, waves)
    for index, (cosine, minus_sine) in enumerate(waves.view(np.int64) / 2.0**40):
        angle = (words.astype(np.uint64) * (2 * index + 1) % 2**32) * (2 * np.pi / 2**32)
        np.testing.assert_allclose(cosine, np.cos(angle), atol=2e-12)
        np.testing.assert_allclose(minus_sine, -np.sin(angle), atol=2e-12)


def test_the_fingerprint_is_that_of_this_release():
    """Parties with another release of numpy must find the same constants, or they refuse to train together."""
    assert fourier.fingerprint(60).hex()[:16] == "cd669890b571e0e8"
    assert fourier.fingerprint(30).hex()[:16] == "4048849091a5c5ac"
