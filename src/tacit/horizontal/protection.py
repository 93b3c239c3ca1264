"""Protections: how an update leaves a client, and how the coordinator adds updates up.

    InTheClear      the update and its weight
    LocalDP         clip, Gaussian noise for two updates 2C apart, equal weights; an event for each upload
    PairwiseMasks   the weighted update as the vector of a secure aggregation

Each has an encoder for the client and a `Sum` for the coordinator that takes updates one by one, so that memory is that
of one model. What comes in wrong raises PeerError and leaves the sum as it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tacit.dp import mechanisms
from tacit.dp.clipping import clip_l2
from tacit.dp.gaussian import gaussian_sigma
from tacit.dp.release import GaussianEvent, Released
from tacit.errors import PeerError
from tacit.horizontal.settings import Settings
from tacit.horizontal.vector import Flat
from tacit.secagg.encode import Encoding
from tacit.secagg.settings import Settings as SecureSettings

_BLOCK = 1 << 17  # numbers; a block and what it meets stay in the second-level cache
_FLUSH = 64  # updates between two additions to the float64 total


@dataclass(frozen=True, slots=True)
class LocalDP:
    """Local differential privacy of one upload.

    Guarantee: (dp_eps, dp_delta) for replacing all data of a client, against everybody: two updates clipped to C are up
    to 2C apart, and the noise is sized for that. Rounds compose per client.
    Source: Balle and Wang 2018 for sigma; see `mechanisms.gaussian` for the grid.
    """

    noise_multiplier: float

    @classmethod
    def of(cls, settings: Settings) -> LocalDP:
        return cls(gaussian_sigma(settings.encrypt.dp_encrypt.dp_eps, settings.delta))

    def protect(self, update: Flat, clip: float, rng: Generator | None) -> Released[Flat]:
        """Clip `update` in place and add noise. The value has the update's own type."""
        clip_l2(update, clip)
        released = mechanisms.gaussian(
            update, sensitivity=2 * clip, noise_multiplier=self.noise_multiplier, unit="client", rng=rng
        )
        return Released(released.value.astype(update.dtype), released.event)

    def event(self, size: int) -> GaussianEvent:
        """What every upload of `size` numbers costs, known before the first."""
        return mechanisms.gaussian_event(size, self.noise_multiplier)

    def largest_norm(self, size: int, clip: float) -> float:
        """No honest upload is longer, but with probability below 2^-70."""
        return clip + 2 * clip * self.noise_multiplier * (math.sqrt(size) + 10) * 1.001


def secure_encoding(settings: Settings, size: int) -> Encoding:
    """Weighted updates inside the masks."""
    masks = settings.encrypt.pw_encrypt
    return Encoding(
        values=size,
        bound=masks.bound,
        clients=settings.sampled,
        fraction_bits=masks.fraction_bits,
        largest_weight=masks.largest_weight,
    )


def secure_settings(settings: Settings, size: int) -> SecureSettings:
    encoding = secure_encoding(settings, size)
    return settings.secure(encoding.columns, encoding.ring.modulus_bits)


class Sum:
    """A weighted sum of updates, added up as they arrive.

    Float32 updates are added in float32, 64 at a time, and those sums in float64: the relative error stays below 2^-18,
    and most of the work is done on half the bytes. It is done block by block, in the cache. Weights are relative to the
    first one, so that clients with equally many samples need no multiplication.
    """

    def __init__(self, base: Flat, largest_norm: float) -> None:
        """`base` is the model that the clients were sent."""
        self._base = base
        self._largest_norm = largest_norm
        self._total = np.zeros(len(base))
        self._recent = np.zeros_like(base)  # the last few, not yet in the total
        self._part = np.empty(min(len(base), _BLOCK), dtype=base.dtype)
        self._unit = 1.0  # the first weight
        self.weight = 0.0  # in that unit
        self.count = 0

    def add_update(self, update: Flat) -> None:
        """Take one update with weight 1, or refuse it."""
        self._check_form(update, "an update")
        with np.errstate(over="ignore", invalid="ignore"):
            self._add(update, None, 1.0)

    def add_model(self, model: Flat, weight: float) -> None:
        """Take one trained model, whose update is its difference from the base, or refuse it."""
        self._check_form(model, "a model")
        if not 0 < weight < math.inf:
            raise PeerError(f"a model of weight {weight}")
        if self.count == 0:
            self._unit = weight
        with np.errstate(over="ignore", invalid="ignore"):
            self._add(model, self._base, weight / self._unit)

    def mean(self) -> Flat:
        self._flush()
        return self._total / self.weight

    def _check_form(self, vector: Flat, what: str) -> None:
        if vector.shape != self._base.shape:
            raise PeerError(f"{what} of shape {vector.shape}, {self._base.shape} is due")
        if vector.dtype != self._base.dtype:
            raise PeerError(f"{what} of {vector.dtype}, {self._base.dtype} is due")

    def _add(self, vector: Flat, base: Flat | None, weight: float) -> None:
        """Add weight * (vector - base) in one pass over memory, looking at each block before it goes in.

        If it turns out bad on the way, what went in is taken out again: up to the last bit of a float32.
        """
        square = 0.0
        for start in range(0, len(vector), _BLOCK):
            part = self._difference(vector, base, start)
            square += float(part @ part)
            if not square <= self._largest_norm**2:  # NaN is not
                self._take_back(vector, base, weight, start)
                if math.isfinite(square):
                    raise PeerError(f"an update of a norm above {self._largest_norm:.3g}, the most that is accepted")
                raise PeerError("an update with NaN, infinite or enormous numbers")
            if weight != 1:
                np.multiply(part, weight, out=part)
            recent = self._recent[start : start + _BLOCK]
            np.add(recent, part, out=recent)
        self._count(weight)

    def _difference(self, vector: Flat, base: Flat | None, start: int) -> Flat:
        block = vector[start : start + _BLOCK]
        part = self._part[: len(block)]
        if base is None:
            np.copyto(part, block)
        else:
            np.subtract(block, base[start : start + _BLOCK], out=part)
        return part

    def _take_back(self, vector: Flat, base: Flat | None, weight: float, stop: int) -> None:
        for start in range(0, stop, _BLOCK):
            recent = self._recent[start : start + _BLOCK]
            np.subtract(recent, weight * self._difference(vector, base, start), out=recent)

    def _count(self, weight: float) -> None:
        self.weight += weight
        self.count += 1
        if self.count % _FLUSH == 0:
            self._flush()

    def _flush(self) -> None:
        self._total += self._recent
        self._recent.fill(0)
