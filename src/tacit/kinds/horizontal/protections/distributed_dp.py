"""Distributed differential privacy: a share of Skellam noise inside the masks, one epsilon for the sums of a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from numpy.random import Generator

from tacit.boundary import Release
from tacit.dp.accounting import Budget
from tacit.kinds.horizontal.protections.contract import Cost, Inside, Price, Protection
from tacit.kinds.horizontal.vector import Flat
from tacit.secagg.skellam import SkellamEncoding
from tacit.secagg.unmask import Words

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings


@dataclass(frozen=True, slots=True)
class NoisySum:
    """Clipped updates with noise shares inside the masks, equal weights: the coordinator learns a noisy mean.

    Guarantee: see `SkellamEncoding.event`.
    """

    encoding: SkellamEncoding

    @property
    def ring(self) -> tuple[int, int]:
        return self.encoding.columns, self.encoding.modulus_bits

    def encode(self, update: Flat, samples: int, rotation: bytes, rng: Generator | None) -> Words:
        return self.encoding.encode(update, rotation, rng)

    def decode(self, words: Words, survivors: int, rotation: bytes) -> Flat:
        return self.encoding.decode(words, survivors, rotation)

    def seen(self, words: Words, rotation: bytes) -> Flat:
        survivors = self.encoding.fewest  # decode divides by their number, which is undone
        return self.decode(words, survivors, rotation) * survivors


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


class DistributedDifferentialPrivacy(Protection):
    name = "DDP_ENCRYPT"
    label = "distributed differential privacy"
    summary = "DDP_ENCRYPT: masks, and noise in the sum"
    section = "ddp_encrypt"
    protects = True
    promises = True
    masked = True
    weighted = False
    hides_failure = True
    sized_for_rounds = True
    inversions = (("imprint", "sum"), ("closed form", "sum"), ("closed form", "upload"))

    def unprotected(self, settings: Settings) -> list[str]:
        return []

    def price(self, settings: Settings, size: int) -> Price:
        event = skellam_encoding(settings, size).event()
        return Price(central=(Cost("updates", event),), limit=Budget(*settings.central, "rdp"))

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        raise NotImplementedError

    def noise(self, settings: Settings, size: int) -> list[str]:
        raise NotImplementedError

    def mechanism(self, settings: Settings, size: int) -> Inside:
        return NoisySum(skellam_encoding(settings, size))

    def minimum(self, settings: Settings) -> int | None:
        return settings.fewest


PROTECTION = DistributedDifferentialPrivacy()
