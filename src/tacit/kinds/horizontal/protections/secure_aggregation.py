"""Masks alone: the coordinator learns the sum of all updates, exactly, and no single one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tacit.boundary import Release
from tacit.kinds.horizontal.protections.contract import Inside, Price, Protection, UnusableUpdate
from tacit.kinds.horizontal.record_privacy import largest_weight
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Flat
from tacit.secagg.encode import Encoding
from tacit.secagg.unmask import Words


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
                largest_weight=largest_weight(settings),
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

    def weight(self, words: Words, survivors: int) -> float:
        return float(words[-1])

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
        """No epsilon, and what sums over nearly the same clients tell a coordinator that chooses whom it leaves out."""
        again = settings.round.repeats
        whole = " for a whole client" if settings.train.privacy is not None else ""
        found = [
            f"No epsilon{whole}: what the sum of all updates, and so the model, tells about a client is not bounded.",
            "Two sums over nearly the same clients differ by the updates and sample counts of the few that are in one "
            "of them alone. A client uploads for a model that it has uploaded for before at most "
            f"{again} times in a run (round.repeats): each repeat may cost one such difference.",
            "A coordinator that moves the model a little each round still learns from differences: two rounds may tell "
            "it the update of one client, nearly exactly. Only noise (DDP_ENCRYPT) answers that.",
        ]
        least = settings.round.least_difference
        if least is not None:
            found.append(
                f"Clients that do not work with the coordinator refuse to open two sums whose survivors differ by 1 to "
                f"{least - 1} clients (round.least_difference: {least}). Several sums that differ by more can still be "
                "solved for one client."
            )
        return found

    def price(self, settings: Settings, size: int) -> Price:
        return Price()

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        how = "masked: the coordinator learns only the sum over the survivors; what the sum tells is not hidden"
        what = "the sample-weighted update and the sample count"
        if settings.train.privacy is not None:
            what = "the update, and the number 1 in place of its samples"
        return (Release("Masked", "words", what, how),)

    def noise(self, settings: Settings, size: int) -> list[str]:
        step = 2.0**-settings.encrypt.pw_encrypt.fraction_bits
        if settings.train.privacy is not None:
            return [f"Masks add no noise: sums are exact but for rounding each number to {step:.2g}."]
        return [f"Updates carry no noise: sums are exact but for rounding each number to {step:.2g}."]

    def mechanism(self, settings: Settings, size: int) -> Inside:
        return WeightedSum.of(settings, size)


PROTECTION = SecureAggregation()
