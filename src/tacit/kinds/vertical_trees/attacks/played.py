"""A short training over channels, to look at its messages: what a passive receives, and what a wire shows.

parties(case)           one function of channels for the active, and one for the attacked passive
audit_words(case)       whether the words that the passive receives are uniform
audit_wire(case)        how many messages are read off the wire, without and with TLS
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tacit import oblivious
from tacit.audit.attacks import wire
from tacit.audit.attacks.uniform_bytes import LEAST, guessed_bytes, p_value
from tacit.audit.finding import Finding
from tacit.channel import Channel, Recorder, run_parties
from tacit.crypto.counter import Counter
from tacit.kinds.vertical_trees.attacks.audit_steps import Case
from tacit.kinds.vertical_trees.protocol import active, messages, passive
from tacit.kinds.vertical_trees.protocol.boosting import Labelled, boost
from tacit.kinds.vertical_trees.protocol.messages import Corrections
from tacit.kinds.vertical_trees.protocol.passive import Table
from tacit.kinds.vertical_trees.protocol.rounding import pack
from tacit.randomness import seeded_rng

ACTIVE, PASSIVE = "active", "passive"
Party = Callable[[Mapping[str, Channel]], None]


def short(case: Case, rows: int, trees: int) -> Case:
    """The first rows and trees of a case, with nodes as small as it takes to open some."""
    kept = np.arange(min(rows, len(case.labels)))
    growth = replace(case.terms.growth, least=min(case.terms.growth.least, max(1, len(kept) // 8)))
    return replace(case.rows(kept), terms=replace(case.terms, rounds=trees, patience=0, growth=growth))


def parties(case: Case) -> dict[str, Party]:
    """The active with all tables but the last, and the passive with the last."""
    rows = len(case.labels)
    last, others = case.tables[-1], case.tables[:-1]
    known = Labelled(case.loss, case.labels, np.ones(rows), np.arange(rows), np.empty(0, dtype=np.int64))

    def lead(channels: Mapping[str, Channel]) -> None:
        channel, counter = channels[PASSIVE], _counter()
        remote = active.RemoteFeatures(channel, active.meet(channel, rows, counter), counter, hidden=case.hidden)
        boost([*(table.features for table in others), remote], known, case.terms)
        remote.close()

    def follow(channels: Mapping[str, Channel]) -> None:
        channel, counter = channels[ACTIVE], _counter()
        table = Table(last.binned, last.bins, last.ordered, last.signs)
        held = passive.meet(channel, table, counter)
        passive.serve(channel, held, counter, case.terms.growth.least, hidden=case.hidden)

    return {ACTIVE: lead, PASSIVE: follow}


def audit_words(case: Case) -> Finding:
    """The words of gradients that the passive receives; as the control the same without the words of leaves."""
    recorders: list[Recorder] = []

    def watched(channels: Mapping[str, Channel]) -> None:
        recorders.append(Recorder(channels[PASSIVE]))
        made[ACTIVE]({PASSIVE: recorders[0]})

    made = parties(case)
    run_parties({**made, ACTIVE: watched})
    received = b"".join(message.words for message in recorders[0].sent if isinstance(message, Corrections))
    chance = p_value(received)
    g, h = case.loss.gradients(case.labels, np.tile(_base(case), (len(case.labels), 1)), np.ones(len(case.labels)))
    bare = pack(g[:, 0], h[:, 0], case.terms.growth.bits, seeded_rng(0)).words.astype("<i8").tobytes()
    count = max(1, len(received) // len(bare))
    return Finding(
        attack="gradients from the words of a tree, by a χ² test",
        adversary="passive, honest but curious",
        sees=f"{len(received) // 8:,} words of 64 bits",
        protection="words of the leaf that it lacks, used once",
        off=guessed_bytes(bare * min(count, 64)),
        on=guessed_bytes(received),
        broken=() if chance >= LEAST else (f"the words that a passive receives are not uniform: p = {chance:.1e}",),
        watched=1,
    )


def audit_wire(case: Case) -> Finding:
    """The same training over loopback, tapped."""
    off, on = (wire.tap_parties(ACTIVE, parties(case), secure=secure) for secure in (False, True))
    return wire.audit_reading(off, on, wire.union_of(messages, oblivious))


def _base(case: Case) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return case.loss.base(case.labels, np.ones(len(case.labels)))


def _counter() -> Counter:
    return Counter(0, lambda number: None)
