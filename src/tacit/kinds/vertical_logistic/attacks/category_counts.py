"""Labels counted by category: what one honest gradient over all rows tells of indicator columns.

    counted_positives(columns, gradient)            how many of each category have label 1, exactly, from the first step
    estimated_positives(own, view, rate)            about how many, from any step
    certain_labels(indicators, positives)           labels that follow from the counts
    audit_category_counts(tables, training)         the finding

The entry of the gradient for an indicator is the sum of residues in its category, and of all rows where the column was
centred. Scaling is no cover: the party that scaled its columns undoes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.audit.bounds import clopper_pearson
from tacit.audit.finding import Finding, Score
from tacit.audit.intervals import mean_score
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_logistic.attacks.first_batch import two_valued_levels, without_common_factors
from tacit.kinds.vertical_logistic.attacks.honest_steps import Tables, Training, View, secret_offsets, views
from tacit.kinds.vertical_logistic.protocol import metrics
from tacit.kinds.vertical_logistic.protocol.encoding import RESIDUE_BITS, Columns

_CONFIDENCE = 0.95
Indicators = NDArray[np.bool_]  # rows × categories


@dataclass(frozen=True, slots=True, eq=False)
class _Levels:
    """The two integers that an indicator column takes: outside the category, and the step into it."""

    places: Ints  # of the indicators among all columns
    outside: Ints
    step: Ints
    members: Indicators


def _indicators(columns: Ints) -> _Levels:
    lowest, highest = columns.min(axis=0), columns.max(axis=0)
    two = ((columns == lowest) | (columns == highest)).all(axis=0) & (lowest < highest)
    places = np.flatnonzero(two)
    return _Levels(places, lowest[two], (highest - lowest)[two], columns[:, two] == highest[two])


def indicators(columns: Ints) -> tuple[Ints, Indicators]:
    """Which columns take two values, and the rows that have the larger one."""
    found = _indicators(columns)
    return found.places, found.members


def counted_positives(columns: Ints, gradient: Ints) -> Ints | None:
    """Rows with label 1 in each indicator column of a batch, from the gradient of a step in which all residues are a or
    a − 1. None if the gradient is no such, or leaves several answers.

    Guarantee: counts that are returned are the only ones that explain the gradient.
    """
    columns, gradient = without_common_factors(columns, gradient)
    found = _indicators(columns)
    sizes = found.members.sum(axis=0)
    totals = np.arange(len(columns) + 1)[:, None]  # of all rows with label 1: a whole number that is tried out
    answers: list[Ints] = []
    sums = columns.sum(axis=0)
    for level in two_valued_levels(sums, gradient):
        weighted = ((level * sums - gradient) >> RESIDUE_BITS)[found.places]
        counts, rest = np.divmod(weighted - found.outside * totals, found.step)
        fits = ((rest == 0) & (counts >= 0) & (counts <= np.minimum(sizes, totals))).all(axis=1)
        answers += list(counts[fits])
    different = {answer.tobytes() for answer in answers}
    return answers[0] if len(different) == 1 else None


def estimated_positives(own: Columns, view: View, rate: float) -> Floats:
    """About how many rows have label 1 in each indicator column, if `rate` of all have.

    Columns must be centred, as `scale` makes them. Other parties' scores are unknown. If they do not depend on the
    category, the error has the standard deviation √rows · that of σ(score): secret offsets blur 25 rows by one label.
    """
    found = _indicators(own.integers[view.rows])
    gradient = view.gradient[found.places] / 2.0**RESIDUE_BITS
    sizes = found.members.sum(axis=0)
    excess = gradient / found.step  # residues of the category above the mean of all rows, as columns are centred
    expected = metrics.sigmoid(view.own_scores)
    above = found.members.T @ (expected - expected.mean())
    return np.asarray(np.clip(sizes * rate + above - excess, 0, sizes))


def certain_labels(members: Indicators, positives: Ints) -> Ints:
    """0 or 1 for rows whose label follows from counts by category, −1 for others.

    Of a category with no or only positives all labels are known; they are taken off the counts of other categories,
    until nothing follows any more.
    """
    labels = np.full(len(members), -1, dtype=np.int64)
    while True:
        unknown = labels < 0
        left = (members & unknown[:, None]).sum(axis=0)
        ones = positives - (members & (labels == 1)[:, None]).sum(axis=0)
        new = labels.copy()
        new[(members[:, (ones == 0) & (left > 0)]).any(axis=1) & unknown] = 0
        new[(members[:, (ones == left) & (left > 0)]).any(axis=1) & unknown] = 1
        if (new == labels).all():
            return labels
        labels = new


# --- the finding


def audit_category_counts(tables: Tables, training: Training, *, secret: float = 0.0, seed: int = 0) -> Finding:
    """A passive that counts the positives of its categories in its first gradient over all rows, without and with
    secret offsets of spread `secret` at the active."""
    columns, others, labels = tables.columns, tables.others, tables.labels
    rng = np.random.default_rng([seed, 61])
    full = replace(training, batch=len(labels), epochs=1)
    _, members = indicators(columns.integers)
    if not members.shape[1]:
        raise ValueError("no column takes two values only: there are no categories to count")
    truth = members.T @ labels
    rate = float(labels.mean())
    guesses = [counted(columns, views(columns, others, labels, full)[0], rate)]
    if secret:
        start = secret_offsets(others, secret, rng)
        guesses.append(counted(columns, views(columns, others, labels, full, start)[0], rate))
    blind = np.rint(members.sum(axis=0) * rate).astype(np.int64)
    exact = [exact_counts(counts, truth, float((blind == truth).mean())) for counts, _ in guesses]
    sure = [_sure(members, counts, labels, known) for counts, known in guesses]
    return Finding(
        attack="positives of each category, counted in one gradient over all rows",
        adversary="passive, honest but curious",
        sees=f"its first gradient over {len(labels)} rows, {members.shape[1]} of its columns being indicators",
        protection=f"a secret offset of each row at the active, of spread {secret:g}" if secret else "none",
        off=exact[0],
        on=exact[1] if secret else None,
        also=((sure[0], sure[1]),) if secret else ((None, sure[0]),),
        not_tested=("counts put together from several steps",),
    )


def counted(columns: Columns, view: View, rate: float) -> tuple[Ints, bool]:
    """Counts, and whether they are exact."""
    counts = counted_positives(columns.integers[view.rows], view.gradient)
    if counts is not None:
        return counts, True
    return np.rint(estimated_positives(columns, view, rate)).astype(np.int64), False


def exact_counts(counts: Ints, truth: Ints, baseline: float) -> Score:
    return mean_score("categories counted without error", (counts == truth).astype(np.float64), baseline)


def _sure(members: Indicators, counts: Ints, labels: Ints, known: bool) -> Score:
    """Labels that follow from exact counts; counts that are estimates make nothing certain."""
    found = certain_labels(members, counts) if known else np.full(len(labels), -1)
    right = int((found == labels).sum())
    low, high = clopper_pearson(right, len(labels), _CONFIDENCE)
    return Score("labels known for certain", right / len(labels), low, high, _CONFIDENCE, 0.0, len(labels))
