"""Distributed differential privacy: each client adds a share of the noise before its vector is masked.

clip → random signs and Hadamard matrix (`rotation`) → scale → stochastic rounding, conditioned on the norm → Skellam →
ring.

The server sees only the sum, which carries the noise of all. Shares are sized for `fewest` survivors, `colluders` of
whom may tell theirs, so that the guarantee holds for every larger set; a smaller one must not be opened. Skellam noise
adds up exactly: the sum of shares is what one party would have drawn.

Source: Agarwal, Kairouz, Liu 2021 (the Skellam mechanism); Kairouz, Liu, Steinke 2021, section 3 (rotation, rounding).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.dp import noise
from tacit.dp.accounting import Ledger
from tacit.dp.clipping import clip_l2
from tacit.dp.gaussian import least
from tacit.dp.release import SkellamEvent, check_delta, check_positive
from tacit.fixedpoint import FEWEST_BITS, MOST_BITS, Floats, as_finite, residues, signed, word_type
from tacit.randomness import secure_rng
from tacit.secagg import rotation as turn
from tacit.secagg.packed_words import Words
from tacit.secagg.settings import Settings

_FINENESS = 16.0  # the clipping norm is this many times sqrt(d) rounding steps: rounding adds 0.2% to it
_COARSEST = 0.5  # with fewer steps rounding adds more than 41% to the norm, and as much to the noise
_LOG2_WRAP = -60.0  # the noise leaves the ring with less than this probability, or the ring is refused
_MISS = 0.5  # log(1/beta) of the conditioned rounding: it succeeds in at least 1 - e^-0.5 = 39% of the tries
_TRIES = 1000  # all of which fail with probability below 2^-700


@dataclass(frozen=True, slots=True)
class SkellamEncoding:
    """Vectors of `values` numbers clipped to L2 norm `clip`, of up to `clients` clients.

    Args:
        fewest: survivors for whom the noise is sized. With fewer the sum must not be opened: it must be the `minimum`
            of the aggregation, as `settings` makes it.
        colluders: of them, how many may tell the server their noise.
        noise_multiplier: central noise over the sensitivity of the rounded vector.
        bits: None for a ring of 32 or 64 bits; `exact` for as many as the sums need, from 8 to 64; a number b for a
            ring of b + log2(clients) bits, in which rounding is as fine as the noise leaves room for.
    """

    values: int
    clip: float
    clients: int
    fewest: int
    noise_multiplier: float
    colluders: int = 0
    bits: int | Literal["exact"] | None = None

    def __post_init__(self) -> None:
        check_positive("clip", self.clip)
        check_positive("noise_multiplier", self.noise_multiplier)
        if self.values < 1 or self.values != int(self.values):
            raise ValueError(f"values must be a whole number of at least 1, got {self.values!r}")
        if not 0 <= self.colluders < self.fewest <= self.clients:
            raise ValueError(
                f"need 0 <= colluders < fewest <= clients, got {self.colluders}, {self.fewest} and {self.clients}"
            )
        _ = self.event()  # refused here if the noise or the sums do not fit

    @classmethod
    def for_budget(
        cls,
        *,
        values: int,
        clip: float,
        clients: int,
        fewest: int,
        colluders: int = 0,
        epsilon: float,
        delta: float,
        rounds: int = 1,
        bits: int | Literal["exact"] | None = None,
    ) -> SkellamEncoding:
        """The encoding with the least noise for which `rounds` sums cost at most (epsilon, delta) centrally."""
        check_positive("epsilon", epsilon)
        check_delta(delta)
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}")

        def meets(multiplier: float) -> bool:
            ledger = Ledger("client", "zero-out")
            try:
                ledger.spend(cls(values, clip, clients, fewest, multiplier, colluders, bits).event(), rounds)
            except _NoRoom:
                return True  # too much noise: less is looked for, and if the least is too much, it is refused below
            return ledger.epsilon(delta, "rdp") <= epsilon

        return cls(values, clip, clients, fewest, least(meets, 1e-6), colluders, bits)

    @property
    def columns(self) -> int:
        """Ring words in a vector: the next power of two; with a number of bits, the fewest that can be rotated."""
        return turn.columns(self.values) if isinstance(self.bits, int) else 1 << (self.values - 1).bit_length()

    @property
    def scale(self) -> float:
        """Integer steps in one unit."""
        return self.fineness * math.sqrt(self.columns) / self.clip

    @property
    def fineness(self) -> float:
        """Rounding steps in a number of typical size: the clipping norm over sqrt(d)."""
        return _fineness(*self._noisy_ring) if isinstance(self.bits, int) else _FINENESS

    @property
    def _noisy_ring(self) -> tuple[int, int, int, float, int]:
        honest = self.fewest - self.colluders
        return self.columns, self.clients, honest, self.noise_multiplier, self.modulus_bits

    @property
    def l2_sensitivity(self) -> float:
        """A bound on the norm of a rounded vector, which every client keeps by rounding again.

        Source: Kairouz, Liu, Steinke 2021, Proposition 22.
        """
        return _rounded_norm(self.columns, self.fineness)

    @property
    def central_variance(self) -> float:
        """Of the noise in the sum of `fewest` vectors, without that of the colluders; in squared integer steps."""
        return (self.noise_multiplier * self.l2_sensitivity) ** 2

    @property
    def share_variance(self) -> float:
        return self.central_variance / (self.fewest - self.colluders)

    @property
    def modulus_bits(self) -> int:
        """Of the smallest ring that holds every sum, among those that `bits` allows."""
        if isinstance(self.bits, int):
            return max(FEWEST_BITS, self.bits + (self.clients - 1).bit_length())
        for bits in (32, 64) if self.bits is None else range(FEWEST_BITS, MOST_BITS + 1):
            if self._log2_wrap(bits) < _LOG2_WRAP:
                return bits
        raise ValueError(
            f"{self.clients} clients with {self.columns} columns at noise multiplier {self.noise_multiplier:g} leave a "
            "ring of 64 bits: lower the noise or the number of clients"
        )

    @property
    def log2_wrap_probability(self) -> float:
        """log2 of a bound on the probability that some coordinate of a sum leaves the ring."""
        if isinstance(self.bits, int):
            return _log2_wrap_if_turned(self.fineness, *self._noisy_ring)
        return self._log2_wrap(self.modulus_bits)

    def _log2_wrap(self, bits: int) -> float:
        room = 2 ** (bits - 1) - 1 - math.ceil(self.clients * self.l2_sensitivity)
        if room < 1:
            return 0.0
        return 1 + math.log2(self.columns) + noise.skellam_log2_tail(room, self.clients * self.share_variance)

    def event(self) -> SkellamEvent:
        """What opening one sum of `fewest` or more vectors costs.

        Guarantee: for zeroing out one client, against an observer of the sum that knows the vectors and the noise of
        `colluders` others. The slack is that of the samplers and the probability of a wrap.
        """
        draws = math.log2(self.columns * self.clients) + noise.skellam_log2_distance(self.share_variance)
        slack = float(np.logaddexp2(draws, self.log2_wrap_probability))
        norm = self.l2_sensitivity
        l1 = min(norm**2, math.sqrt(self.columns) * norm)
        return SkellamEvent(self.central_variance, norm, l1, "client", "zero-out", slack)

    def settings(self, **keys: Any) -> Settings:
        """Settings of an aggregation of such vectors: no sum of fewer than `fewest` is opened, and the masks hold
        against the same colluders."""
        return Settings(
            self.clients, self.columns, self.modulus_bits, minimum=self.fewest, colluders=self.colluders, **keys
        )

    def encode(self, values: Any, rotation: bytes, rng: Generator | None = None) -> Words:
        """Ring words of one client. `rotation` is public and the same for all clients of a round: 16 bytes or more."""
        array = as_finite(values).copy()
        if array.shape != (self.values,):
            raise ValueError(f"values must be a vector of {self.values}, got shape {array.shape}")
        rng = rng or secure_rng()
        clip_l2(array, self.clip)
        padded = np.zeros(self.columns)
        padded[: self.values] = array
        rounded = self._round(turn.rotate(padded, rotation) * self.scale, rng)
        rounded += noise.skellam(self.share_variance, self.columns, rng)
        return residues(rounded, self.modulus_bits)

    def _round(self, scaled: Floats, rng: Generator) -> NDArray[np.int64]:
        below = np.floor(scaled)
        fraction = scaled - below
        base = below.astype(np.int64)
        for _ in range(_TRIES):
            rounded = base + (rng.random(len(base)) < fraction)
            if int(rounded @ rounded) <= self.l2_sensitivity**2:
                return rounded
        raise ArithmeticError("stochastic rounding did not find a vector within its norm")

    def decode(self, words: Words, survivors: int, rotation: bytes) -> Floats:
        """The noisy mean. Refused for fewer survivors than the noise is sized for."""
        if survivors < self.fewest:
            raise ValueError(f"{survivors} survivors, the noise is sized for {self.fewest} or more")
        if words.shape != (self.columns,) or words.dtype != word_type(self.modulus_bits):
            raise ValueError(
                f"words must be {self.columns} of {self.modulus_bits} bits, got {words.shape} of {words.dtype}"
            )
        turned = turn.turn_back(signed(words, self.modulus_bits).astype(np.float64), rotation)
        return turned[: self.values] / (self.scale * survivors)


def _rounded_norm(columns: int, fineness: float) -> float:
    """A bound on the norm of a vector of norm fineness * sqrt(columns) after rounding, as `l2_sensitivity` says."""
    norm = fineness * math.sqrt(columns)
    worst = (norm + math.sqrt(columns)) ** 2
    likely = norm**2 + columns / 4 + math.sqrt(2 * _MISS) * (norm + math.sqrt(columns) / 2)
    return math.sqrt(min(worst, likely))


def _log2_wrap_if_turned(
    fineness: float, columns: int, clients: int, honest: int, noise_multiplier: float, bits: int
) -> float:
    """log2 of a bound on the probability of a wrap, for a rotation that was drawn apart from the vectors.

    Guarantee: the random signs make a column of the turned sum sub-Gaussian: it exceeds t with probability at most
        2 exp(-t^2 / 2 s^2), s = clients * fineness steps (Hoeffding). Rounding adds less than a step for each client.
        No epsilon depends on this: a sum that wraps is wrong, and reveals no more.
    """
    reach = math.sqrt(2 * math.log(2) * (math.log2(columns) + 2 - _LOG2_WRAP)) * clients * fineness
    room = 2 ** (bits - 1) - 1 - clients - math.ceil(reach)
    if room < 1:
        return 0.0
    variance = (noise_multiplier * _rounded_norm(columns, fineness)) ** 2
    tail = noise.skellam_log2_tail(room, clients * variance / honest)
    return float(np.logaddexp2(1 + math.log2(columns) + tail, _LOG2_WRAP - 1))


@lru_cache(maxsize=256)
def _fineness(columns: int, clients: int, honest: int, noise_multiplier: float, bits: int) -> float:
    """The most steps, up to the usual ones, with which a sum stays in a ring of `bits`."""
    found = _FINENESS
    low, high = 0.0, 2 * _FINENESS
    for _ in range(40):
        if _log2_wrap_if_turned(found, columns, clients, honest, noise_multiplier, bits) < _LOG2_WRAP:
            low = found
        else:
            high = found
        found = min(_FINENESS, (low + high) / 2)
    if low < _COARSEST:
        raise _NoRoom(
            f"the noise of {clients} clients in {columns} columns leaves a ring of {bits} bits, however coarsely "
            "updates are rounded: take more bits"
        )
    return low


class _NoRoom(ValueError):
    """The ring is too small for the noise."""
