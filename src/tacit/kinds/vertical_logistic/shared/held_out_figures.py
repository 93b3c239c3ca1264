"""Figures of the rows held out, without opening a score: the active receives a histogram, or a sum of squares.

logistic    for each output the sum of all rows' losses; how many held-out rows score up to each point of a grid,
            to within four; and how many of each class fall in groups of more than ten. Accuracy, AUC and KS follow:
            see `histogram`
linear      for each output, the sum of squared residues

All other openings of an evaluation are uniform: w - b, z + rho, z - u, a masked word for each row and masked ranks
(linear: w - b, and z and z - y under masks).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import PeerError
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.shared import deals, fourier, low_bits, ring
from tacit.kinds.vertical_logistic.shared.histogram import LEAST, UNIT_BITS, Histogram, add_up, counted, merged
from tacit.kinds.vertical_logistic.shared.masked_table import Opened
from tacit.kinds.vertical_logistic.shared.meeting import FIGURES, Meeting
from tacit.kinds.vertical_logistic.shared.messages import COUNTS, HEAD, LOSS, RANKS, Groups
from tacit.kinds.vertical_logistic.shared.ring import Halves, Words
from tacit.kinds.vertical_logistic.shared.scales import ARGUMENT, Scales
from tacit.kinds.vertical_logistic.shared.terms import Terms

_WORD = 31  # bits of a word below the label


@dataclass(frozen=True, slots=True, eq=False)
class Figures:
    """What the active learns of the rows held out: for each output its figures, and its histogram if it has one."""

    outputs: tuple[dict[str, float], ...]
    histograms: tuple[Histogram, ...] = ()

    def state(self) -> dict[str, Any]:
        """All of it as plain data and arrays, for a file."""
        found: dict[str, Any] = {"outputs": json.dumps(self.outputs)}
        for output, histogram in enumerate(self.histograms):
            found |= {f"{part} {output}": getattr(histogram, part) for part in Histogram.__slots__}
        return found

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Figures:
        """What `state` was made of."""
        count = sum(key.startswith("ends ") for key in state)
        parts = [[np.asarray(state[f"{part} {output}"]) for part in Histogram.__slots__] for output in range(count)]
        return cls(tuple(json.loads(state["outputs"])), tuple(Histogram(*each) for each in parts))

    @property
    def loss(self) -> float:
        """Mean over all outputs; not a number if the weights ran away."""
        return float(np.mean([figures["loss"] for figures in self.outputs]))


def check_counts(labels: Floats, terms: Terms) -> None:
    """ValueError if so few held-out rows have a label that a histogram tells of single rows."""
    if terms.model == "linear" or terms.figures == "never" or not terms.counts[1]:
        return
    positive = labels[terms.split[1]].sum(axis=0)
    least = int(min(positive.min(), (terms.counts[1] - positive).min()))
    if least < LEAST:
        raise ValueError(
            f"a class has {least} of the {terms.counts[1]} held-out rows, and figures of fewer than {LEAST} tell of "
            "single rows: hold out more rows (train.test), or set shares.figures: never"
        )


def evaluate(meeting: Meeting, terms: Terms, table: Opened, scales: Scales, weights: Words) -> Figures | None:
    """At the active the figures of the present weights; None at all others. The last deal is left in use."""
    linear = terms.model == "linear"
    loss = np.zeros(terms.outputs, dtype=np.uint64)
    counts = np.zeros((terms.outputs, 2 * terms.buckets), dtype=np.uint32)
    difference = b = np.empty(0, dtype=np.uint64)
    histograms: tuple[Histogram, ...] = ()
    for block in deals.held_out(terms):
        shares = meeting.next_deal(deals.figures_layout(terms, len(weights) - 1, block), FIGURES)
        if block.first:
            b = shares.words["b"]
            difference = meeting.open(weights[:-1] - b)
        score = table.scores(block.rows, difference, b, shares.words["Ab"])
        score += weights[-1] << np.uint64(scales.feature)
        labels = None if table.own.labels is None else table.own.labels[block.rows]
        if linear:
            loss += _squares(meeting, scales, score, labels, shares.words)
        else:
            argued = meeting.open_halves(argument(score, scales) + shares.words["rho"].astype(np.uint32))
            loss += _losses(meeting, terms.harmonics, table, scales, block, score, argued, shares.words)
            counts += counted(_placed(meeting, terms, argued, labels, shares.words), shares.halves["table"])
        if not block.last:
            meeting.used()
        elif not linear:
            histograms = _merged(meeting, terms, counts.reshape(terms.outputs, 2, -1), shares.words)
    total = meeting.reveal(terms.active, loss, LOSS)
    if table.own.labels is None or total is None:
        return None
    held_out = table.own.labels[terms.split[1]]
    if linear:
        return of_squares(ring.decode(total, 2 * deals.RESIDUE), held_out)
    return of_counts(ring.decode(total, scales.score + 1), histograms, held_out)


def argument(score: Words, scales: Scales) -> Halves:
    """A share of the score as a 32-bit word.

    The low bits of the shares are dropped apart: with n parties the sum is off by less than n units of 2^-24. As 2^32
    divides what is left of 2^64, nothing wraps.
    """
    return (score >> np.uint64(scales.score - ARGUMENT)).astype(np.uint32)


def _losses(
    meeting: Meeting,
    harmonics: int,
    table: Opened,
    scales: Scales,
    block: deals.Block,
    score: Words,
    argued: Halves,
    shares: dict[str, Words],
) -> Words:
    """Shares of twice the sum of the rows' losses, log(2 cosh z/2) + z/2 - yz."""
    difference = meeting.open(score - shares["u"])
    weighed = table.label_sum(block.rows, difference, shares["u"], shares["au"])
    factors = np.array(fourier.softplus(harmonics)) * 2.0 ** (scales.score - deals.WAVE)
    curve = fourier.combine(argued, factors, shares["waves"], even=True).sum(axis=0, dtype=np.uint64)
    if meeting.first:
        curve += ring.encode(fourier.SOFTPLUS_MEAN * len(block.rows), scales.score)
    return np.asarray(np.uint64(2) * curve + score.sum(axis=0, dtype=np.uint64) - np.uint64(2) * weighed)


def _placed(meeting: Meeting, terms: Terms, argued: Halves, labels: Floats | None, shares: dict[str, Words]) -> Halves:
    """Open each row's masked word of label and place among the buckets."""
    part = (terms.buckets - 1) / terms.buckets  # so that rounding up stays within the last bucket
    factors = np.array(fourier.squash(terms.harmonics)) * (part / (2 * fourier.SQUASHED) * 2.0**deals.WAVE)
    place = fourier.combine(argued, factors, shares["waves"])
    if meeting.first:
        place = place + np.uint64(round(part / 2 * 2.0 ** (2 * deals.WAVE)))
    word = (place >> np.uint64(2 * deals.WAVE - _WORD)).astype(np.uint32)
    if labels is not None:
        word += labels.astype(np.uint32) << np.uint32(_WORD)
    return meeting.open_halves(word + shares["word"].astype(np.uint32))


def _merged(meeting: Meeting, terms: Terms, counts: Halves, shares: dict[str, Words]) -> tuple[Histogram, ...]:
    """Merge buckets into groups, and reveal each group's counts by class to the active; nothing at all others."""
    ranks = np.cumsum(counts.sum(axis=1, dtype=np.uint32), axis=1, dtype=np.uint32).astype(np.uint64) << np.uint64(32)
    opened = meeting.open(low_bits.masked(ranks, shares["mask"], first=meeting.first))
    share = low_bits.truncated(opened, deals.RANK, shares["low"], shares["top"], first=meeting.first)
    found = meeting.reveal(terms.active, share, RANKS)
    if found is None:
        sent = meeting.others[terms.active].recv(Groups, HEAD + terms.outputs * terms.buckets)
        ends = groups_of(sent, meeting.serial, terms)
    else:
        ends = np.stack([merged(row) for row in found.view(np.int64)])
        for peer in meeting.others.values():
            peer.send(Groups(meeting.serial, ends.tobytes()))
    histograms = []
    for output, row in enumerate(ends):
        total = meeting.reveal(terms.active, add_up(counts[output], row), COUNTS + output)
        if total is not None and found is not None:
            negative, positive = total.astype(np.int64)
            histograms.append(Histogram(negative, positive, row, found[output].view(np.int64) << UNIT_BITS))
    return tuple(histograms)


def groups_of(sent: Groups, serial: int, terms: Terms) -> NDArray[np.bool_]:
    """Which buckets end a group, as the active says; PeerError for groups that the terms do not allow."""
    ends = np.frombuffer(sent.ends, dtype=np.uint8)
    if sent.serial != serial or ends.size != terms.outputs * terms.buckets or ends.max() > 1:
        raise PeerError(f"{terms.active} sent groups of buckets that do not fit the terms")
    rows = ends.astype(bool).reshape(terms.outputs, terms.buckets)
    if not rows[:, -1].all() or rows.sum(axis=1).max() > max(1, terms.counts[1] // LEAST):
        raise PeerError(f"{terms.active} asks for groups of fewer than {LEAST} rows")
    return rows


def of_counts(losses: Floats, histograms: tuple[Histogram, ...], labels: Floats) -> Figures:
    """Figures from the sum of losses and the histogram of each output; PeerError if these do not fit the labels."""
    found = []
    for output, histogram in enumerate(histograms):
        positive, rows = labels[:, output].sum(), len(labels)
        if histogram.positive.sum() != positive or histogram.negative.sum() != rows - positive:
            raise PeerError(
                "the counts of held-out rows do not add up to the labels: a party or the dealer is at fault"
            )
        found.append({"loss": float(losses[output] / rows), **histogram.figures()})
    return Figures(tuple(found), histograms)


def _squares(meeting: Meeting, scales: Scales, score: Words, labels: Floats | None, shares: dict[str, Words]) -> Words:
    opened = meeting.open(low_bits.masked(score, shares["z_mask"], first=meeting.first))
    shift = scales.score - deals.RESIDUE
    residue = low_bits.truncated(opened, shift, shares["z_low"], shares["z_top"], first=meeting.first)
    if labels is not None:
        residue -= ring.encode(labels, deals.RESIDUE)
    difference = meeting.open(residue - shares["u"])
    share = (np.uint64(2) * difference * shares["u"]).sum(axis=0, dtype=np.uint64) + shares["squares"]
    if meeting.first:
        share += (difference * difference).sum(axis=0, dtype=np.uint64)
    return np.asarray(share)


def of_squares(squares: Floats, labels: Floats) -> Figures:
    """Figures of a linear regression, from the sum of squared residues of each output."""
    losses = squares / len(labels)
    spread = labels.var(axis=0)
    return Figures(
        tuple(
            {"loss": float(loss), "r2": float(1 - loss / variance)} if variance > 0 else {"loss": float(loss)}
            for loss, variance in zip(losses, spread, strict=True)
        )
    )
