"""Gaussian noise for the fast tier: AES-128 bits, turned into normal numbers by Box and Muller, vectorised in torch.

    noise = Gaussian(size, torch.float32)
    noise.normal(flat, deviation)              # fills `flat`, a vector of that size, with N(0, deviation²)

The bits are those of a cryptographic generator because they cost little: 670,000 floats take 1.4 ms on two cores (1.6
within a training step), of which the bits are 0.3 ms (0.4), on one core. Torch's own `normal_`, from a Mersenne twister
and on one core, takes 2.3 ms.

What is exact and what is not. A radius takes 64 random bits and its logarithm is computed in float64, so that neither
its tail nor its values near zero show a grid of float32. An angle takes 32 bits (64 for float64).
- The tail: a radius above 7.7, which one pair in 2^43 has, takes 192 more bits. No number is above √(512 ln 2) = 18.8
  deviations; a true radius would be with probability 2^-256, which is in the slack of a plan's events.
- Each number is rounded: in float32 by at most 5e-7 of its pair's radius. What an attacker who sees all bits of a
  result can learn from rounding is not counted (Mironov 2012); the secure tier is for those who count it.
"""

from __future__ import annotations

import math
import os
from typing import NoReturn

import numpy as np
import torch
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from torch import Tensor

KEY_BYTES = 16
LARGEST = math.sqrt(512 * math.log(2))  # deviations
_PAGE_BYTES = 1 << 18  # made in one call: fits the second-level cache
_TAG_BYTES = 16
_ZEROS = bytes(_PAGE_BYTES)
_LEAST = torch.tensor(2.0**-128, dtype=torch.float64, device="cpu")
_FAR = 2 * 43 * math.log(2)  # of a squared radius, from which on 64 bits are few: u below 2^-43
_MORE = 3  # words for a radius in the tail
_PAIRS = 1 << 17  # computed at once: long enough for several threads, and what it takes stays in their caches


class Gaussian:
    """A source of Gaussian noise for vectors of `size` numbers.

    Guarantee: nobody without the key can tell the noise from the same rounding of true Gaussian noise. A
        source without a key of its own takes one from the operating system, and a new one in a forked child.
    Assumes: AES-128 is a pseudo-random permutation. One thread at a time. A given `key` is for tests and simulations,
        or comes from a CSPRNG and makes one source only.
    Source: Box, Muller 1958; counter mode, NIST SP 800-38D section 7.1.
    """

    def __init__(self, size: int, dtype: torch.dtype, *, key: bytes | None = None) -> None:
        if size < 1:
            raise ValueError(f"size is {size}: it must be 1 or more")
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(f"noise is float32 or float64, got {dtype}")
        if key is not None and len(key) != KEY_BYTES:
            raise ValueError(f"a key of noise has {KEY_BYTES} bytes, got {len(key)}")
        self._size, self._dtype = size, dtype
        self._from_os = key is None
        self._set_key(os.urandom(KEY_BYTES) if key is None else key)
        pairs = min(_PAIRS, (size + 1) // 2)
        self._radius_bits, self._radius_words = _buffer(pairs, torch.int64)
        self._angle_bits, self._angle_words = _buffer(pairs, torch.int32 if dtype == torch.float32 else torch.int64)

    def normal(self, flat: Tensor, deviation: float) -> None:
        """Fill `flat` with independent numbers of N(0, deviation²). Other devices are filled from this one."""
        if flat.shape != (self._size,) or flat.dtype != self._dtype:
            raise ValueError(
                f"this source is for {self._size} numbers of {self._dtype}, got {tuple(flat.shape)} of {flat.dtype}"
            )
        if not (math.isfinite(deviation) and deviation > 0):
            raise ValueError(f"deviation is {deviation}: it must be positive and finite")
        if self._from_os and self._process != os.getpid():
            self._set_key(os.urandom(KEY_BYTES))
        with torch.no_grad():
            for start in range(0, self._size, 2 * _PAIRS):
                self._fill(flat[start : start + 2 * _PAIRS], deviation)

    def _fill(self, part: Tensor, deviation: float) -> None:
        pairs = (len(part) + 1) // 2
        self._random(self._radius_bits, pairs * 8)
        self._random(self._angle_bits, pairs * self._angle_words.element_size())
        here = part if part.device.type == "cpu" else torch.empty(part.shape, dtype=part.dtype, device="cpu")
        first, second = here[:pairs], here[pairs:]
        angles = angles_of(self._angle_words[:pairs])
        torch.cos(angles, out=first)
        torch.sin(angles[: len(second)], out=second)
        logarithms = logarithms_of(self._radius_words[:pairs])
        radii = angles.copy_(logarithms).neg_()
        if float(radii.max()) > _FAR:
            self._refine(radii, logarithms)
        radii.sqrt_().mul_(deviation)
        first.mul_(radii)
        second.mul_(radii[: len(second)])
        if here is not part:
            part.copy_(here)

    def _refine(self, radii: Tensor, logarithms: Tensor) -> None:
        """Draw more bits for squared radii in the tail."""
        far = (radii > _FAR).nonzero().flatten()
        bits, words = _buffer(_MORE * len(far), torch.int64)
        self._random(bits, 8 * _MORE * len(far))
        radii[far] = tail_of(logarithms[far], words.view(_MORE, -1)).neg_().to(radii.dtype)

    def _random(self, output: memoryview, size: int) -> None:
        """Write `size` random bytes. The tag of each page lies behind it and is overwritten by the next."""
        for start in range(0, size, _PAGE_BYTES):
            made = min(_PAGE_BYTES, size - start)
            nonce = self._page.to_bytes(12, "big")
            self._page += 1
            self._cipher.encrypt_into(nonce, memoryview(_ZEROS)[:made], None, output[start : start + made + _TAG_BYTES])

    def _set_key(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._page = 0
        self._process = os.getpid()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a source of noise is not copied: two copies would draw the same noise; make a new one")


def logarithms_of(words: Tensor) -> Tensor:
    """ln(u² + 2^-128), where u = w 2^-63 of 64-bit words w: from −128 ln 2 to 0. Made in the memory of the words."""
    wide = words.view(torch.float64).copy_(words)
    return torch.addcmul(_LEAST, wide, wide, value=2.0**-126, out=wide).log_()


def tail_of(logarithms: Tensor, words: Tensor) -> Tensor:
    """ln(u²) where u = |w + v| 2^-63: of the w that gave these logarithms, below 2^40, and of v, more bits behind it.

    Which w get more bits makes no difference: v is uniform from -1/2 to 1/2, the place between w and its neighbours.
    `words` has a row for each 64 of them.
    """
    place = torch.exp(logarithms / 2).mul_(2.0**63).add_(0.25).floor_()  # of √(w² + 1/4)
    for number, row in enumerate(words, start=1):
        place.add_(row.to(torch.float64), alpha=2.0 ** (-64 * number))
    return place.abs_().clamp_(min=2.0 ** (-64 * len(words) - 1)).log_().mul_(2).sub_(126 * math.log(2))


def angles_of(words: Tensor) -> Tensor:
    """Angles in [−π, π] from signed words, made in their memory."""
    angles = words.view(torch.float32 if words.dtype == torch.int32 else torch.float64).copy_(words)
    return angles.mul_(math.pi * 2.0 ** (1 - 8 * words.element_size()))


def _buffer(count: int, dtype: torch.dtype) -> tuple[memoryview, Tensor]:
    """Bytes with room for a tag behind them, and the words in them."""
    memory = np.empty(count * dtype.itemsize + _TAG_BYTES, dtype=np.uint8)
    return memory.data, torch.from_numpy(memory)[: count * dtype.itemsize].view(dtype)
