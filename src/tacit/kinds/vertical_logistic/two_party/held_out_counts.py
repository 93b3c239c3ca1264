"""Figures of the rows held out between two parties, without opening a score: a histogram, or a sum of squares.

logistic    the active learns what it learns with a dealer (`shared.held_out_figures`): for each output the sum of all
            rows' losses; how many held-out rows score up to each point of a grid, to within four; and how many of each
            class fall in groups of more than ten. The passive learns which points make up a group.
linear      for each output, the sum of squared residues

One lookup of each score gives shares of its loss and of its bucket; from shares of the bucket `unit_vectors` makes
shares of the histogram. The active places each row with its label, so that rows of one class count in the upper half
of a word and all rows in the lower one. A score has an entry for every quarter up to 96; larger ones count as one
between 80 and 112.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import oblivious
from tacit.crypto.ot.words import Words
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.shared import deals, histogram, ring
from tacit.kinds.vertical_logistic.shared.held_out_figures import Figures, groups_of, of_counts, of_squares
from tacit.kinds.vertical_logistic.shared.histogram import UNIT_BITS, Histogram, add_up, merged
from tacit.kinds.vertical_logistic.shared.messages import COUNTS, HEAD, LOSS, RANKS, Groups
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.two_party import lift
from tacit.kinds.vertical_logistic.two_party.lookup import (
    SCORE,
    Grid,
    Indices,
    interpolated,
    look_up_first,
    look_up_second,
)
from tacit.kinds.vertical_logistic.two_party.meeting import Link, Tables
from tacit.kinds.vertical_logistic.two_party.scales import FEATURE, Scales
from tacit.kinds.vertical_logistic.two_party.unit_vectors import count_first, count_second

__all__ = ["JUDGED", "evaluate", "word_of_counts"]

JUDGED = Grid(entries_bits=10, step_bits=2)
LOSS_BITS = 24  # fraction bits of a loss
_BELOW = 48  # bits of a word below its bucket: a sum of losses has no more
_PRODUCTS = 1 << 13  # products whose 64 transfers each are made at once
_LOW = np.uint64((1 << _BELOW) - 1)


def evaluate(tables: Tables, terms: Terms, scales: Scales, labels: Floats | None, weights: Words) -> Figures | None:
    """At the active the figures of the present weights; None at the passive."""
    link, rows = tables.link, terms.split[1]
    scores = tables.scores(rows, weights, scales.score_bytes, FEATURE)
    held_out = None if labels is None else labels[rows]
    if terms.model == "linear":
        total = _revealed(link, _squares(link, scores, held_out), LOSS)
        return None if held_out is None else of_squares(ring.decode(total, 2 * deals.RESIDUE), held_out)
    losses = np.empty(terms.outputs, dtype=np.uint64)
    counts = np.empty((terms.outputs, terms.buckets), dtype=word_of_counts(len(rows)))
    for output in range(terms.outputs):
        target = None if held_out is None else held_out[:, output]
        words = _looked_up(link, scores[:, output], target, terms.buckets)
        losses[output] = (words & _LOW).sum(dtype=np.uint64) & _LOW
        counts[output] = _counted(link, (words >> np.uint64(_BELOW)).astype(np.int64), target, counts.dtype, terms)
    histograms = _merged(link, terms, counts)
    total = _revealed(link, losses, LOSS)
    if held_out is None:
        return None
    return of_counts(
        ring.decode((total & _LOW) << np.uint64(64 - _BELOW), LOSS_BITS + 64 - _BELOW), histograms, held_out
    )


def word_of_counts(rows: int) -> Any:
    """The type of a word that counts all rows in its lower half and those of a class in the upper one."""
    return np.dtype(np.uint32 if rows < (1 << 16) - (2 << UNIT_BITS) else np.uint64)


def _looked_up(link: Link, scores: Words, labels: Floats | None, buckets: int) -> Words:
    """A share of each row's bucket, modulo the number of buckets, above 48 bits with a share of its loss."""
    if labels is None:
        return look_up_second(link.channel, link.receiver, scores, JUDGED, 8)
    curve = interpolated(lambda z: np.logaddexp(0.0, z), JUDGED)
    entries = np.stack([curve, curve - JUDGED.scores])
    losses = np.rint(entries * 2.0**LOSS_BITS).astype(np.int64).astype(np.uint64) & _LOW
    grid = histogram.grid(buckets)
    nearest = np.searchsorted((grid[1:] + grid[:-1]) / 2, JUDGED.scores).astype(np.uint64)
    table = (nearest << np.uint64(_BELOW)) + losses
    classes = labels.astype(np.int64)

    def chosen(part: slice, places: Indices) -> Words:
        return np.asarray(table[classes[part, None], places])

    return look_up_first(link.channel, link.sender, scores, JUDGED, chosen, 8, link.rng, split=_BELOW)


def _counted(link: Link, places: Indices, labels: Floats | None, dtype: Any, terms: Terms) -> NDArray[Any]:
    """Shares of how many rows fall in each bucket: all in the lower half of a word, those of the class in the upper."""
    if labels is None:
        return count_second(link.channel, link.receiver, places, terms.buckets, dtype)
    half = dtype.type(4 * dtype.itemsize)
    values = np.ones(len(labels), dtype=dtype) + (labels.astype(dtype) << half)
    return count_first(link.channel, link.sender, places, values, terms.buckets)


def _merged(link: Link, terms: Terms, counts: NDArray[Any]) -> tuple[Histogram, ...]:
    """Merge buckets into groups, and reveal each group's counts by class to the active; nothing at the passive."""
    bits = 4 * counts.dtype.itemsize  # of half a word
    low = counts.astype(np.uint64) & np.uint64((1 << bits) - 1)
    ranks = np.cumsum(low, axis=1, dtype=np.uint64)
    share = lift.dropped(ranks, bits, UNIT_BITS, second=not link.first)
    found = _revealed(link, share, RANKS)
    if found is None:
        sent = link.channel.recv(Groups, HEAD + terms.outputs * terms.buckets)
        ends = groups_of(sent, 0, terms)
    else:
        found &= np.uint64((1 << (bits - UNIT_BITS)) - 1)
        ends = np.stack([merged(row) for row in found.view(np.int64)])
        link.channel.send(Groups(0, ends.tobytes()))
    histograms = []
    for output, row in enumerate(ends):
        total = _revealed(link, add_up(counts[output], row), COUNTS + output)
        if total is not None and found is not None:
            both = total.astype(np.uint64)
            positive = (both >> np.uint64(bits)).astype(np.int64)
            negative = (both & np.uint64((1 << bits) - 1)).astype(np.int64) - positive
            histograms.append(Histogram(negative, positive, row, found[output].view(np.int64) << UNIT_BITS))
    return tuple(histograms)


def _revealed(link: Link, share: Any, stage: int) -> Any:
    """The value at the active, None at the passive."""
    if link.first:
        return link.take(share, stage)
    link.give(share, stage)
    return None


def _squares(link: Link, scores: Words, labels: Floats | None) -> Words:
    """Shares of the sum of squared residues of each output, with twice 16 fraction bits.

    (a + b)² = a² + b² + 2ab, of which only ab needs the other party: a transfer for each bit of b.
    """
    residues = link.lifted(scores, 64, SCORE - deals.RESIDUE)
    if labels is not None:
        residues = residues - ring.encode(labels, deals.RESIDUE)
    places = np.arange(64, dtype=np.uint64)
    total = (residues * residues).sum(axis=0, dtype=np.uint64)
    for start in range(0, len(residues), _PRODUCTS):
        for output in range(residues.shape[1]):
            own, one = residues[start : start + _PRODUCTS, output, None], slice(output, output + 1)
            if link.first:
                kept = oblivious.send_correlated(link.channel, link.sender, (own << places).reshape(-1))
                total[one] -= kept.sum(dtype=np.uint64, keepdims=True) << np.uint64(1)
            else:
                bits = (own >> places & np.uint64(1)).reshape(-1)
                found = oblivious.receive_correlated(link.channel, link.receiver, bits)
                total[one] += found.sum(dtype=np.uint64, keepdims=True) << np.uint64(1)
    return np.asarray(total)
