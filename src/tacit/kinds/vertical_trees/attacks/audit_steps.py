"""The attacks as the steps of an audit, on some rows of the parties' own tables.

steps(case, scope)      each attack with its finding; the kind's `attacks(settings, scope)` makes the case from a file
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from tacit.audit.finding import Cost, Finding
from tacit.audit.scope import Scope
from tacit.audit.steps import Step
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_trees.attacks.bin_rows import audit_bins
from tacit.kinds.vertical_trees.attacks.labels_from_nodes import audit_labels
from tacit.kinds.vertical_trees.attacks.labels_from_splits import audit_splits
from tacit.kinds.vertical_trees.attacks.record import Record
from tacit.kinds.vertical_trees.attacks.split_bits import audit_order, for_all_rows
from tacit.kinds.vertical_trees.attacks.training import Table, train
from tacit.kinds.vertical_trees.attacks.whole_columns import audit_columns
from tacit.kinds.vertical_trees.protocol.boosting import Terms
from tacit.kinds.vertical_trees.protocol.growth import Options
from tacit.kinds.vertical_trees.protocol.losses import Loss
from tacit.kinds.vertical_trees.protocol.rounding import MOST_BITS

_FEWEST = 40  # rows
_NODES = 4  # of the least size that fit the rows which are attacked: some of them are then opened
_LISTED = 64  # rows of a node of which sets of up to 6 rows are listed; of larger nodes up to 4
_COLUMNS = 4  # of the attacked passive, at most: each is solved for by itself


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """What is attacked: the columns of the last party, and the labels of two classes."""

    tables: Sequence[Table]
    labels: Floats
    loss: Loss
    terms: Terms
    hidden: bool = False

    def rows(self, kept: Ints) -> Case:
        """Some rows only."""
        tables = [replace(table, binned=table.binned[kept]) for table in self.tables]
        return replace(self, tables=tables, labels=self.labels[kept])

    def record(self, growth: Options | None = None) -> Record:
        """A training, perhaps under other options of growth."""
        terms = replace(self.terms, growth=growth or self.terms.growth)
        made = train(self.tables, self.labels, terms, loss=self.loss)[1]
        return for_all_rows(made, self.tables[-1].binned) if self.hidden else made


def steps(case: Case, scope: Scope) -> list[Step]:
    """Each attack that fits the case. A training of more rows or rounds than the scope allows is cut to so many."""
    if len(case.labels) < _FEWEST:
        raise ValueError(f"the parties have {len(case.labels)} rows in common, an audit needs {_FEWEST} or more")
    most = max(scope.pick(500, 2000), _NODES * case.terms.growth.least)
    kept = np.sort(scope.rng("trees: rows").permutation(len(case.labels))[:most])
    rounds = min(case.terms.rounds, scope.pick(20, 100))
    cut = replace(case.rows(kept), terms=replace(case.terms, rounds=rounds, patience=0))
    return _steps(cut, cache(cut.record), scope)


def _steps(case: Case, own: Callable[[], Record], scope: Scope) -> list[Step]:
    passive, options = case.tables[-1], case.terms.growth
    words = f"bits: {options.bits}, least: {options.least}, {int(passive.bins.max())} bins"

    def bins() -> Sequence[Finding | Cost]:
        exact, rounded = case.record(replace(options, bits=MOST_BITS)), own()
        rows = min((node.rows for node in rounded.opened), key=len)[: 4 * _LISTED]
        off, on = ((each.g[-1][rows], each.h[-1][rows]) for each in (exact, rounded))
        largest = 3 if len(rows) <= _LISTED else 2
        return [audit_bins(off, on, passive.binned[rows][:, :_COLUMNS], words, largest)]

    def columns() -> Sequence[Finding | Cost]:
        some = slice(0, _COLUMNS)
        return [
            audit_columns(
                case.record(replace(options, least=1)), own(), passive.binned[:, some], passive.bins[some], words
            )
        ]

    def order() -> Sequence[Finding | Cost]:
        found = audit_order(replace(case, hidden=False).record(), passive.binned, passive.bins)
        return [_unprotected(found, "partition: shown") if case.hidden else found]

    def labels() -> Sequence[Finding | Cost]:
        known = min(100, len(case.labels) // 5)
        shown = replace(case, hidden=False).record()
        found = audit_labels(shown, passive.binned, case.labels.astype(np.int64), known=known, seed=scope.seed)
        return [found if case.hidden else _unprotected(found, "partition: hidden")]

    def splits() -> Sequence[Finding | Cost]:
        return [audit_splits(own(), passive, case.labels.astype(np.int64), seed=scope.seed)]

    found = [
        Step("rows of a bin", bins),
        Step("whole columns", columns),
        Step("order of columns", order),
    ]
    if case.loss.name == "logistic":
        found += [Step("labels from nodes", labels), Step("labels from splits", splits)]
    return found


def _unprotected(finding: Finding, other: str) -> Finding:
    """A finding of a training without a protection: what the attack finds without it is what it finds."""
    found = tuple((off, off) for off, _ in finding.also if off is not None)
    return replace(finding, protection=f"none here: {other} would be one", on=finding.off, also=found)
