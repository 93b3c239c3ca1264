"""Masks around updates that are rounded to a few bits, all of the same weight; no epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.random import Generator
from pydantic import Field

from tacit.boundary import Release
from tacit.kinds.horizontal.protections.contract import Inside, Price, Protection, UnusableUpdate
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Flat
from tacit.secagg.encode import Encoding
from tacit.secagg.unmask import Words
from tacit.sections import Section


class Options(Section):
    bits: Annotated[int, Field(ge=1, le=20)] = 10  # after the point


@dataclass(frozen=True, slots=True)
class CoarseMechanism:
    encoding: Encoding

    @property
    def ring(self) -> tuple[int, int]:
        return self.encoding.columns, self.encoding.ring.modulus_bits

    def encode(self, update: Flat, samples: int, rotation: bytes, rng: Generator | None) -> Words:
        if np.abs(update).max() > self.encoding.bound:
            raise UnusableUpdate(f"its update has numbers above {self.encoding.bound:g}")
        return self.encoding.encode(update)

    def decode(self, words: Words, survivors: int, rotation: bytes) -> Flat:
        return self.encoding.decode(words, survivors).mean

    def weight(self, words: Words, survivors: int) -> float:
        return float(survivors)

    def seen(self, words: Words, rotation: bytes) -> Flat:
        signed = words.view(np.int32 if self.ring[1] == 32 else np.int64).astype(np.float64)
        return np.asarray(signed * 2.0**-self.encoding.fraction_bits)


class CoarseSums(Protection):
    name = "COARSE_SUMS"
    label = "sums of rounded updates"
    summary = "COARSE_SUMS: masks around rounded updates"
    section = "options"
    protects = True
    promises = False
    options = Options
    masked = True
    weighted = False
    hides_failure = False
    inversions = (("closed form", "sum"),)

    def unprotected(self, settings: Settings) -> list[str]:
        return ["No epsilon: what the sum of all updates tells about a client is not bounded."]

    def price(self, settings: Settings, size: int) -> Price:
        return Price()

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        return (Release("Masked", "words", "the update, rounded", "masked: only the sum is learnt"),)

    def noise(self, settings: Settings, size: int) -> list[str]:
        return [f"Updates carry no noise; each number is rounded to {self._bits(settings)} bits after the point."]

    def mechanism(self, settings: Settings, size: int) -> CoarseMechanism:
        return CoarseMechanism(Encoding(size, 16.0, settings.sampled, self._bits(settings)))

    def _bits(self, settings: Settings) -> int:
        return Options.model_validate(settings.encrypt.options).bits


PROTECTION = CoarseSums()
_: Inside = CoarseMechanism(Encoding(1, 1.0, 1))
