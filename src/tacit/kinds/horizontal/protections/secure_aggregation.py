"""Masks alone: the coordinator learns the sum of all updates, exactly, and no single one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from tacit.boundary import Release
from tacit.fixedpoint import signed
from tacit.kinds.horizontal.protections.contract import Inside, Price, Protection, UnusableUpdate
from tacit.kinds.horizontal.record_privacy import largest_weight, weighted
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.vector import Flat, largest
from tacit.secagg.encode import Encoding
from tacit.secagg.quantised import QuantisedEncoding
from tacit.secagg.unmask import Words

_NO_CLIP = "bits is {bits}, and numbers are rounded within a clip: add clip, the largest number of a usual update"


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
                exact=masks.bits == "exact",
            )
        )

    @property
    def ring(self) -> tuple[int, int]:
        return self.encoding.columns, self.encoding.ring.modulus_bits

    def encode(self, update: Flat, samples: int, rotation: bytes, rng: Generator | None) -> Words:
        if largest(update) > self.encoding.bound:
            raise UnusableUpdate(
                f"its update has numbers above pw_encrypt.bound = {self.encoding.bound:g}: raise it, or train less"
            )
        if samples > (most := self.encoding.largest_weight or 1):
            raise UnusableUpdate(f"it has more samples than pw_encrypt.largest_weight = {most}: raise it")
        return self.encoding.encode(update, samples)

    def decode(self, words: Words, survivors: int, rotation: bytes) -> Flat:
        return self.encoding.decode(words, survivors).mean

    def weight(self, words: Words, survivors: int) -> float:
        return float(int(words[-1]) % 2 ** self.ring[1])

    def seen(self, words: Words, rotation: bytes) -> Flat:
        numbers = signed(words[: self.encoding.values], self.ring[1])
        return np.asarray(numbers * 2.0**-self.encoding.fraction_bits)


@dataclass(frozen=True, slots=True)
class QuantisedSum:
    """Updates of a few bits, weighted by samples inside the masks: the coordinator learns the weighted mean of them."""

    encoding: QuantisedEncoding

    @classmethod
    def of(cls, settings: Settings, size: int, bits: int) -> QuantisedSum:
        clip = settings.encrypt.pw_encrypt.clip
        if clip is None:
            raise ValueError(_NO_CLIP.format(bits=bits))
        return cls(QuantisedEncoding(size, clip, settings.sampled, bits, largest_weight(settings)))

    @property
    def ring(self) -> tuple[int, int]:
        return self.encoding.columns, self.encoding.modulus_bits

    def encode(self, update: Flat, samples: int, rotation: bytes, rng: Generator | None) -> Words:
        if samples > (most := self.encoding.largest_weight or 1):
            raise UnusableUpdate(f"it has more samples than pw_encrypt.largest_weight = {most}: raise it")
        return self.encoding.encode(update, samples, rng)

    def beyond(self, update: Flat) -> int:
        return self.encoding.beyond(update)

    def decode(self, words: Words, survivors: int, rotation: bytes) -> Flat:
        return self.encoding.decode(words, survivors).mean

    def weight(self, words: Words, survivors: int) -> float:
        return float(self.encoding.weight(words, survivors))

    def seen(self, words: Words, rotation: bytes) -> Flat:
        return np.asarray(self.encoding.signed(words) * (self.encoding.step * (self.encoding.largest_weight or 1)))


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

    def check(self, settings: Settings) -> None:
        masks = settings.encrypt.pw_encrypt
        if not isinstance(masks.bits, int):
            if masks.clip is not None:
                raise ValueError(f"clip is {masks.clip:g}, and without bits no number is clipped: add bits: 8, say")
            return
        if masks.clip is None:
            raise ValueError(_NO_CLIP.format(bits=masks.bits))
        if weighted(settings) and "largest_weight" not in masks.model_fields_set:
            raise ValueError(
                f"bits is {masks.bits}, of which a client uses the part that its samples are of largest_weight: set it "
                "to the most samples that a client has"
            )

    def price(self, settings: Settings, size: int) -> Price:
        return Price()

    def releases(self, settings: Settings) -> tuple[Release, ...]:
        how = "masked: the coordinator learns only the sum over the survivors; what the sum tells is not hidden"
        what = "the sample-weighted update and the sample count"
        if settings.train.privacy is not None:
            what = "the update, and the number 1 in place of its samples"
        masks = settings.encrypt.pw_encrypt
        if isinstance(masks.bits, int):
            how = f"each number clipped to {masks.clip:g} and rounded to {masks.bits} bits, {how}"
        return (Release("Masked", "words", what, how),)

    def noise(self, settings: Settings, size: int) -> list[str]:
        masks = settings.encrypt.pw_encrypt
        if isinstance(masks.bits, int):
            return _rounding(QuantisedSum.of(settings, size, masks.bits).encoding)
        step = 2.0**-masks.fraction_bits
        if settings.train.privacy is not None:
            return [f"Masks add no noise: sums are exact but for rounding each number to {step:.2g}."]
        return [f"Updates carry no noise: sums are exact but for rounding each number to {step:.2g}."]

    def mechanism(self, settings: Settings, size: int) -> Inside:
        bits = settings.encrypt.pw_encrypt.bits
        return QuantisedSum.of(settings, size, bits) if isinstance(bits, int) else WeightedSum.of(settings, size)


PROTECTION = SecureAggregation()


def _rounding(encoding: QuantisedEncoding) -> list[str]:
    """What rounding to a few bits does to a mean, as sentences."""
    one, most = encoding.step, encoding.largest_weight
    found = [
        f"Each number of an update is clipped to {encoding.clip:g} and rounded at random, up or down by less than "
        f"{one:.2g} and right on average; sums of these are exact. In the mean of {encoding.clients} updates that is "
        f"an error of {one / math.sqrt(6 * encoding.clients):.2g} for each number, at most "
        f"{one / math.sqrt(4 * encoding.clients):.2g} (standard deviations)."
    ]
    if most is not None and most > 1:
        found.append(
            f"That holds for clients of largest_weight {most} samples; with half as many, the error is twice as large."
        )
    return found
