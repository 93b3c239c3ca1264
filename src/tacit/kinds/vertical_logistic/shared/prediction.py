"""Predictions for new rows on shares: the active receives what the terms release of each score, and nothing else.

Each party knows its own weights after a training, so its part of a score needs no protocol: the parts are shares of it.
An exact score tells the active what the others' parts add up to, which training hid; so by default it is not released.

steps     how many of some public thresholds the score reaches: a decision (one threshold) or a decile (nine)
points    a linear function of the score, rounded down to an integer
exact     the score itself, to 2^-32

Opened to all, and uniform: the score plus rho in 32-bit words, and masked digits of comparisons. The released value is
opened to the active alone. The same row always gets the same value. A part of a score beyond `Releases.bound` counts
as that bound: 1024 / parties, less if points are many.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.channel import Channel
from tacit.fixedpoint import Floats, as_finite
from tacit.kinds.vertical_logistic.shared import digit_comparison, ring
from tacit.kinds.vertical_logistic.shared.dealer import Outbox
from tacit.kinds.vertical_logistic.shared.meeting import PREDICTION, Meeting, meet, meet_as_dealer
from tacit.kinds.vertical_logistic.shared.messages import RELEASED
from tacit.kinds.vertical_logistic.shared.ring import Halves, Words
from tacit.kinds.vertical_logistic.shared.streams import Layout, Shares, drawn_values, missing, room

_SCORE = 20  # fraction bits of a score that is compared: 32-bit words reach 2048
_POINTS = 16  # fraction bits of points, and bits before them
EXACT = 32
REACH = 1024.0  # of scores and thresholds
_BLOCK_WORDS = 1 << 22
_MOST_STEPS = 64


@dataclass(frozen=True, slots=True)
class Releases:
    """What a prediction releases; the same at every party and at the dealer.

    Args:
        session: of the training whose weights are used.
        thresholds: of scores, ascending, for `steps`.
        factor, offset: points are factor * score + offset, rounded down.
    """

    parties: tuple[str, ...]
    dealer: str
    active: str
    rows: int
    session: bytes
    release: Literal["steps", "points", "exact"] = "steps"
    outputs: int = 1
    thresholds: tuple[float, ...] = (0.0,)
    factor: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.rows < 1 << 32 or self.outputs < 1 or self.active not in self.parties:
            raise ValueError(
                f"a prediction for {self.rows} rows and {self.outputs} outputs at {self.active}: check these"
            )
        bounded = all(abs(threshold) < REACH for threshold in self.thresholds)
        if (
            not 1 <= len(self.thresholds) <= _MOST_STEPS
            or not bounded
            or list(self.thresholds) != sorted(self.thresholds)
        ):
            raise ValueError(
                f"{len(self.thresholds)} thresholds: give 1 to {_MOST_STEPS} in ascending order, below {REACH:g}"
            )
        if not (math.isfinite(self.factor) and self.factor != 0 and abs(self.offset) < 1 << (_POINTS - 2)):
            raise ValueError(
                f"points of factor {self.factor:g} and offset {self.offset:g}: give a factor other than 0 and an "
                f"offset below {1 << (_POINTS - 2)}"
            )

    def agreed(self) -> bytes:
        """What all parties compare before they begin."""
        said = asdict(self) | {"session": self.session.hex()}
        return hashlib.sha256(b"prediction" + json.dumps(said, sort_keys=True).encode()).digest()

    @property
    def bound(self) -> float:
        """What a party's part of a score may reach, so that no sum leaves its word."""
        points = (1 << (_POINTS - 2)) / abs(self.factor) if self.release == "points" else REACH
        return min(REACH, points) / len(self.parties)

    @property
    def digits(self) -> int:
        return {"steps": 32, "points": _POINTS, "exact": 0}[self.release] // digit_comparison.BASE_BITS

    @property
    def comparisons(self) -> int:
        """For each score."""
        return {"steps": 2 * len(self.thresholds), "points": 1, "exact": 0}[self.release]

    def layout(self, rows: int) -> Layout:
        """The correlated words of a block of so many rows."""
        scores = (rows, self.outputs)
        if self.release == "exact":
            return Layout({}, {"zero": scores}, {})
        items = rows * self.outputs * self.comparisons
        tables = {
            "digits": (*scores, self.digits, 1 << digit_comparison.BASE_BITS),
            **digit_comparison.made(self.digits, items),
        }
        if self.release == "points":
            tables["top"] = scores
        return Layout({"rho": scores, **digit_comparison.drawn(self.digits, items)}, {}, tables)

    def blocks(self) -> Iterator[slice]:
        """All rows, in blocks whose deals are bounded."""
        size = max(1, _BLOCK_WORDS // (self.outputs * (self.digits * 8 + self.comparisons * self.digits * 5 + 2)))
        for first in range(0, self.rows, size):
            yield slice(first, min(first + size, self.rows))


def deal_predictions(channels: Mapping[str, Channel], releases: Releases, rng: Generator | None = None) -> int:
    """The dealer's part of a prediction. The number of deals."""
    _, seeds, _ = meet_as_dealer(channels, releases, rng)
    outbox = Outbox(channels, releases)
    ordered = tuple(seeds[name] for name in releases.parties)
    for block in releases.blocks():
        outbox.send(PREDICTION, _made(releases, block.stop - block.start, ordered, outbox.next))
    outbox.wait(outbox.serial)
    return outbox.serial


def predict(
    channels: Mapping[str, Channel],
    features: Any,
    weights: Floats,
    intercept: Floats | None,
    releases: Releases,
    me: str,
) -> NDArray[Any] | None:
    """Take part in a prediction: what is released of each row and output, at the active; None at all others.

    Args:
        features: this party's columns of the new rows.
        weights: its own, (columns, outputs).
        intercept: at the active, (outputs,).
    """
    parts = parts_of(features, weights, intercept, releases, releases.bound)
    meeting = meet(channels, releases, me, max(1, len(weights)))
    found = []
    for block in releases.blocks():
        shares = meeting.next_deal(releases.layout(block.stop - block.start), PREDICTION)
        match releases.release:
            case "steps":
                share: Words | Halves = _steps(meeting, parts[block], shares, releases)
            case "points":
                share = _points(meeting, parts[block], shares, releases)
            case "exact":
                share = ring.encode(parts[block], EXACT) + shares.words["zero"]
        found.append(meeting.reveal(releases.active, share, RELEASED))
        meeting.used()
    if me != releases.active:
        return None
    values = np.concatenate(found)
    match releases.release:
        case "steps":
            return values.astype(np.int64)
        case "points":
            return (values.view(np.int32) >> 16).astype(np.int64)
        case "exact":
            return ring.decode(values, EXACT)


def parts_of(features: Any, weights: Floats, intercept: Floats | None, releases: Releases, bound: float) -> Floats:
    """This party's part of each score, within its bound."""
    table = as_finite(features, "features") if np.size(features) else np.zeros((releases.rows, 0))
    if table.shape != (releases.rows, len(weights)) or weights.shape[1:] != (releases.outputs,):
        raise ValueError(
            f"a table of {table.shape} and weights of {weights.shape}: {releases.rows} rows and {releases.outputs} "
            "outputs are due"
        )
    parts = table @ weights + (0.0 if intercept is None else intercept)
    return np.clip(parts, -bound, bound)


def _steps(meeting: Meeting, parts: Floats, shares: Shares, releases: Releases) -> Halves:
    """Shares of how many thresholds each score reaches.

    z reaches t if z - t, as a 32-bit word, is below 2^31: if rho = V - z lies in the 2^31 words up to V - t.
    """
    opened = _masked(meeting, ring.encode(parts, _SCORE), shares)
    thresholds = ring.encode(np.array(releases.thresholds), _SCORE).astype(np.uint32)
    high = opened[..., None] - thresholds
    low = high - np.uint32(1 << 31)
    bounds = np.stack([high, low], axis=-1)  # (rows, outputs, thresholds, 2)
    table = np.repeat(shares.halves["digits"].reshape(opened.size, releases.digits, -1), releases.comparisons, axis=0)
    reached = digit_comparison.at_most(meeting, table, bounds.reshape(-1), shares).reshape(bounds.shape)
    share = (reached[..., 0] - reached[..., 1]).sum(axis=-1, dtype=np.uint32)
    if meeting.first:
        share += (high < low).sum(axis=-1, dtype=np.uint32)
    return np.asarray(share)


def _points(meeting: Meeting, parts: Floats, shares: Shares, releases: Releases) -> Halves:
    """Shares of the points, in the upper half of a word: nothing of a carry beyond them is opened.

    With V = x + rho, the integer part of x is that of V less that of rho, less one if rho's fraction is above V's.
    """
    scaled = parts * releases.factor + (releases.offset if meeting.me == releases.active else 0.0)
    opened = _masked(meeting, ring.encode(scaled, _POINTS), shares)
    fraction = opened & np.uint32((1 << _POINTS) - 1)
    table = shares.halves["digits"].reshape(opened.size, releases.digits, -1)
    fits = digit_comparison.at_most(meeting, table, fraction.reshape(-1), shares).reshape(opened.shape)
    share = fits - shares.halves["top"]
    if meeting.first:
        share += (opened >> np.uint32(_POINTS)) - np.uint32(1)
    return np.asarray(share << np.uint32(_POINTS))


def _masked(meeting: Meeting, words: Words, shares: Shares) -> Halves:
    return meeting.open_halves(words.astype(np.uint32) + shares.words["rho"].astype(np.uint32))


def _made(releases: Releases, rows: int, seeds: tuple[bytes, ...], serial: int) -> Words:
    """At the dealer: what the last party is sent for a block."""
    layout = releases.layout(rows)
    drawn = drawn_values(layout, seeds, serial)
    buffer, _, halves = room(layout)
    if releases.release != "exact":
        rho = drawn["rho"].astype(np.uint32)
        if releases.release == "points":
            halves["top"][...] = rho >> np.uint32(_POINTS)
        digit_comparison.write_digits(rho, halves["digits"])
        digit_comparison.write_products(drawn, halves, releases.digits)
    return missing(buffer, layout, seeds[:-1], serial)
