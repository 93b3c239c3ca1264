"""A passive infers labels from the rows of nodes, which it sees with `partition: shown`.

    memberships(record)             one column for each node that it sees: the opened ones, and the sides of its splits
    separated(record)               without any label: rows that trees set apart, by the sizes of their nodes
    with_known(...)                 with a few labels known: a regression on the memberships and its own columns
    audit_labels                    both, with the rows shown and hidden

Trees put rows with alike labels together, also by the active's features, which the passive does not have: the nodes
of a row describe it with the knowledge of all labels. With `partition: hidden` the passive sees no rows of nodes.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression

from tacit.audit.finding import Finding, Score
from tacit.audit.intervals import resampled
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_trees.attacks.record import Record
from tacit.kinds.vertical_trees.protocol.features import BinArray, BoolArray

_DIRECTIONS = 30  # of the memberships that are kept
_PASSES = 4  # of power iteration: enough for directions that a regression then weighs


def memberships(record: Record) -> csc_array:
    """[rows, nodes] of 0 and 1: the opened nodes, and the left and right side of each node that it divided."""
    columns = [rows for _, rows in record.nodes_seen()]
    for split in record.divided:
        columns += [split.rows[split.left], split.rows[~split.left]]
    pointers = np.concatenate([[0], np.cumsum([len(each) for each in columns])])
    rows = np.concatenate(columns)
    return csc_array((np.ones(len(rows)), rows, pointers), shape=(record.rows, len(columns)))


def directions(record: Record, count: int = _DIRECTIONS, seed: int = 0) -> Floats:
    """[rows, count]: the strongest common directions of the memberships, each node centred and of equal weight."""
    nodes = memberships(record)
    sizes = np.asarray(nodes.sum(axis=0))
    kept = (sizes > 0) & (sizes < record.rows)
    nodes, sizes = csc_array(nodes[:, np.flatnonzero(kept)]), sizes[kept]
    share = sizes / record.rows
    scaled = csc_array(nodes.multiply(1 / np.sqrt(share * (1 - share))[None]))
    mean = share / np.sqrt(share * (1 - share))
    count = min(count, len(sizes), record.rows)
    basis = np.random.default_rng(seed).normal(size=(len(sizes), count))
    for _ in range(_PASSES):
        left = np.linalg.qr(scaled @ basis - mean @ basis)[0]
        basis = np.linalg.qr(scaled.T @ left - np.outer(mean, left.sum(axis=0)))[0]
    found = scaled @ basis - mean @ basis
    return np.asarray(found / found.std(axis=0).clip(1e-12))


def separated(record: Record) -> Floats:
    """Higher for rows in small nodes: trees set the rows of the less frequent class apart."""
    total, count = np.zeros(record.rows), np.zeros(record.rows)
    for _, rows in record.nodes_seen():
        if len(rows) < record.rows:
            total[rows] += np.log(record.rows / len(rows))
        count[rows] += 1
    return total / np.maximum(count, 1)


def with_known(own: BinArray, labels: Ints, known: BoolArray, seen: Floats | None) -> Floats:
    """The probability of label 1 for every row, from the labels of `known` rows.

    `own` are the passive's columns as bins; `seen` are directions of memberships, None if they are hidden.
    """
    columns = own.astype(np.float64)
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0).clip(1e-12)
    parts = [columns, np.square(columns)] + ([] if seen is None else [seen])
    model = LogisticRegression(C=0.1, max_iter=1000)
    table = np.hstack(parts)
    model.fit(table[known], labels[known])
    return np.asarray(model.predict_proba(table)[:, 1])


# --- the finding


def audit_labels(record: Record, own: BinArray, labels: Ints, *, known: int = 100, seed: int = 0) -> Finding:
    """Labels of two classes, for a passive that knows none, and for one that knows those of `known` rows, by lot.

    Off is `partition: shown`. On is `partition: hidden`: there a passive without labels has nothing to go by, and one
    with some has its own columns alone, which is the baseline of the second.
    """
    few = int(labels.mean() > 0.5)  # nodes set the less frequent class apart: here 1 if it is label 0
    truth = labels == 1 - few
    chosen = np.zeros(record.rows, dtype=bool)
    chosen[np.random.default_rng([seed, 61]).permutation(record.rows)[:known]] = True
    if len(np.unique(labels[chosen])) < 2:
        raise ValueError(f"the {known} rows whose labels are known have one class only: choose more")
    apart = separated(record)
    seen = np.column_stack([apart, directions(record, min(_DIRECTIONS, 2 + known // 10), seed)])
    seen[:, 0] /= max(1e-12, float(apart.std()))
    hidden, shown = (with_known(own, truth.astype(np.int64), chosen, each)[~chosen] for each in (None, seen))
    alone = area(hidden, truth[~chosen])
    metric = f"AUC of the labels, {known} known"
    return Finding(
        attack="labels from the rows of nodes",
        adversary="passive, honest but curious",
        sees=f"the rows of {len(record.opened)} opened nodes and of its own {len(record.divided)} splits",
        protection="partition: hidden",
        off=_scored("AUC of the labels, none known", apart, truth, 0.5),
        on=_scored("AUC of the labels, none known", np.zeros(record.rows), truth, 0.5),
        also=((_scored(metric, shown, truth[~chosen], alone), _scored(metric, hidden, truth[~chosen], alone)),),
        not_tested=("labels of several classes", "a passive that chooses its columns so that trees tell more"),
    )


def area(scores: Floats, truth: BoolArray) -> float:
    """The area under the curve: how often a row of the class has the higher score, ties by halves."""
    positives = int(truth.sum())
    negatives = len(truth) - positives
    if not positives or not negatives:
        return 0.5
    return float((rankdata(scores)[truth].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def _scored(metric: str, scores: Floats, truth: BoolArray, baseline: float) -> Score:
    return resampled(metric, lambda drawn: area(scores[drawn], truth[drawn]), len(truth), baseline)
