"""Logistic and linear regression on additive shares between two parties without a dealer: a party, top to bottom.

Both hold shares of all weights, scores, residues and gradients, modulo a power of two. In each step

    1  each sends a word for each digit of the other's cells of the batch, which gives shares of the scores z = Xw +
       intercept; a party's own columns times its own shares need no message
    2  the passive looks up its share of each score in a table of the active: shares of the residues c(sigmoid(z) - y).
       The active writes labels and class weights into the tables, so that they cost nothing. (Linear: low bits of z are
       dropped, with one transfer a score.)
    3  each sends a word for each digit again, which gives shares of the gradient X'r
    4  low bits of the gradient are dropped, with one transfer a weight: shares of the next weights

Guarantee: every word that a party receives before the end is uniform, modulo 2^(8·its bytes), or pseudo-random under
    what `tacit.crypto` assumes, whatever the tables, labels and weights are. At the end each party receives its own
    weights and the active the intercept; before it, the active receives the declared figures.
Assumes: parties that follow the protocol; what `tacit.crypto.ot` and `tacit.crypto.punctured` assume. See `costs` for
    the distances.
Source: products by transfers: Gilboa 1999; training on shares of two parties: Mohassel, Zhang 2017 (SecureML); lookups:
    Naor, Pinkas 1999; carries: Rathee et al. 2021 (SIRNN).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from tacit.channel import Channel
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.shared import held_out_figures, ring
from tacit.kinds.vertical_logistic.shared.masked_table import Given, checked
from tacit.kinds.vertical_logistic.shared.messages import WEIGHTS
from tacit.kinds.vertical_logistic.shared.progress import Snapshot
from tacit.kinds.vertical_logistic.shared.ring import Words
from tacit.kinds.vertical_logistic.shared.scales import WEIGHT, StepScale
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.shared.training import (
    SharedContext,
    Trained,
    advance,
    beginning,
    judged,
    usable,
)
from tacit.kinds.vertical_logistic.two_party import held_out_counts
from tacit.kinds.vertical_logistic.two_party.lookup import (
    SCORE,
    Grid,
    Indices,
    interpolated,
    look_up_first,
    look_up_second,
)
from tacit.kinds.vertical_logistic.two_party.meeting import Link, Tables, meet, share_tables
from tacit.kinds.vertical_logistic.two_party.scales import FEATURE, RATE, Scales, encoded, scales, step_scale

__all__ = ["SIGMOID", "train"]

SIGMOID = Grid(entries_bits=8, step_bits=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Party:
    link: Link
    terms: Terms
    scales: Scales
    tables: Tables
    labels: Floats | None
    row_weights: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    number: int
    rows: Rows
    scale: StepScale


def train(
    channels: Mapping[str, Channel], given: Given, terms: Terms, me: str, context: SharedContext | None = None
) -> Trained:
    """Take part in a training with a table, at the active also with labels. This party's weights.

    The arguments are those of `shared.training.train`; the terms name two parties and no dealer.
    """
    context = context or SharedContext()
    chosen = scales(terms)
    table, targets, row_weights = checked(given, terms, me)
    words = encoded(table, me, given.names)
    if targets is not None:
        held_out_figures.check_counts(targets, terms)
    past = usable(context.saved, terms)
    link = meet(channels, terms, me, words.shape[1], past, context.rng)
    context.met(link.columns, link.position)
    now = beginning(past, link.position, link.session, sum(link.columns.values()), terms, context)
    if link.position < terms.schedule.total:  # otherwise only weights are opened, and that takes no trees
        party = _Party(link, terms, chosen, share_tables(link, words), targets, row_weights)
        taken = ((step.number, lambda weights, step=step: _step(party, weights, step)) for step in _steps(party))
        now = advance(now, taken, lambda now: _judge(party, now, context), terms, context)
    return _reveal(link, terms, now)


def _steps(party: _Party) -> Iterator[_Step]:
    terms = party.terms
    training, _ = terms.split
    for number, batch in terms.schedule.from_step(party.link.position):
        rate = terms.rates[number // terms.schedule.steps]
        yield _Step(number, training[batch], step_scale(terms, party.scales, rate, len(batch)))


def _step(party: _Party, weights: Words, step: _Step) -> tuple[Words, bytes]:
    """This party's shares of the weights after a step, and a mark that they have in common with the other's."""
    link, bits, tables = party.link, party.scales, party.tables
    scores = tables.scores(step.rows, weights, bits.score_bytes, FEATURE)  # 1
    residues = _linear(party, step, scores) if party.terms.model == "linear" else _logistic(party, step, scores)  # 2
    gradient = np.empty_like(weights)
    gradient[:-1] = tables.gradient(step.rows, residues, bits.gradient_bytes)  # 3
    gradient[-1] = residues.sum(axis=0, dtype=np.uint64) << np.uint64(FEATURE)
    gradient <<= np.uint64(64 - bits.gradient_bits)
    gradient[:-1] += np.uint64(step.scale.decay) * weights[:-1]
    return weights - link.lifted(gradient, 64, step.scale.shift), link.mark(step.number)  # 4


def _logistic(party: _Party, step: _Step, scores: Words) -> Words:
    """Shares of the residues of a batch, times the factor of the learning rate, modulo 2^gradient_bits."""
    link, bits = party.link, party.scales
    if party.labels is None:
        found = look_up_second(link.channel, link.receiver, scores.reshape(-1), SIGMOID, bits.gradient_bytes)
        return found.reshape(scores.shape)
    curve = interpolated(expit, SIGMOID)
    labels = party.labels[step.rows].reshape(-1)
    factors = np.full(scores.shape, step.scale.factor)
    if party.row_weights is not None:
        factors *= party.row_weights[step.rows, None]
    flat = factors.reshape(-1)

    def table(part: slice, places: Indices) -> Words:
        return ring.encode((curve[places] - labels[part, None]) * flat[part, None], bits.residue)

    width = bits.gradient_bytes
    found = look_up_first(link.channel, link.sender, scores.reshape(-1), SIGMOID, table, width, link.rng)
    return found.reshape(scores.shape)


def _linear(party: _Party, step: _Step, scores: Words) -> Words:
    scaled = np.uint64(round(step.scale.factor * 2.0**RATE)) * scores
    residues = party.link.lifted(scaled, 64, SCORE + RATE - party.scales.residue)
    if party.labels is not None:
        residues = residues - ring.encode(party.labels[step.rows] * step.scale.factor, party.scales.residue)
    return residues


def _judge(party: _Party, now: Snapshot, context: SharedContext) -> Snapshot:
    """Make figures; the active says whether they are the best so far, and whether the training ends here."""
    found = held_out_counts.evaluate(party.tables, party.terms, party.scales, party.labels, now.weights)
    return judged({party.link.other: party.link.channel}, now, found, party.terms, now.position, context)


def _reveal(link: Link, terms: Terms, now: Snapshot) -> Trained:
    """Open each party's weights to that party, and the intercept to the active."""

    def part(columns: slice, *, active: bool) -> Words:
        return np.concatenate([now.best[columns], now.best[-1:]]) if active else now.best[columns]

    link.give(part(link.others, active=link.other == terms.active), WEIGHTS)
    found = ring.decode(link.take(part(link.own, active=link.first), WEIGHTS), WEIGHT)
    return Trained(found[:-1], found[-1], link.session) if link.first else Trained(found, None, link.session)
