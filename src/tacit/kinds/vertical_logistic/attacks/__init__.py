"""Attacks on a vertical regression: what the active learns of rows, and a passive of labels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks import wire as network
from tacit.audit.finding import Finding
from tacit.audit.scope import Scope
from tacit.audit.steps import Attacks, Step
from tacit.crypto.paillier import generate
from tacit.kinds.vertical_logistic.attacks import own_tables
from tacit.kinds.vertical_logistic.attacks.labels_from_counts import audit_label_counts
from tacit.kinds.vertical_logistic.attacks.on_shares import shared_attacks
from tacit.kinds.vertical_logistic.attacks.own_tables import Deal
from tacit.kinds.vertical_logistic.attacks.readable import readings
from tacit.kinds.vertical_logistic.party import counted_columns, tables
from tacit.kinds.vertical_logistic.protocol import batches, label_count_messages, messages
from tacit.kinds.vertical_logistic.protocol.checks import check_counts
from tacit.kinds.vertical_logistic.settings import Settings

_SHORT = 512  # bits of a key where its length changes nothing but the time
_FEWEST = 40  # rows
_MOST_SOLVED = 3000  # rows whose labels are solved for at once


def attacks(settings: Settings, scope: Scope) -> Attacks:
    """Each attack on rows of the file's own tables."""
    features, labels = tables(settings)
    if settings.shared:
        found = shared_attacks(settings, features, labels, scope)
        return replace(found, steps=[*found.steps, *_counted(settings, scope)])
    if len(labels) < _FEWEST:
        raise ValueError(f"the parties have {len(labels)} rows in common, an audit needs {_FEWEST} or more")
    training, _ = batches.hold_out(len(labels), settings.train.test, settings.seed)
    for name in settings.passives:
        check_counts(name, features[name].shape[1], len(training), settings)  # what would end the file's own run
    order = np.random.default_rng([scope.seed, 43]).permutation(len(labels))
    if settings.model == "logistic":
        order = _each_class_first(order, labels)

    def deal(rows: int, bits: int) -> Deal:
        kept = np.sort(order[:rows])
        parts = {name: table[kept] for name, table in features.items()}
        return Deal(settings, parts, labels[kept], generate(bits, insecure_bits=bits < 2048), seed=scope.seed)

    rows = min(len(labels), scope.pick(120, 400))
    few = deal(rows, _SHORT)
    solved = min(len(labels), max(scope.pick(400, 1000), min(settings.train.batch, _MOST_SOLVED)))
    trained = min(len(labels), scope.pick(1000, 10_000))
    bits = scope.pick(min(settings.paillier.bits, 2048), settings.paillier.bits)
    steps = [
        Step("forged residues", lambda: own_tables.audit_forgeries(few, trials=scope.pick(6, 12), seed=scope.seed)),
        Step("scores w·x", lambda: [own_tables.audit_scores(few)]),
        Step("gradients of a passive", lambda: [own_tables.audit_gradients(deal(solved, _SHORT), seed=scope.seed)]),
        Step(
            "decryption oracle",
            lambda: [own_tables.audit_oracle(deal(min(rows, 120), scope.pick(min(bits, 2048), bits)))],
        ),
        Step("the wire", lambda: [_wire(deal(_FEWEST, _SHORT))]),
        Step("cost in utility", lambda: own_tables.cost(deal(trained, _SHORT), epochs=scope.pick(20, 200))),
    ]
    steps += _counted(settings, scope)
    read, left_out = readings(settings, features, labels, scope)
    steps[3:3] = read
    not_tested = [
        *left_out,
        "the alignment of ids: it tells sizes and who is common, and says so",
        "whether Paillier keys of the file's length can be broken",
    ]
    if few.outputs > 1:
        not_tested.append(
            f"labels from the gradients of the {few.outputs} classes jointly: each is guessed by its own output; and a "
            "passive's rows from forged residues of several outputs at once"
        )
    if settings.summed:
        not_tested.append("an active that steers the weights of one passive among several")
    elif few.linear:
        not_tested.append(
            "an active that steers the passive's weights: its own part of a linear model stops at a residue of 1"
        )
    else:
        steps.insert(1, Step("steered weights", lambda: [own_tables.audit_steering(few)]))
    return Attacks(_protection(settings), steps, (), not_tested)


def _protection(settings: Settings) -> str:
    """In a few words."""
    passives = f"{len(settings.passives)} passive" + (
        "s, whose scores are summed under masks" if settings.summed else ", whose scores are in the clear"
    )
    secret = f"; secret offsets of spread {settings.secret_spread:g}" if settings.secret_spread else ""
    return f"Paillier, gradients under uniform masks; {passives}{secret}"


def _each_class_first(order: batches.Rows, labels: NDArray[Any]) -> batches.Rows:
    """The same rows, two of each class before all others: the first few then have all classes."""
    first = np.concatenate([order[labels[order] == value][:2] for value in np.unique(labels)])
    return np.concatenate([first, order[~np.isin(order, first)]])


def _counted(settings: Settings, scope: Scope) -> list[Step]:
    """The attack of each passive that may have counts of labels."""
    names = settings.counted if settings.data else ()
    return [Step(f"counts of labels at {name}", partial(_counts, settings, scope, name)) for name in names]


def _counts(settings: Settings, scope: Scope, passive: str) -> list[Finding]:
    """What a passive learns from all counts of labels that its columns of weight of evidence need."""
    groups, fine, labels = counted_columns(settings, passive)
    return [audit_label_counts(groups, fine, labels, seed=scope.seed, seconds=scope.pick(5.0, 30.0))]


def _wire(deal: Deal) -> Finding:
    """One epoch over loopback, tapped."""
    parties = deal.parties(deal.changed())
    off, on = (network.tap_parties(deal.settings.hub, parties, secure=secure) for secure in (False, True))
    return network.audit_reading(off, on, network.union_of(messages, label_count_messages))
