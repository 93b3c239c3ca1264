"""Which honest views of a file's tables can be read by lattices, counts and equal scores, and the steps that try it.

    readings(settings, features, labels, scope)     the steps of an audit, and what they leave out, with the reason

Labels out of the first gradient are tried on the first passive, and categories on the first that has any. Of several
classes the last is told from the rest: each output has residues of its own. A linear model is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.finding import Finding
from tacit.audit.scope import Scope
from tacit.audit.steps import Step
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_logistic.attacks.category_counts import audit_category_counts
from tacit.kinds.vertical_logistic.attacks.category_scores import (
    attributes_of,
    audit_attributes_from_scores,
    audit_equal_scores,
    variables,
)
from tacit.kinds.vertical_logistic.attacks.first_batch import audit_first_batch
from tacit.kinds.vertical_logistic.attacks.honest_steps import Tables, Training
from tacit.kinds.vertical_logistic.protocol import batches
from tacit.kinds.vertical_logistic.settings import Settings

_REDUCED = 60  # rows of a lattice: with more, LLL solves fewer rows to a column
_COUNTED = (2000, 10_000)  # rows whose labels are counted: quick, full
_PAIRED = (1000, 2000)  # rows that are compared with each other
_SEARCHES = 2e7  # sums that are looked up for all rows together, at most
_KNOWN = 60  # rows that the active knows from elsewhere
_MOST_SUMS = 1 << 20  # of half of the variables, which `category_scores` tabulates


def readings(
    settings: Settings, features: Mapping[str, Floats], labels: NDArray[Any], scope: Scope
) -> tuple[list[Step], list[str]]:
    """The steps, and what is not tested."""
    if settings.model == "linear":
        return [], [
            "labels of a linear model by lattice reduction or counts, if they take few different values: nothing hides "
            "them; and categories by equal scores"
        ]
    rng = np.random.default_rng([scope.seed, 73])
    order = rng.permutation(len(labels))
    codes = (labels == labels.max()).astype(np.int64)
    train, secret = settings.train, settings.secret_spread
    training = Training(train.batch, 1, train.learning_rate, train.l2, scope.seed)

    def cut(name: str, rows: int) -> Tables:
        return _tables(settings, features, codes, name, np.sort(order[:rows]))

    def first() -> list[Finding]:
        whole = cut(settings.passives[0], len(labels))
        return [_first_batch(whole, settings, training, scope.seed)]

    steps, left_out = [Step("labels of the first batch", first)], list[str]()
    name = next((each for each in settings.passives if _binary(features[each]).any()), None)
    if name is None:
        return steps, ["counts and scores of categories: no passive has a column of two values"]
    counted = cut(name, scope.pick(*_COUNTED))
    if _binary(counted.own).any():
        steps.append(
            Step(
                f"positives of each category of {name}",
                lambda: [audit_category_counts(counted, training, secret=secret, seed=scope.seed)],
            )
        )
    paired = cut(name, scope.pick(*_PAIRED))
    if len(np.unique(paired.own, axis=0)) < len(paired.own):
        steps.append(Step(f"equal people of {name}", lambda: [audit_equal_scores(paired, training)]))
    else:
        left_out.append(f"equal people of {name}: no two of {len(paired.own)} rows are alike")
    rows = _searchable(paired.own)
    if rows > 2 * _KNOWN:
        few = cut(name, min(rows, len(paired.own)))
        steps.append(Step(f"attributes of {name} from scores", partial(_attributes, few, training, scope.seed)))
    else:
        left_out.append(f"attributes of {name} from its scores: both numbers and categories, or too many combinations")
    return steps, left_out


def _first_batch(whole: Tables, settings: Settings, training: Training, seed: int) -> Finding:
    """On a batch that is cut down to what a lattice is reduced for in seconds, with as many columns to a row as the
    file has: whether labels are determined depends on these two numbers' ratio."""
    kept, _ = batches.hold_out(len(whole.labels), settings.train.test, settings.seed)
    batch, columns = batches.smallest(len(kept), settings.train.batch), whole.own.shape[1]
    rows = min(batch, _REDUCED)
    few = -(-columns * rows // batch)
    chosen = np.sort(np.random.default_rng([seed, 79]).permutation(columns)[:few])
    found = audit_first_batch(
        replace(whole, own=whole.own[:, chosen]), training, secret=settings.secret_spread, most=rows, seed=seed
    )
    cut = f"; cut down from {columns} columns and batches of {batch} rows, in their ratio" if rows < batch else ""
    return replace(found, sees=found.sees + cut)


def _attributes(tables: Tables, training: Training, seed: int) -> list[Finding]:
    return [audit_attributes_from_scores(tables, training, known=_KNOWN, seed=seed)]


def _tables(settings: Settings, features: Mapping[str, Floats], codes: Ints, name: str, kept: Ints) -> Tables:
    """What all parties have of these rows, as one passive sees it."""
    others = [features[other][kept] for other in settings.passives if other != name]
    return Tables(
        features[name][kept],
        features[settings.active][kept],
        codes[kept],
        np.hstack(others) if others else None,
        settings.scale,
    )


def _binary(own: Floats) -> NDArray[np.bool_]:
    """Columns that take two values, as indicators of categories do."""
    low, high = own.min(axis=0), own.max(axis=0)
    found: NDArray[np.bool_] = ((own == low) | (own == high)).all(axis=0) & (low < high)
    return found


def _searchable(own: Floats) -> int:
    """For how many rows the sums of half of the variables can be looked up; 0 if there are other columns."""
    groups = variables(own)
    if not groups or sum(map(len, groups)) < own.shape[1]:
        return 0
    sizes = np.log2(attributes_of(own, groups).max(axis=0) + 1.0)
    cumulated = np.cumsum(sizes)
    larger = float(np.maximum(cumulated, sizes.sum() - cumulated).min())  # the larger half of the best cut, in bits
    return 0 if larger > np.log2(_MOST_SUMS) else int(_SEARCHES / 2**larger)
