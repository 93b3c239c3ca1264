"""Logistic and linear regression on additive shares of Z_2^64: a data party, from top to bottom.

Each step takes a batch's scores, residues and gradient without anyone seeing one of them. Opened, in this order:

    1  w - b            shares of all weights, masked by b; gives shares of the scores z = Xw + intercept
    2  z + rho          in 32-bit words; gives shares of the residues sigmoid(z) - y
       (linear: z, times the rate's factor, plus a mask, to truncate it)
    3a r - v            only with class weights: gives shares of c r
    3  r - u            gives shares of the gradient X'r
    4  g + mask         gives shares of the truncated gradient, and so of the next weights

Guarantee: given uniform masks, every word that a party receives before the end is uniform and independent of all
    tables, labels and weights, for any set of parties that lacks one data party and the dealer. At the end each party
    receives its own weights and the active the intercept; before it, the active receives the declared figures.
Assumes: parties that follow the protocol; a dealer that colludes with no data party; AES-128 is a pseudo-random
    permutation. `scales.distances` gives the rest.
Source: Beaver 1991 for products; SecureML (Mohassel and Zhang 2017), section 4, for the masked opening of a table once.
    Sines from a masked opening follow from the addition theorem.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tacit.channel import Channel
from tacit.errors import PeerError
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.shared import deals, fourier, held_out_figures, low_bits, ring
from tacit.kinds.vertical_logistic.shared.held_out_figures import Figures
from tacit.kinds.vertical_logistic.shared.masked_table import Given, Opened, bring, open_tables
from tacit.kinds.vertical_logistic.shared.meeting import STEP, Meeting, meet
from tacit.kinds.vertical_logistic.shared.messages import HEAD, MARK_BYTES, WEIGHTS, Verdict
from tacit.kinds.vertical_logistic.shared.progress import Past, Snapshot
from tacit.kinds.vertical_logistic.shared.ring import Words
from tacit.kinds.vertical_logistic.shared.scales import RATE, WEIGHT, Scales, scales
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.lockstep.context import Context


def _nobody(position: int, figures: Figures) -> None:
    pass


def _unseen(columns: Mapping[str, int], position: int) -> None:
    pass


@dataclass(frozen=True)
class SharedContext(Context[Snapshot]):
    """What a party is given in addition to its data.

    `keep` gets a snapshot at the start and after each step; store the last two of those kept.

    Args:
        told: at the active, is handed the figures after so many steps.
        met: is handed each party's number of columns, and the step that the training begins after.
    """

    told: Callable[[int, Figures], None] = _nobody
    met: Callable[[Mapping[str, int], int], None] = _unseen


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """One party's part of the model: its own weights (columns, outputs), and at the active the intercepts (outputs)."""

    weights: Floats
    intercept: Floats | None
    session: bytes


@dataclass(frozen=True, slots=True, eq=False)
class _Party:
    meeting: Meeting
    terms: Terms
    scales: Scales
    table: Opened


def train(
    channels: Mapping[str, Channel], given: Given, terms: Terms, me: str, context: SharedContext | None = None
) -> Trained:
    """Take part in a training with a table, at the active also with labels. This party's weights."""
    context = context or SharedContext()
    chosen = scales(terms)
    own = bring(given, terms, chosen, me)
    if own.labels is not None:
        held_out_figures.check_counts(own.labels, terms)
    past = usable(context.saved, terms)
    meeting = meet(channels, terms, me, own.features.shape[1], past)
    context.met(meeting.columns, meeting.position)
    party = _Party(meeting, terms, chosen, open_tables(meeting, terms, own))
    now = beginning(past, meeting.position, meeting.session, sum(meeting.columns.values()), terms, context)
    steps = deals.steps(terms, chosen, meeting.position)
    taken = ((step.number, lambda weights, step=step: _step(party, weights, step)) for step in steps)
    return _reveal(party, advance(now, taken, lambda now: _judge(party, now, context), terms, context))


def beginning(
    past: Past, position: int, session: bytes, columns: int, terms: Terms, context: SharedContext
) -> Snapshot:
    """What the training begins with: a snapshot, or weights of zero."""
    if position:
        now = past.snapshots[position]
        if now.weights.shape[0] != columns + 1:
            raise PeerError(
                f"a snapshot of {now.weights.shape[0]} weights does not fit the parties' columns: start anew"
            )
        return now
    zeros = np.zeros((columns + 1, terms.outputs), dtype=np.uint64)
    now = Snapshot(session, terms.agreed(), 0, zeros, zeros)
    context.keep(now)  # so that a party has something to resume from before another has done a step
    return now


def advance(
    now: Snapshot,
    steps: Iterable[tuple[int, Callable[[Words], tuple[Words, bytes]]]],
    judge: Callable[[Snapshot], Snapshot],
    terms: Terms,
    context: SharedContext,
) -> Snapshot:
    """Take all steps, with figures where they are due; each snapshot is kept.

    Args:
        steps: each one's number, and what makes the next weights and their mark of the present ones.
        judge: the snapshot after figures were made.
    """
    if now.stopped:
        return now
    for number, step in steps:
        weights, mark = step(now.weights)
        now = replace(now, position=number + 1, weights=weights, mark=mark)
        if terms.evaluates(now.position):
            now = judge(now)
        elif not terms.counts[1] or terms.figures != "epoch":
            now = replace(now, best=now.weights)
        context.keep(now)
        if now.stopped:
            break
    return now


def _step(party: _Party, weights: Words, step: deals.Step) -> tuple[Words, bytes]:
    """This party's shares of the weights after a step, and a mark that they have in common with the others'."""
    meeting, terms, table = party.meeting, party.terms, party.table
    columns = len(weights) - 1
    gradient = np.zeros_like(weights)
    difference = b = np.empty(0, dtype=np.uint64)
    mark = b""
    for block in step.blocks:
        shares = meeting.next_deal(deals.step_layout(terms, columns, block), STEP).words
        if block.first:
            b = shares["b"]
            difference = meeting.open(weights[:-1] - b)  # 1
        score = table.scores(block.rows, difference, b, shares["Ab"]) + (weights[-1] << np.uint64(party.scales.feature))
        residue = _residue(party, step, block, score, shares)  # 2
        if terms.weighted:
            residue = table.weigh(block.rows, meeting.open(residue - shares["v"]), shares["v"], shares["av"])  # 3a
        opened = meeting.open(residue - shares["u"])  # 3
        gradient[:-1] += table.gradient(block.rows, opened, shares["u"], shares["Au"])
        gradient[-1] += residue.sum(axis=0, dtype=np.uint64) << np.uint64(party.scales.feature)
        if block.last:
            gradient[:-1] += np.uint64(step.scale.decay) * weights[:-1]
            opened = meeting.open(low_bits.masked(gradient, shares["mask"], first=meeting.first))  # 4
            change = low_bits.truncated(opened, step.scale.shift, shares["low"], shares["top"], first=meeting.first)
            weights, mark = weights - change, hashlib.sha256(ring.to_bytes(opened)).digest()[:MARK_BYTES]
        meeting.used()
    return weights, mark


def _residue(party: _Party, step: deals.Step, block: deals.Block, score: Words, shares: Mapping[str, Words]) -> Words:
    """Shares of the residues of a block, times the factor of the learning rate."""
    meeting, terms, bits, factor = party.meeting, party.terms, party.scales, step.scale.factor
    labels = party.table.own.labels
    if terms.model == "linear":
        scaled = np.uint64(round(factor * 2.0**RATE)) * score
        opened = meeting.open(low_bits.masked(scaled, shares["z_mask"], first=meeting.first))
        shift = deals.linear_shift(bits)
        share = low_bits.truncated(opened, shift, shares["z_low"], shares["z_top"], first=meeting.first)
        centre = 0.0
    else:
        opened_word = meeting.open_halves(held_out_figures.argument(score, bits) + shares["rho"].astype(np.uint32))
        factors = np.array(fourier.sigmoid(terms.harmonics)) * (factor * 2.0**bits.coefficient)
        share = fourier.combine(opened_word, factors, shares["waves"])
        centre = 0.5
    if labels is not None:
        share += ring.encode((centre - labels[block.rows]) * factor, bits.residue)
    return share


def _judge(party: _Party, now: Snapshot, context: SharedContext) -> Snapshot:
    """Make figures; the active says whether they are the best so far, and whether the training ends here."""
    meeting, terms = party.meeting, party.terms
    figures = held_out_figures.evaluate(meeting, terms, party.table, party.scales, now.weights)
    now = judged(meeting.others, now, figures, terms, meeting.serial, context)
    meeting.used(last=now.stopped)
    return now


def judged(
    others: Mapping[str, Channel],
    now: Snapshot,
    figures: Figures | None,
    terms: Terms,
    serial: int,
    context: SharedContext,
) -> Snapshot:
    """The active tells all others whether figures are the best so far and whether the training ends; they note it."""
    if figures is None:
        verdict = others[terms.active].recv(Verdict, HEAD)
        if verdict.serial != serial:
            raise PeerError(f"{terms.active} judges deal {verdict.serial}, and {serial} is in use")
    else:
        context.told(now.position, figures)
        best = terms.figures == "end" or figures.loss < now.loss
        waited = 0 if best else now.waited + 1
        verdict = Verdict(serial, best, terms.patience is not None and waited >= terms.patience)
        for peer in others.values():
            peer.send(verdict)
        now = replace(now, loss=min(now.loss, figures.loss))
    return replace(
        now,
        best=now.weights if verdict.best else now.best,
        waited=0 if verdict.best else now.waited + 1,
        stopped=verdict.last and terms.patience is not None,
    )


def _reveal(party: _Party, now: Snapshot) -> Trained:
    """Open each party's weights to that party, and the intercept to the active."""
    meeting, terms, first, mine = party.meeting, party.terms, 0, np.empty(0, dtype=np.uint64)
    for name in terms.parties:
        columns = slice(first, first + meeting.columns[name])
        first = columns.stop
        share = now.best[columns]
        if name == terms.active:
            share = np.concatenate([share, now.best[-1:]])
        if name == meeting.me:
            mine = share
        else:
            meeting.give(name, share, WEIGHTS)
    found = ring.decode(meeting.take(mine, WEIGHTS), WEIGHT)
    if meeting.me == terms.active:
        return Trained(found[:-1], found[-1], meeting.session)
    return Trained(found, None, meeting.session)


def usable(saved: tuple[Snapshot, ...], terms: Terms) -> Past:
    """Snapshots by the step that they can be resumed after; a training that ended early resumes at its end."""
    for snapshot in saved:
        if snapshot.agreed != terms.agreed():
            raise ValueError("the training that was stored had other terms: use its file, or start all parties anew")
    return Past({terms.schedule.total if snapshot.stopped else snapshot.position: snapshot for snapshot in saved})
