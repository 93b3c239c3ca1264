"""Likeness of images, against the definitions written out in loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.audit.similarity import mean_squared_error, psnr, ssim


def slow_ssim(one: np.ndarray, other: np.ndarray, width: int) -> float:
    """Equation 13 of Wang et al. 2004, one window after another."""
    half = width // 2
    weights = np.array(
        [[math.exp(-(i * i + j * j) / 4.5) for j in range(-half, half + 1)] for i in range(-half, half + 1)]
    )
    weights /= weights.sum()
    found = []
    for top in range(one.shape[0] - width + 1):
        for left in range(one.shape[1] - width + 1):
            x, y = (image[top : top + width, left : left + width] for image in (one, other))
            mx, my = (weights * x).sum(), (weights * y).sum()
            vx, vy = (weights * (x - mx) ** 2).sum(), (weights * (y - my) ** 2).sum()
            vxy = (weights * (x - mx) * (y - my)).sum()
            found.append((2 * mx * my + 1e-4) * (2 * vxy + 9e-4) / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4)))
    return float(np.mean(found))


@pytest.mark.parametrize(("shape", "width"), [((8, 8), 7), ((28, 28), 11), ((9, 13), 9)])
def test_ssim_is_its_definition(shape, width):
    rng = np.random.default_rng(0)
    one, other = rng.random((2, 3, *shape))
    other = 0.7 * one + 0.3 * other
    assert ssim(one, other) == pytest.approx([slow_ssim(a, b, width) for a, b in zip(one, other, strict=True)])


def test_equal_images_and_opposite_ones():
    image = np.random.default_rng(1).random((16, 16))
    assert ssim(image, image) == pytest.approx(1)
    assert psnr(image, image) == math.inf
    assert ssim(image, 1 - image) < 0
    assert mean_squared_error(np.zeros((4, 4)), np.full((4, 4), 0.1)) == pytest.approx(0.01)
    assert psnr(np.zeros((4, 4)), np.full((4, 4), 0.1)) == pytest.approx(20)


def test_a_gray_image_resembles_nothing():
    """Why SSIM and not only PSNR: the mean of an image has a fair PSNR and shows nothing of it."""
    image = (np.indices((16, 16)).sum(axis=0) % 2).astype(float) * 0.2 + 0.4
    gray = np.full_like(image, 0.5)
    assert psnr(image, gray) >= 19.9
    assert ssim(image, gray) < 0.1


def test_shapes_that_differ_are_refused():
    with pytest.raises(ValueError, match="same shape"):
        ssim(np.zeros((8, 8)), np.zeros((8, 9)))
