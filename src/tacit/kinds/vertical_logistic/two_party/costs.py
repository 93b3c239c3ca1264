"""How much a training between two parties sends, how often they wait for each other, and distances from uniform.

costs(terms, columns)        of a training without interruptions, before it begins
distances(terms, columns)    what a party's words fall short of uniform, and failures of the arithmetic
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tacit.crypto.ot import base
from tacit.crypto.ot.extension import message_bytes
from tacit.crypto.ot.one_of_many import pad_blocks
from tacit.crypto.punctured import answer_bytes, block, request_bytes
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.two_party.held_out_counts import JUDGED, word_of_counts
from tacit.kinds.vertical_logistic.two_party.lookup import CELLS_BITS, Grid
from tacit.kinds.vertical_logistic.two_party.scales import DIGIT_BITS, DIGITS, Scales, scales
from tacit.kinds.vertical_logistic.two_party.training import SIGMOID

_WORD = 64  # bits of a lifted word, and of a product of words


@dataclass(frozen=True, slots=True)
class Amount:
    """Bytes of bulk data, and random transfers; a message has about 20 bytes more.

    Args:
        exchanges: round trips. Words of products travel with other messages and take none.
    """

    bytes: int = 0
    transfers: int = 0
    exchanges: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.bytes + other.bytes, self.transfers + other.transfers, self.exchanges + other.exchanges)

    def times(self, count: int) -> Amount:
        """So much, `count` times."""
        return Amount(self.bytes * count, self.transfers * count, self.exchanges * count)


@dataclass(frozen=True, slots=True)
class Costs:
    """Of both parties together.

    Args:
        setup: base transfers and the trees of both tables; again in each meeting after an interruption.
        step: one with the largest batch.
        figures: of one evaluation.
        total: of the whole training, with the final opening.
    """

    setup: Amount
    step: Amount
    figures: Amount
    total: Amount


def costs(terms: Terms, columns: Mapping[str, int]) -> Costs:
    """What a training of these parties' columns sends."""
    chosen, width = scales(terms), sum(columns.values())
    setup = Amount(2 * (base.OFFER_BYTES + base.ANSWER_BYTES), 0, 3)
    for each in columns.values():
        setup += _trees(terms.rows * each * DIGITS)
    sizes = Counter(terms.schedule.size(step) for step in range(terms.schedule.steps))  # of each epoch
    steps = Amount()
    for rows, count in sizes.items():
        steps += _step(terms, chosen, width, rows).times(count * len(terms.rates))
    evaluations = _evaluations(terms)
    figures = _figures(terms, chosen, width) if evaluations else Amount()
    final = Amount(8 * terms.outputs * (width + 1), 0, 1)
    largest = _step(terms, chosen, width, terms.largest_batch)
    return Costs(setup, largest, figures, setup + steps + figures.times(evaluations) + final)


def distances(terms: Terms, columns: Mapping[str, int]) -> dict[str, float]:
    """How far from uniform is what a party receives over a whole training; the sum bounds them all.

    Guarantee: every mask is uniform over the ring of what it hides, so given ideal transfers and trees each word is
        uniform whatever the tables hold, and dropping low bits does not fail: these distances are 0. Blocks that a
        party lacks, nodes and leaves of trees and pads of transfers, are hashes under an ideal permutation: p of them
        are p²/2^128 from uniform ones, besides p·q/2^128 for an adversary that evaluates AES q times, which no
        distance covers.
    Source: Guo, Katz, Wang, Yu 2020, as in `tacit.crypto.fixed_key`.
    """
    found = costs(terms, columns)
    trees = terms.rows * sum(columns.values()) * DIGITS
    visits = 2 * len(terms.rates) + _evaluations(terms)
    words = trees * terms.outputs * visits
    lacking = trees * DIGIT_BITS + words + found.total.transfers + _pads(terms)
    exact = ["scores", "residues", "gradients", "weights", "scores held out", "low bits dropped"]
    return {**dict.fromkeys(exact, 0.0), "hashed blocks": lacking**2 / 2.0**128}


def _pads(terms: Terms) -> int:
    """Blocks that hide entries of tables, and of vectors that are counted: an entry of one byte takes as many as one
    of eight."""
    if terms.model == "linear":
        return 0
    cells = pad_blocks(CELLS_BITS)
    steps = terms.counts[0] * len(terms.rates) * (cells + pad_blocks(SIGMOID.entries_bits))
    word = int(word_of_counts(terms.counts[1]).itemsize)
    vectors = 2 * (terms.buckets.bit_length() - 1) * -(-terms.buckets * word // 16)
    figures = terms.counts[1] * _evaluations(terms) * (cells + pad_blocks(JUDGED.entries_bits) + vectors)
    return terms.outputs * (steps + figures)


def _evaluations(terms: Terms) -> int:
    return {"epoch": len(terms.rates), "end": 1, "never": 0}[terms.figures] if terms.counts[1] else 0


def _trees(count: int) -> Amount:
    size = block(DIGIT_BITS)
    found = Amount()
    for start in range(0, count, size):
        part = min(size, count - start)
        asked, answered = request_bytes(part, DIGIT_BITS), answer_bytes(part, DIGIT_BITS)
        found += Amount(asked + answered, part * DIGIT_BITS, 1)
    return found


def _transferred(count: int, each: int) -> Amount:
    """So many random transfers, and bytes that are hidden by each."""
    return Amount(message_bytes(count) + count * each, count, 1)


def _lookup(count: int, grid: Grid, width: int) -> Amount:
    cells = Amount(message_bytes(count * CELLS_BITS) + (count << CELLS_BITS), count * CELLS_BITS, 1)
    bits = grid.entries_bits
    return cells + Amount(message_bytes(count * bits) + (count * width << bits), count * bits, 1)


def _step(terms: Terms, chosen: Scales, width: int, rows: int) -> Amount:
    scores = rows * terms.outputs
    words = scores * width * DIGITS
    products = Amount(words * (chosen.score_bytes + chosen.gradient_bytes))
    linear = terms.model == "linear"
    residues = _transferred(scores, 8) if linear else _lookup(scores, SIGMOID, chosen.gradient_bytes)
    return products + residues + _transferred((width + 1) * terms.outputs, 8)


def _figures(terms: Terms, chosen: Scales, width: int) -> Amount:
    rows = terms.counts[1]
    scores = rows * terms.outputs
    products = Amount(scores * width * DIGITS * chosen.score_bytes)
    if terms.model == "linear":
        return products + _transferred(scores, 8) + _transferred(scores * _WORD, 8) + Amount(8 * terms.outputs, 0, 1)
    bits = terms.buckets.bit_length() - 1
    word = word_of_counts(rows).itemsize
    vectors = Amount(message_bytes(scores * bits) + scores * bits * terms.buckets * word, scores * bits, 1)
    opened = Amount(terms.outputs * (terms.buckets * 9 + 8), 0, 2)  # and counts of groups, which are fewer
    return products + _lookup(scores, JUDGED, 8) + vectors + opened
