"""How alike two images are. Images are [height, width], or [number, height, width]; pixels from 0 to 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Images = NDArray[Any]
_K1, _K2 = 0.01, 0.03  # Wang et al. 2004, section III.B
_SIGMA, _WIDTH = 1.5, 11  # of their Gaussian window


def mean_squared_error(one: Images, other: Images) -> NDArray[np.float64]:
    """For each image."""
    one, other = _pair(one, other)
    return np.asarray(np.square(one - other).mean(axis=(-2, -1)))


def psnr(one: Images, other: Images, span: float = 1.0) -> NDArray[np.float64]:
    """The peak signal-to-noise ratio of each image in dB; infinite for equal ones."""
    with np.errstate(divide="ignore"):
        return np.asarray(10 * np.log10(span**2 / mean_squared_error(one, other)))


def ssim(one: Images, other: Images, span: float = 1.0) -> NDArray[np.float64]:
    """The structural similarity of each image: 1 for equal ones.

    The window is the Gaussian of the paper, 11 pixels wide with sigma 1.5; for images smaller than that, the largest
    odd width that fits. Only whole windows count.
    Source: Wang, Bovik, Sheikh, Simoncelli 2004, equation 13.
    """
    one, other = _pair(one, other)
    window = _window(min(_WIDTH, *one.shape[-2:]))

    def local_mean(images: Images) -> Images:
        return np.asarray(np.einsum("...ij,ij->...", sliding_window_view(images, window.shape, axis=(-2, -1)), window))

    c1, c2 = (_K1 * span) ** 2, (_K2 * span) ** 2
    mean_one, mean_other = local_mean(one), local_mean(other)
    variance_one = local_mean(one * one) - mean_one**2
    variance_other = local_mean(other * other) - mean_other**2
    covariance = local_mean(one * other) - mean_one * mean_other
    likeness = (2 * mean_one * mean_other + c1) * (2 * covariance + c2)
    likeness /= (mean_one**2 + mean_other**2 + c1) * (variance_one + variance_other + c2)
    return np.asarray(likeness.mean(axis=(-2, -1)))


def _window(width: int) -> NDArray[np.float64]:
    width -= 1 - width % 2
    profile = np.exp(-((np.arange(width) - width // 2) ** 2) / (2 * _SIGMA**2))
    window = np.outer(profile, profile)
    return np.asarray(window / window.sum())


def _pair(one: Images, other: Images) -> tuple[Images, Images]:
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if one.shape != other.shape or one.ndim not in (2, 3) or min(one.shape[-2:]) < 1:
        raise ValueError(f"need two images or stacks of the same shape, got {one.shape} and {other.shape}")
    return one, other
