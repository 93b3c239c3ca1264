"""Predictions for new rows between two parties: the active receives what the terms release of each score, nothing else.

Each party knows its own weights after a training, so its part of a score needs no protocol. The passive offers, for
each row and output, a table of what is released for each part of the active; the active looks up its own. What it finds
is what is released, so no mask is needed.

steps     how many of some public thresholds the score reaches: a decision (one threshold) or a decile (nine). Each
          party rounds its part to a multiple of 1/64: the value is that of a score within 1/64 of the true one. A part
          beyond 32 counts as 32.
points    a linear function of the score, rounded down to an integer: the active looks up whether the fractions of both
          parts, to 2^-12 of a point, make a further point
exact     the score itself: the passive sends its part, to 2^-32

The same row always gets the same value.

Guarantee: the passive receives the columns of random transfers. The active receives the released value.
Assumes: what `tacit.crypto.ot` assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit import oblivious
from tacit.channel import Channel
from tacit.crypto.ot.words import Words
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.shared import ring
from tacit.kinds.vertical_logistic.shared.messages import RELEASED
from tacit.kinds.vertical_logistic.shared.prediction import EXACT, Releases, parts_of
from tacit.kinds.vertical_logistic.two_party.meeting import Link, meet

__all__ = ["BOUND", "STEP", "predict", "released_bytes"]

_ENTRIES_BITS, _STEP_BITS, _POINT_BITS = 13, 6, 12
STEP = 2.0**-_STEP_BITS  # the number of thresholds is that of a score so near to the true one
BOUND = 2.0 ** (_ENTRIES_BITS - _STEP_BITS - 2) - STEP  # what a party's part of a score counts at most for thresholds
_AT_ONCE = 1 << 7  # tables of one message
_MIDDLE = 1 << 23  # points are integers of 24 bits with this added


def predict(
    channels: Mapping[str, Channel],
    features: Any,
    weights: Floats,
    intercept: Floats | None,
    releases: Releases,
    me: str,
    rng: Generator | None = None,
) -> NDArray[Any] | None:
    """Take part in a prediction: what is released of each row and output, at the active; None at the passive.

    The arguments are those of `shared.prediction.predict`; the terms name two parties and no dealer.
    """
    bound = BOUND if releases.release == "steps" else releases.bound
    parts = parts_of(features, weights, intercept, releases, bound)
    link = meet(channels, releases, me, max(1, len(weights)), rng=rng)
    match releases.release:
        case "exact":
            words = ring.encode(parts, EXACT)
            if link.first:
                return ring.decode(link.take(words, RELEASED), EXACT)
            link.give(words, RELEASED)
            return None
        case "steps":
            found = _steps(link, np.floor(parts / STEP + 0.5).astype(np.int64).reshape(-1), releases)
        case "points":
            scaled = parts * releases.factor + (releases.offset if link.first else 0.0)
            found = _points(link, np.floor(scaled * 2.0**_POINT_BITS).astype(np.int64).reshape(-1))
    return None if found is None else found.reshape(parts.shape)


def released_bytes(releases: Releases) -> int:
    """What the passive sends for one row, about."""
    each = {"exact": 8, "steps": 1 << _ENTRIES_BITS, "points": 3 << _POINT_BITS}[releases.release]
    return each * releases.outputs


def _steps(link: Link, parts: NDArray[np.int64], releases: Releases) -> NDArray[np.int64] | None:
    """At the active the number of thresholds, from parts in steps of the grid."""
    size = 1 << _ENTRIES_BITS
    steps = np.arange(size)
    scores = np.where(steps < size // 2, steps, steps - size) * STEP
    values = np.searchsorted(np.array(releases.thresholds), scores, side="right").astype(np.uint64)
    return _looked_up(link, parts, _ENTRIES_BITS, 1, lambda turned: values[turned & (size - 1)])


def _points(link: Link, parts: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """At the active the points, from parts in units of 2^-12 points."""
    found = _looked_up(
        link, parts, _POINT_BITS, 3, lambda turned: ((turned >> _POINT_BITS) + _MIDDLE).astype(np.uint64)
    )
    return None if found is None else (parts >> _POINT_BITS) + found - _MIDDLE


def _looked_up(
    link: Link,
    parts: NDArray[np.int64],
    bits: int,
    width: int,
    values: Callable[[NDArray[np.int64]], Words],
) -> NDArray[np.int64] | None:
    """At the active `values` at the passive's part plus the low bits of its own."""
    size = 1 << bits
    found = np.empty(len(parts), dtype=np.int64)
    for start in range(0, len(parts), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        if link.first:
            found[part] = oblivious.receive_entries(link.channel, link.receiver, parts[part] & (size - 1), bits, width)
        else:
            oblivious.send_tables(link.channel, link.sender, values(parts[part, None] + np.arange(size)), width)
    return found if link.first else None
