"""Attacks on boosted trees: what the active learns of columns, and a passive of labels (docs/trees-leaks.md).

record              what each party sees of a training; training, one in one place that is recorded
bin_rows            rows of a bin from the sums of one node; small columns by lattices
whole_columns       the bin of every cell, from the sums of all nodes and the partitions
labels_from_nodes   labels, from the rows of nodes
labels_from_splits  labels, from the splits that won
split_bits          the order of a column, from the answers to splits
audit_steps         all of them, as the steps of an audit
played              a short training over channels: the words that a passive receives, and the wire
"""

from __future__ import annotations

from dataclasses import replace

from tacit.audit.scope import Scope
from tacit.audit.steps import Attacks, Step
from tacit.kinds.vertical_trees.attacks import audit_steps, played
from tacit.kinds.vertical_trees.attacks.audit_steps import Case
from tacit.kinds.vertical_trees.attacks.training import Table
from tacit.kinds.vertical_trees.party import binned_tables
from tacit.kinds.vertical_trees.settings import Settings

__all__ = ["attacks", "cases"]

_WORDS = 400, 2000  # rows of a training whose words are looked at
_WIRE = 100  # rows of a training that is tapped


def attacks(settings: Settings, scope: Scope) -> Attacks:
    """Each attack on the training rows of the file's own tables, for each passive."""
    found: list[Step] = []
    not_tested = [
        "the alignment of ids: it tells sizes and who is common, and says so",
        "an active that chooses its words or its splits to learn more",
        "predictions: each answer tells the side of a new row, as in training",
    ]
    for name, case in cases(settings).items():
        steps = _steps(case, scope)
        several = len(settings.passives) > 1
        found += [replace(step, name=f"{step.name}: {name}") for step in steps] if several else steps
    if settings.train.class_weight is not None:
        not_tested.append("gradients under class weights: all rows weigh 1 here")
    if settings.train.objective != "binary":
        not_tested.append(
            f"labels of objective: {settings.train.objective} from the rows of nodes, and from splits that won"
        )
    return Attacks(_protection(settings), found, (), list(dict.fromkeys(not_tested)))


def cases(settings: Settings) -> dict[str, Case]:
    """What is attacked, of each passive: its columns, with all other parties beside the active."""
    tables, known = binned_tables(settings)
    made = {}
    for name, (columns, binned) in tables.items():
        bins = columns.bins
        made[name] = Table(binned[known.rows], bins.bins, bins.ordered, columns.signs)
    labels = known.labels[known.rows]
    found = {}
    for passive in settings.passives:
        others = [made[name] for name in settings.order if name != passive]
        found[passive] = Case([*others, made[passive]], labels, known.loss, settings.terms, settings.hidden)
    return found


def _steps(case: Case, scope: Scope) -> list[Step]:
    few, fewer = played.short(case, scope.pick(*_WORDS), 5), played.short(case, _WIRE, 1)
    return [
        *audit_steps.steps(case, scope),
        Step("words of gradients", lambda: [played.audit_words(few)]),
        Step("the wire", lambda: [played.audit_wire(fewer)]),
    ]


def _protection(settings: Settings) -> str:
    """In a few words."""
    privacy = settings.privacy
    return (
        f"sums by bin of nodes with {privacy.least} rows or more at {privacy.bits} bits, by oblivious transfer; up to "
        f"{settings.train.bins} bins; partition {privacy.partition}"
    )
