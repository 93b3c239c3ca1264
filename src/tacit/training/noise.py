"""Gaussian noise for the fast tier: AES-128 bits, turned into normal numbers by Box and Muller.

    noise = Gaussian(size, torch.float32)
    noise.normal(flat, deviation)              # fills `flat`, a vector of that size, with N(0, deviation²)

Numbers are made from blocks of random words, each of which has pages of the key's stream of its own (`key_stream`): for
its radii, for its angles and for radii in the tail. So what is drawn does not depend on how it is computed: by torch,
vectorised, or for float32 by compiled code where the extra `fast` is installed (`compiled`), on as many threads as
torch has.

What is exact and what is not. A radius takes 64 random bits and its logarithm is computed in float64, so that neither
its tail nor its values near zero show a grid of float32. An angle takes 32 bits (64 for float64).
- The tail: a radius above 7.7, which one pair in 2^43 has, takes 192 more bits. No number is above √(512 ln 2) = 18.8
  deviations; a true radius would be with probability 2^-256, which is in the slack of a plan's events. A block with
  such a radius is computed by torch.
- Each number is rounded: in float32 by at most 5e-7 of its pair's radius. What an attacker who sees all bits of a
  result can learn from rounding is not counted (Mironov 2012); the secure tier is for those who count it.
"""

from __future__ import annotations

import functools
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from tacit.key_stream import KEY_BYTES, PAGE_BYTES, TAG_BYTES, Fill, pages
from tacit.training.compiled import FAR, Kernel, box_muller

LARGEST = math.sqrt(512 * math.log(2))  # deviations
_LEAST = torch.tensor(2.0**-128, dtype=torch.float64, device="cpu")
_MORE = 3  # words for a radius in the tail
_BLOCK = PAGE_BYTES // 8  # pairs, whose radii take a page
_TOGETHER = (
    4  # blocks that torch computes at once: enough for several threads, and what they take stays in their caches
)
_KINDS = 3  # of pages of a block: of radii, of angles and of radii in the tail
_COMPILED = 1 << 16  # numbers from which on compiled code is worth what it costs to load
_BLOCKS_A_THREAD = 4  # below this (0.6 ms) a thread costs more than it saves


class Gaussian:
    """A source of Gaussian noise for vectors of `size` numbers.

    Guarantee: nobody without the key can tell the noise from the same rounding of true Gaussian noise. A
        source without a key of its own takes one from the operating system, and a new one in a forked child.
    Assumes: AES-128 is a pseudo-random permutation. One thread at a time. A given `key` is for tests and simulations,
        or comes from a CSPRNG and makes one source only.
    Source: Box, Muller 1958; counter mode, NIST SP 800-38A section 6.5.
    """

    def __init__(self, size: int, dtype: torch.dtype, *, key: bytes | None = None) -> None:
        if size < 1:
            raise ValueError(f"size is {size}: it must be 1 or more")
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(f"noise is float32 or float64, got {dtype}")
        if key is not None and len(key) != KEY_BYTES:
            raise ValueError(f"a key of noise has {KEY_BYTES} bytes, got {len(key)}")
        self._size, self._dtype = size, dtype
        self._kernel = box_muller() if dtype == torch.float32 and size >= _COMPILED else None
        self._from_os = key is None
        self._set_key(os.urandom(KEY_BYTES) if key is None else key)

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
            filled = flat.device.type == "cpu" and flat.is_contiguous()
            here = flat.detach() if filled else torch.empty(flat.shape, dtype=flat.dtype, device="cpu")
            stretches = self._stretches(here)
            if self._kernel is None:
                for each in stretches:
                    each.by_torch(self._words(0), deviation)
            else:
                self._compiled(self._kernel, [block for each in stretches for block in each.blocks()], deviation)
            if not filled:
                flat.copy_(here)

    def _stretches(self, here: Tensor) -> list[_Stretch]:
        """All of a vector, with blocks that no other call takes."""
        step, found = 2 * _TOGETHER * _BLOCK, []
        for part in here.split(step):
            pairs = (len(part) + 1) // 2
            found.append(_Stretch(self._next, part[:pairs], part[pairs:]))
            self._next += -(-pairs // _BLOCK)
        return found

    def _compiled(self, kernel: Kernel, blocks: list[_Stretch], deviation: float) -> None:
        """By this thread and others, each with words of its own."""
        threads = max(1, min(torch.get_num_threads(), len(blocks) // _BLOCKS_A_THREAD))
        first, *others = [blocks[i::threads] for i in range(threads)]

        def run(some: list[_Stretch], words: _Words) -> None:
            for each in some:
                each.by_kernel(kernel, words, deviation)

        running = [
            _pool(os.getpid(), threads).submit(run, some, self._words(place)) for place, some in enumerate(others, 1)
        ]
        try:
            run(first, self._words(0))
        finally:
            for each in running:
                each.result()

    def _words(self, thread: int) -> _Words:
        while thread >= len(self._of_threads):
            blocks = 1 if self._kernel is not None else min(_TOGETHER, -(-self._size // (2 * _BLOCK)))
            self._of_threads.append(_Words(self._key, blocks, self._dtype))
        return self._of_threads[thread]

    def _set_key(self, key: bytes) -> None:
        self._key = key
        self._of_threads: list[_Words] = []
        self._next = 0  # of the key's blocks
        self._process = os.getpid()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a source of noise is not copied: two copies would draw the same noise; make a new one")


@functools.cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads of this process: a forked child has none of its parent's."""
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="noise")


class _Words:
    """The random words of some blocks at a time, in memory of one thread."""

    def __init__(self, key: bytes, blocks: int, dtype: torch.dtype) -> None:
        self.fill: Fill = pages(key, PAGE_BYTES)
        self._radius_bits, self._radii = _buffer(blocks * _BLOCK, torch.int64)
        self._angle_bits, self._angles = _buffer(
            blocks * _BLOCK, torch.int32 if dtype == torch.float32 else torch.int64
        )

    def draw(self, block: int, pairs: int) -> tuple[Tensor, Tensor]:
        """For so many pairs from a block on: words for radii, and for angles."""
        for start in range(0, pairs, _BLOCK):
            page, some = _KINDS * (block + start // _BLOCK), min(_BLOCK, pairs - start)
            for kind, (bits, size) in enumerate(((self._radius_bits, 8), (self._angle_bits, self._angles.itemsize))):
                # The tag of a page lies behind it and is overwritten by the next one.
                self.fill(page + kind, bits[start * size : (start + some) * size + TAG_BYTES])
        return self._radii[:pairs], self._angles[:pairs]

    def more(self, block: int, count: int) -> Tensor:
        """A row of words for so many radii in the tail of a block, for each 64 bits more."""
        bits, words = _buffer(_MORE * count, torch.int64)
        self.fill(_KINDS * block + 2, bits)
        return words.view(_MORE, count)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Numbers that are made of whole blocks: of each pair the cosine in `first` and the sine in `second`."""

    block: int
    first: Tensor
    second: Tensor  # as long, or shorter by one

    def blocks(self) -> list[_Stretch]:
        starts = range(0, len(self.first), _BLOCK)  # the last block may have a first number alone
        return [
            _Stretch(self.block + i, self.first[start : start + _BLOCK], self.second[start : start + _BLOCK])
            for i, start in enumerate(starts)
        ]

    def by_kernel(self, kernel: Kernel, words: _Words, deviation: float) -> None:
        radii, angles = (each.numpy() for each in words.draw(self.block, len(self.first)))
        first, second, scale = self.first.numpy(), self.second.numpy(), np.float32(deviation)
        tails = kernel(radii, angles, first, second, scale)
        if len(second) < len(first):
            alone = len(second)
            tails += kernel(radii[alone:], angles[alone:], first[alone:], np.empty(1, dtype=np.float32), scale)
        if tails:
            self.by_torch(words, deviation)

    def by_torch(self, words: _Words, deviation: float) -> None:
        first, second = self.first, self.second
        radius_words, angle_words = words.draw(self.block, len(first))
        angles = angles_of(angle_words)
        torch.cos(angles, out=first)
        torch.sin(angles[: len(second)], out=second)
        logarithms = logarithms_of(radius_words)
        radii = angles.copy_(logarithms).neg_()
        if float(radii.max()) > FAR:
            self._refine(words, radii, logarithms)
        radii.sqrt_().mul_(deviation)
        first.mul_(radii)
        second.mul_(radii[: len(second)])

    def _refine(self, words: _Words, radii: Tensor, logarithms: Tensor) -> None:
        """Draw more bits for squared radii in the tail, block by block."""
        for i, (own, of_own) in enumerate(zip(radii.split(_BLOCK), logarithms.split(_BLOCK), strict=True)):
            far = (own > FAR).nonzero().flatten()
            if len(far):
                own[far] = tail_of(of_own[far], words.more(self.block + i, len(far))).neg_().to(own.dtype)


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
    memory = np.empty(count * dtype.itemsize + TAG_BYTES, dtype=np.uint8)
    return memory.data, torch.from_numpy(memory)[: count * dtype.itemsize].view(dtype)
