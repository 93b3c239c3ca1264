"""People told apart, and read, by the scores w·x of a passive whose columns are categories.

    variables(own)                                  which indicator columns belong to one variable
    attributes_of(own, groups)                      the category of each row in each variable
    equal_people(scores)                            rows with the same score: they have the same attributes
    attributes_from_scores(scores, known, ...)      all attributes of most rows, from those of a few that are known
    audit_equal_scores, audit_attributes_from_scores    the findings

A score of categories is a sum of one weight a variable. There are few such sums compared with the 2^-32 that scores
are sent in, so that a sum determines its summands. Weights follow from rows that the active knows, by least squares;
the sums of two halves of the variables, one sorted, meet in the middle (Horowitz and Sahni 1974).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tacit.audit.bounds import clopper_pearson
from tacit.audit.finding import Finding, Score
from tacit.audit.intervals import mean_score
from tacit.fixedpoint import Floats, Grid, Ints
from tacit.kinds.vertical_logistic.attacks.honest_steps import Tables, Training, views
from tacit.kinds.vertical_logistic.protocol.encoding import Columns

_WORDS = Grid(32)  # what scores are sent in
_TOLERANCE = 32 * _WORDS.step  # of a sum of weights that were solved for
_CONFIDENCE = 0.95
Pairs = NDArray[np.bool_]
_HALF = 1 << 20  # sums of one half that are tabulated, at most
_PAIRS = 2_000_000  # pairs of rows that are compared, at most


def variables(own: Floats) -> list[Ints]:
    """Groups of neighbouring columns of 0 and 1 with exactly one 1 in each row. Other columns belong to none."""
    binary = ((own == 0) | (own == 1)).all(axis=0)
    groups, start = [], 0
    while start < own.shape[1]:
        end, total = start, np.zeros(len(own))
        while end < own.shape[1] and binary[end] and total.max() <= 1 and total.min() < 1:
            total = total + own[:, end]
            end += 1
        if end > start and (total == 1).all():
            groups.append(np.arange(start, end))
            start = end
        else:
            start += 1
    return groups


def attributes_of(own: Floats, groups: Sequence[Ints]) -> Ints:
    """The number of each row's category in each variable."""
    return np.stack([own[:, group].argmax(axis=1) for group in groups], axis=1).astype(np.int64)


def equal_people(scores: Floats) -> Ints:
    """A number for each row, the same for rows whose scores (rows, or rows × epochs) are equal as they are sent."""
    words = _WORDS.encode(scores).reshape(len(scores), -1)
    return np.unique(words, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


# --- attributes


@dataclass(frozen=True, slots=True, eq=False)
class _Half:
    """Every sum of one weight for each of these variables, in each epoch; sorted by the first epoch."""

    choices: Ints  # sums × variables
    sums: Floats  # sums × epochs

    @classmethod
    def of(cls, weights: Sequence[Floats]) -> _Half:
        """From one array of weights (categories × epochs; NaN for a category that no known row has) a variable."""
        seen = [np.flatnonzero(np.isfinite(weight[:, 0])) for weight in weights]
        count = int(np.prod([float(len(each)) for each in seen])) if seen else 1
        if count > _HALF:
            raise ValueError(
                f"{count} combinations of categories in half of the variables: at most {_HALF} are searched"
            )
        choices = np.array(list(product(*seen)), dtype=np.int64).reshape(count, len(weights))
        epochs = weights[0].shape[1] if weights else 1
        sums = np.zeros((count, epochs))
        for place, weight in enumerate(weights):
            sums += weight[choices[:, place]]
        order = np.argsort(sums[:, 0], kind="stable")
        return cls(choices[order], sums[order])


def attributes_from_scores(scores: Floats, known: Ints, attributes: Ints) -> Ints:
    """The category of every row in every variable (−1: not read), from scores (rows × epochs, all rows of an epoch
    under the same weights) and the attributes of the rows `known`."""
    weights, constant = _weights(scores[known], attributes)
    middle = _balanced([int(np.isfinite(weight[:, 0]).sum()) for weight in weights])
    left, right = _Half.of(weights[:middle]), _Half.of(weights[middle:])
    people = equal_people(scores)
    found = np.full((people.max() + 1, len(weights)), -1, dtype=np.int64)
    _, first = np.unique(people, return_index=True)
    for person, row in enumerate(first):
        wanted = scores[row] - constant
        places = np.searchsorted(left.sums[:, 0], wanted[0] - right.sums[:, 0] - _TOLERANCE)
        best = _TOLERANCE
        for turn in range(3):  # sums next to each other within the tolerance; more would need equal weights
            at = np.minimum(places + turn, len(left.sums) - 1)
            errors = np.abs(left.sums[at] + right.sums - wanted).max(axis=1)
            nearest = int(errors.argmin())
            if errors[nearest] < best:
                best = float(errors[nearest])
                found[person] = np.concatenate([left.choices[at[nearest]], right.choices[nearest]])
    return found[people]


def _weights(scores: Floats, attributes: Ints) -> tuple[list[Floats], Floats]:
    """The weight of each category in each variable and epoch, by least squares, and what all rows share."""
    sizes = attributes.max(axis=0) + 1
    blocks = [attributes[:, [place]] == np.arange(size) for place, size in enumerate(sizes)]
    design = np.hstack([np.ones((len(attributes), 1)), *blocks]).astype(np.float64)
    solution: Floats = np.asarray(np.linalg.lstsq(design, scores, rcond=None)[0], dtype=np.float64)
    weights, at = [], 1
    for block in blocks:
        part = solution[at : at + block.shape[1]].copy()
        part[~block.any(axis=0)] = np.nan
        weights.append(part)
        at += block.shape[1]
    return weights, solution[0]


def _balanced(sizes: Sequence[int]) -> int:
    """How many variables go into the first half, so that the halves have about as many combinations."""
    logs = np.log(np.maximum(sizes, 1))
    return int(np.abs(2 * np.cumsum(logs) - logs.sum()).argmin()) + 1


# --- the findings


def _scores(tables: Tables, training: Training, epochs: int) -> list[Floats]:
    """What the active reads in steps over all rows, after the first, in which it is 0: the passive's scores (rows ×
    epochs), and if there are other passives the sums with theirs."""
    full = replace(training, batch=len(tables.labels), epochs=epochs + 1)
    alone = views(tables.columns, tables.others, tables.labels, full)
    read = [alone]
    if tables.passives is not None:
        together = Columns.encode(tables.scaled(np.hstack([tables.own, tables.passives])))
        read.append(views(together, tables.scaled(tables.active), tables.labels, full))
    return [np.stack([view.own_scores for view in seen[1:]], axis=1) for seen in read]


def audit_equal_scores(tables: Tables, training: Training) -> Finding:
    """An active that takes rows with equal scores for people with equal attributes, and knows nothing else."""
    truth = np.unique(tables.own, axis=0, return_inverse=True)[1].reshape(-1)
    one, other = np.triu_indices(len(truth), 1)
    if len(one) > _PAIRS:
        drawn = np.random.default_rng(67).choice(len(one), _PAIRS, replace=False)
        one, other = one[drawn], other[drawn]
    equal = truth[one] == truth[other]
    if not equal.any():
        raise ValueError("no two rows have the same attributes: there are no equal people to find")
    found = []
    for scores in _scores(tables, training, 1):
        people = equal_people(scores)
        same = people[one] == people[other]
        right = mean_score("pairs of equal people that are found", same[equal].astype(np.float64), float(equal.mean()))
        found.append((right, precision(same, equal)))
    return Finding(
        attack="people with equal attributes, by equal scores",
        adversary="active, honest but curious",
        sees="the passives' scores in one step over all rows",
        protection="scores summed over all passives" if len(found) > 1 else "none",
        off=found[0][0],
        on=found[1][0] if len(found) > 1 else None,
        also=((found[0][1], found[1][1]),) if len(found) > 1 else ((None, found[0][1]),),
    )


def precision(same: Pairs, equal: Pairs) -> Score:
    named, right = int(same.sum()), int((same & equal).sum())
    low, high = clopper_pearson(right, named, _CONFIDENCE) if named else (0.0, 1.0)
    metric = "found pairs that are equal"
    return Score(metric, right / max(1, named), low, high, _CONFIDENCE, float(equal.mean()), named)


def audit_attributes_from_scores(
    tables: Tables, training: Training, *, known: int = 60, epochs: int = 1, seed: int = 0
) -> Finding:
    """An active that knows some rows of the passive's categories, and reads the others by scores of `epochs` steps."""
    groups = variables(tables.own)
    if not groups:
        raise ValueError(
            "no columns are the indicators of a variable: scores of numbers are attacked by linear algebra"
        )
    attributes = attributes_of(tables.own, groups)
    order = np.random.default_rng([seed, 71]).permutation(len(attributes))
    given, rest = order[: min(known, len(order) // 2)], order[min(known, len(order) // 2) :]
    usual = np.array([np.bincount(column).argmax() for column in attributes.T])
    baseline = float((attributes[rest] == usual).all(axis=1).mean())
    found = []
    for scores in _scores(tables, training, epochs):
        guesses = attributes_from_scores(scores, given, attributes[given])[rest]
        right = (guesses == attributes[rest]).all(axis=1).astype(np.float64)
        found.append(mean_score(f"people of whom all {len(groups)} attributes are read", right, baseline))
    return Finding(
        attack="attributes out of scores, by the weights that known rows give",
        adversary="active, honest but curious",
        sees=f"the passives' scores in {epochs} step(s) over all rows; knows {len(given)} of the passive's rows",
        protection="scores summed over all passives" if len(found) > 1 else "none",
        off=found[0],
        on=found[1] if len(found) > 1 else None,
        not_tested=("rows that the active knows of all passives", "tables with both numbers and categories"),
    )
