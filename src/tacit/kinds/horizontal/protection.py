"""Protections: how an update leaves a client, and what the coordinator makes of a sum.

    InTheClear      the update and its weight
    LocalDP         clip, Gaussian noise for two updates 2C apart, equal weights; an event for each upload
    WeightedSum     the weighted update as the vector of a secure aggregation
    NoisySum        the clipped update with a share of the noise, likewise; the event is that of an opened sum

Each encodes at the client. What comes in one by one is added up by `sums`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from tacit.dp import mechanisms
from tacit.dp.clipping import clip_l2
from tacit.dp.gaussian import gaussian_sigma
from tacit.dp.release import GaussianEvent, Released
from tacit.kinds.horizontal.protections.contract import UnusableUpdate as UnusableUpdate
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Flat, Layout
from tacit.secagg.encode import Encoding
from tacit.secagg.session import Context
from tacit.secagg.skellam import SkellamEncoding
from tacit.secagg.unmask import Words

SMALLEST_CLIP = 1e-6  # of dp_norm_clip: an adaptive norm does not fall below this part of it


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


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """Updates weighted by samples inside the masks: the coordinator learns the weighted mean, exactly."""

    encoding: Encoding

    def encode(self, update: Flat, samples: int, rotation: bytes, rng: Generator | None) -> Words:
        if np.abs(update).max() > self.encoding.bound:
            raise UnusableUpdate(
                f"its update has numbers above pw_encrypt.bound = {self.encoding.bound:g}: raise it, or train less"
            )
        if samples > (most := self.encoding.largest_weight or 1):
            raise UnusableUpdate(f"it has more samples than pw_encrypt.largest_weight = {most}: raise it")
        return self.encoding.encode(update, samples)

    def decode(self, words: Words, survivors: int, rotation: bytes) -> Flat:
        return self.encoding.decode(words, survivors).mean

    @property
    def ring(self) -> tuple[int, int]:
        return self.encoding.columns, self.encoding.ring.modulus_bits


@dataclass(frozen=True, slots=True)
class NoisySum:
    """Clipped updates with noise shares inside the masks, equal weights: the coordinator learns a noisy mean.

    Guarantee: see `SkellamEncoding.event`.
    """

    encoding: SkellamEncoding

    def encode(self, update: Flat, samples: int, rotation: bytes, rng: Generator | None) -> Words:
        return self.encoding.encode(update, rotation, rng)

    def decode(self, words: Words, survivors: int, rotation: bytes) -> Flat:
        return self.encoding.decode(words, survivors, rotation)

    @property
    def ring(self) -> tuple[int, int]:
        return self.encoding.columns, self.encoding.modulus_bits


def masked_sum(settings: Settings, size: int) -> WeightedSum | NoisySum:
    """What goes into the masks of this federation."""
    if settings.encrypt.encrypt_type == "DDP_ENCRYPT":
        return NoisySum(skellam_encoding(settings, size))
    masks = settings.encrypt.pw_encrypt
    return WeightedSum(
        Encoding(
            values=size,
            bound=masks.bound,
            clients=settings.sampled,
            fraction_bits=masks.fraction_bits,
            largest_weight=masks.largest_weight,
        )
    )


def skellam_encoding(settings: Settings, size: int) -> SkellamEncoding:
    """The encoding with the least noise for which the sums of all rounds stay within the run's epsilon."""
    epsilon, delta = settings.central
    clip = settings.encrypt.ddp_encrypt.ddp_norm_clip
    numbers = (size, clip, settings.sampled, settings.fewest, settings.colluders, epsilon, delta, settings.rounds)
    try:
        return _skellam(*numbers)
    except ValueError as error:
        raise ValueError(
            f"ddp_eps {epsilon:g} at delta {delta:g} over {settings.rounds} rounds cannot be reached here ({error}): "
            "take a larger ddp_eps, fewer rounds or more clients"
        ) from None


@lru_cache(maxsize=16)  # the search takes half a second, and each of thousands of simulated clients asks
def _skellam(
    values: int, clip: float, clients: int, fewest: int, colluders: int, epsilon: float, delta: float, rounds: int
) -> SkellamEncoding:
    return SkellamEncoding.for_budget(
        values=values,
        clip=clip,
        clients=clients,
        fewest=fewest,
        colluders=colluders,
        epsilon=epsilon,
        delta=delta,
        rounds=rounds,
    )


def secure_context(settings: Settings, layout: Layout, model: Flat, number: int) -> Context:
    """What coordinator and clients know of an aggregation before it starts."""
    columns, modulus_bits = masked_sum(settings, layout.size).ring
    return Context(settings.secure(columns, modulus_bits), layout.digest(model), number)
