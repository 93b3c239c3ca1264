"""Masks alone: the coordinator learns the sum of all updates, exactly, and no single one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from tacit.boundary import Release
from tacit.kinds.horizontal.protections.contract import Inside, Price, Protection, UnusableUpdate
from tacit.kinds.horizontal.vector import Flat
from tacit.secagg.encode import Encoding
from tacit.secagg.unmask import Words

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """Updates weighted by samples inside the masks: the coordinator learns the weighted mean, exactly."""

    encoding: Encoding

    @classmethod
    def of(cls, settings: Settings, size: int) -> WeightedSum:
        masks = settings.encrypt.pw_encrypt
        return cls(
            Encoding(
                values=size,
                bound=masks.bound,
                clients=settings.sampled,
                fraction_bits=masks.fraction_bits,
                largest_weight=masks.largest_weight,
            )
        )

    @property
    def ring(self) -> tuple[int, int]:
        return self.encoding.columns, self.encoding.ring.modulus_bits

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

    def seen(self, words: Words, rotation: bytes) -> Flat:
        signed = words.view(np.int32 if self.ring[1] == 32 else np.int64).astype(np.float64)
        return np.asarray(signed[: self.encoding.values] * 2.0**-self.encoding.fraction_bits)


class SecureAggregation(Protection):
    name = "PW_ENCRYPT"
    label = "secure aggregation"
    summary = "PW_ENCRYPT: masks, so that only the sum is seen"
    section = "pw_encrypt"
    protects = True
    promises = False
    masked = True
    weighted = True
    hides_failure = False
    inversions = (("imprint", "sum"), ("closed form", "sum"), ("closed form", "upload"))

    def unprotected(self, settings: Settings) -> list[str]:
        raise NotImplementedError

    def price(self, settings: Settings, size: int) -> Price:
        return Price()

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        raise NotImplementedError

    def noise(self, settings: Settings, size: int) -> list[str]:
        raise NotImplementedError

    def mechanism(self, settings: Settings, size: int) -> Inside:
        return WeightedSum.of(settings, size)


PROTECTION = SecureAggregation()
