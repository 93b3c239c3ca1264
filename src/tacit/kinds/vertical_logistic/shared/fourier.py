"""Periodic functions of a score that nobody knows: of its sum with a mask, and the dealer's waves of that mask.

A score z is a 32-bit word of 24 fraction bits, so a function of it has the period 256. `V = z + rho` is opened; rho is
uniform over all 2^32 words, so V is. From sin k(V - rho) = sin kV cos k rho - cos kV sin k rho, shares of sin kz follow
without any further message from shares of cos k rho and -sin k rho (`waves`), as kV is public.

`sigmoid` and `squash` are odd, and mirrored at |z| = 64: sin kz of odd k are enough. Up to |z| = 118 the sigmoid is
within 6e-5 (60 harmonics) or 6e-3 (30), because the mirror image is as flat as the function. Beyond 128 it has the
wrong sign: scores that large mean that a training diverged, or that a column has far outliers. Nobody sees it while it
trains; in the end each party looks at its own part.

All parties must round the public factors alike: a factor that differs by one unit multiplies a share, which is uniform,
and so destroys the result. Hence no sine of the machine's own: angles come from correctly rounded tables (`gmpy2`) and
are added up by multiplications and additions that IEEE 754 defines to the last bit. The parties compare `fingerprint`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import gmpy2
import numpy as np

from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.shared.ring import Halves, Words

_PERIOD = 256.0
_MIRROR = _PERIOD / 4
LARGEST = 118.0  # score up to which the sigmoid holds
_POINTS = 1 << 14
_TOGETHER = 8  # harmonics that are computed in one array: a power of two
_WORDS = 1024  # and of so many words
_HALF_WAY = 1.5 * 2.0**52
_HALF_WAY_WORD = np.float64(_HALF_WAY).view(np.uint64)
_DIGITS = ((21, 11), (10, 11), (0, 10))  # (first bit, bits) of the parts of a word that have a table each
SOFTPLUS_MEAN = 32.0  # what `softplus` leaves out
SQUASHED = 5.0  # |asinh z| at most, and what the series adds to it


@lru_cache(maxsize=8)
def sigmoid(harmonics: int) -> tuple[float, ...]:
    """Coefficients of sin kz, k = 1, 3, 5, ...: of the sigmoid less one half."""
    return _series(lambda z: 0.5 * np.tanh(z / 2), harmonics)


@lru_cache(maxsize=8)
def squash(harmonics: int) -> tuple[float, ...]:
    """The same of asinh z: fine where decisions fall, coarse far out, never beyond `SQUASHED`."""
    return _series(np.arcsinh, harmonics)


@lru_cache(maxsize=8)
def softplus(harmonics: int) -> tuple[float, ...]:
    """Coefficients of cos kz: of log(2 cosh z/2) - 32, whose derivative is the sigmoid less one half.

    The loss of a row is log(2 cosh z/2) + z/2 - yz.
    """
    turns = [_PERIOD / (2 * math.pi * k) for k in range(1, 2 * harmonics, 2)]
    return tuple(-value * turn for value, turn in zip(sigmoid(harmonics), turns, strict=True))


@lru_cache(maxsize=8)
def fingerprint(harmonics: int) -> bytes:
    """A digest of all constants that parties must have in common to the last bit, and of waves made with them."""
    constants = [np.array(sigmoid(harmonics)), np.array(squash(harmonics)), np.array(softplus(harmonics))]
    constants += _tables()
    some_words = np.arange(64, dtype=np.uint32) * np.uint32(0x9E3779B1)
    constants += [wave for even in (False, True) for _, wave in _harmonics(some_words, harmonics, even=even)]
    return hashlib.sha256(b"".join(array.astype("<f8").tobytes() for array in constants)).digest()


def _series(function: Callable[[Floats], Floats], harmonics: int) -> tuple[float, ...]:
    z = ((np.arange(_POINTS) + 0.5) / _POINTS - 0.5) * _PERIOD
    mirrored = function(np.where(np.abs(z) <= _MIRROR, z, np.sign(z) * 2 * _MIRROR - z))
    angle = 2 * math.pi / _PERIOD * z
    found = [2 * np.mean(mirrored * np.sin(k * angle)) for k in range(1, 2 * harmonics, 2)]
    return tuple(round(float(value) * 2.0**32) / 2.0**32 for value in found)  # what a machine adds is below this


@lru_cache(maxsize=1)
def _tables() -> tuple[Floats, ...]:
    """For each part of a word, the sine and cosine of the angles that it can stand for: (2, values)."""
    with gmpy2.context(precision=100):
        turn = 2 * gmpy2.const_pi()
        return tuple(
            np.array([[float(x) for x in gmpy2.sin_cos(turn * i / 2 ** (32 - first))] for i in range(1 << bits)]).T
            for first, bits in _DIGITS
        )


def angles(words: Halves) -> Floats:
    """Sine and cosine of words as fractions of a turn: (2, *shape). The same to the last bit on every machine."""
    sine, cosine = np.zeros(words.shape), np.ones(words.shape)
    for (first, bits), table in zip(_DIGITS, _tables(), strict=True):
        more_sine, more_cosine = table[:, (words >> np.uint32(first)) & np.uint32((1 << bits) - 1)]
        sine, cosine = sine * more_cosine + cosine * more_sine, cosine * more_cosine - sine * more_sine
    return np.stack([sine, cosine])


def write_waves(rho: Halves, bits: int, waves: Words) -> None:
    """At the dealer: cos k rho and -sin k rho for odd k, at `bits` fraction bits, into (harmonics, 2, *shape)."""
    words, found = rho.reshape(-1), waves.reshape(*waves.shape[:2], -1)
    for part in _parts(words):
        for some, of_rho in _harmonics(words[part], len(waves), even=True):
            found[some, :, part] = _rounded(of_rho * 2.0**bits)


def combine(opened: Halves, coefficients: Floats, waves: Words, *, even: bool = False) -> Words:
    """A party's share of the sum of c_k sin kz, where `opened` = z + rho; its scale is the waves' times that of c_k.

    `even`: of c_k cos kz.

    The coefficients times sin kV and cos kV are rounded to integers: public, and the same at all parties.
    """
    words, shares = opened.reshape(-1), waves.reshape(*waves.shape[:2], -1)
    total = np.empty(words.shape, dtype=np.uint64)
    for part in _parts(words):
        summed = np.uint64(0)
        for some, of_opened in _harmonics(words[part], len(waves), even=even):
            factor = _rounded(of_opened * coefficients[some, None, None])
            factor *= shares[some, :, part]
            summed = summed + factor.sum(axis=(0, 1), dtype=np.uint64)
        total[part] = summed
    return total.reshape(opened.shape)


def _parts(words: Halves) -> Iterator[slice]:
    """So few words at a time that what is computed of them stays in a cache."""
    return (slice(first, first + _WORDS) for first in range(0, len(words), _WORDS))


def _harmonics(words: Halves, count: int, *, even: bool) -> Iterator[tuple[slice, Floats]]:
    """sin kx and cos kx for the first `count` odd k, some k at a time: (which, (k, 2, words)); `even`: cos, -sin.

    Both are functions f with f((k + 2m)x) = 2 cos 2mx f(kx) - f((k - 2m)x): taken for single k (m = 1) until an array
    is full, and for whole arrays from there. With few words the number of calls is what takes time.
    """
    sine, cosine = angles(words)
    now, mirror = np.empty((_TOGETHER, 2, len(words))), np.array([[-1.0], [1.0]])
    now[0] = sine, cosine
    if even:
        now[0], mirror = (cosine, -sine), -mirror
    turn = 4 * (cosine * cosine) - 2
    before = now[0] * mirror  # of k = -1
    for k in range(1, _TOGETHER):
        now[k] = turn * now[k - 1] - before
        before = now[k - 1]
    for _ in range(_TOGETHER.bit_length() - 1):
        turn = turn * turn - 2
    earlier = now[::-1] * mirror  # of -k
    for first in range(0, count, _TOGETHER):
        yield slice(first, min(first + _TOGETHER, count)), now[: count - first]
        now, earlier = turn * now - earlier, now


def _rounded(values: Floats) -> Words:
    """The nearest integers, modulo 2^64, of numbers below 2^51: in the last bits of their sum with 1.5 * 2^52.

    Overwrites `values`.
    """
    values += _HALF_WAY
    words = values.view(np.uint64)
    words -= _HALF_WAY_WORD
    return words
