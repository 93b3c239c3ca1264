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

_BLOCK = 1 << 15


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
    masks = settings.encrypt.pw_encrypt
    encoding = secure_encoding(settings, size)
    return SecureSettings(
        clients=settings.sampled,
        columns=encoding.columns,
        modulus_bits=encoding.ring.modulus_bits,
        mode=masks.mode,
        graph=masks.graph,
        share_secrets_ratio=masks.share_secrets_ratio,
        reconstruct_secrets_threshold=masks.reconstruct_secrets_threshold,
        cipher_time_window=masks.cipher_time_window,
        collusion=masks.collusion,
        corrupt=masks.corrupt,
        drop=masks.drop,
    )


class Sum:
    """A weighted sum of updates, added up as they arrive."""

    def __init__(self, size: int, dtype: str, largest_norm: float) -> None:
        self._total = np.zeros(size)
        self._dtype = dtype
        self._largest_norm = largest_norm
        self._part = np.empty(min(size, _BLOCK))
        self.weight = 0.0
        self.count = 0

    def add(self, vector: Flat, weight: float = 1.0) -> None:
        """Take one update, or refuse it."""
        if vector.shape != self._total.shape:
            raise PeerError(f"an update of shape {vector.shape}, {self._total.shape} is due")
        if str(vector.dtype) != self._dtype:
            raise PeerError(f"an update of {vector.dtype}, {self._dtype} is due")
        norm = math.sqrt(float(vector @ vector)) if vector.dtype == np.float64 else _norm(vector)
        if not math.isfinite(norm):
            raise PeerError("an update with NaN or infinite numbers")
        if norm > self._largest_norm:
            raise PeerError(f"an update of norm {norm:.3g}, at most {self._largest_norm:.3g} is accepted")
        if not 0 < weight < math.inf:
            raise PeerError(f"an update of weight {weight}")
        for start in range(0, len(vector), _BLOCK):
            block = vector[start : start + _BLOCK]
            part = np.multiply(block, weight, out=self._part[: len(block)])
            self._total[start : start + _BLOCK] += part
        self.weight += weight
        self.count += 1

    def mean(self) -> Flat:
        return self._total / self.weight


def _norm(vector: Flat) -> float:
    """The norm of a float32 vector. Its squares may overflow to infinity, which is refused all the same."""
    with np.errstate(over="ignore", invalid="ignore"):
        return math.sqrt(float(vector @ vector)) if np.isfinite(vector @ vector) else math.inf
