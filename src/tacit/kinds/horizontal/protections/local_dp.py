"""Local differential privacy: each update clipped, with Gaussian noise, before anything leaves the client."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from tacit.boundary import Release
from tacit.dp import mechanisms
from tacit.dp.clipping import clip_l2
from tacit.dp.gaussian import gaussian_sigma
from tacit.dp.release import GaussianEvent, Released
from tacit.errors import PeerError
from tacit.kinds.horizontal.messages import Update
from tacit.kinds.horizontal.protections.contract import (
    SMALLEST_CLIP,
    Alone,
    Cost,
    Learned,
    Price,
    Protection,
    Upload,
)
from tacit.kinds.horizontal.vector import Flat

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings
    from tacit.kinds.horizontal.sums import Group, Sum


@dataclass(frozen=True, slots=True)
class LocalDP:
    """Local differential privacy of one upload.

    Guarantee: (dp_eps, dp_delta) for replacing all data of a client, against everybody: two updates clipped to C are up
    to 2C apart, and the noise is sized for that. Rounds compose per client.
    Source: Balle and Wang 2018 for sigma; see `mechanisms.gaussian` for the grid.
    """

    size: int
    clip: float  # of the first round
    noise_multiplier: float
    adaptive_factor: float | None  # clip to a multiple of the last released update's norm, never growing

    @classmethod
    def of(cls, settings: Settings, size: int) -> LocalDP:
        chosen = settings.encrypt.dp_encrypt
        sigma = gaussian_sigma(chosen.dp_eps, settings.delta)
        return cls(size, chosen.dp_norm_clip, sigma, chosen.adaptive_factor if chosen.adaptive else None)

    def upload(self, learned: Learned, clip: float | None, rng: Generator | None) -> Upload:
        # The clipping norm is the coordinator's to lower, never to raise: the event does not depend on it.
        released = self.protect(learned.update(), min(clip or np.inf, self.clip), rng)
        return Upload(released.value, event=released.event)

    def protect(self, update: Flat, clip: float, rng: Generator | None) -> Released[Flat]:
        """Clip `update` in place and add noise. The value has the update's own type."""
        clip_l2(update, clip)
        released = mechanisms.gaussian(
            update, sensitivity=2 * clip, noise_multiplier=self.noise_multiplier, unit="client", rng=rng
        )
        return Released(released.value.astype(update.dtype), released.event)

    def event(self) -> GaussianEvent:
        """What every upload costs, known before the first."""
        return mechanisms.gaussian_event(self.size, self.noise_multiplier)

    def add(self, into: Sum | Group, message: Update) -> None:
        if message.samples is not None or message.loss is not None:
            raise PeerError("an update with more than its protection lets out")
        into.add_update(message.vector)

    def largest_norm(self, clip: float | None) -> float:
        """No honest upload is longer, but with probability below 2^-70."""
        clip = self.clip if clip is None else clip
        return clip + 2 * clip * self.noise_multiplier * (math.sqrt(self.size) + 10) * 1.001

    def next_clip(self, clip: float, norm: float) -> float:
        if self.adaptive_factor is None:
            return clip
        return min(clip, max(self.adaptive_factor * norm, SMALLEST_CLIP * self.clip))

    def seen(self, message: Update, base: Flat) -> Flat:
        return message.vector


class LocalDifferentialPrivacy(Protection):
    name = "DP_ENCRYPT"
    label = "local differential privacy"
    summary = "DP_ENCRYPT: each update clipped, with Gaussian noise"
    section = "dp_encrypt"
    protects = True
    promises = True
    masked = False
    weighted = False
    hides_failure = True
    inversions = (("closed form", "upload"), ("cosine DLG", "upload"), ("DLG", "upload"))

    def unprotected(self, settings: Settings) -> list[str]:
        raise NotImplementedError

    def price(self, settings: Settings, size: int) -> Price:
        return Price(local=(Cost("updates", LocalDP.of(settings, size).event()),))

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        raise NotImplementedError

    def noise(self, settings: Settings, size: int) -> list[str]:
        raise NotImplementedError

    def mechanism(self, settings: Settings, size: int) -> Alone:
        return LocalDP.of(settings, size)


PROTECTION = LocalDifferentialPrivacy()
