"""What a passive of the masked protocol reads of labels by lattice reduction, and what secret offsets against it cost.

Labels are drawn by lot on normal tables. The cost is the AUC on held-out rows beside a training that starts at zero,
in plaintext, to which the protocol is equal; with `--data` also on the 30,000 rows of UCI's credit defaults.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from bench.measure import CPU, Options, Row
from tacit.kinds.vertical_logistic.attacks.first_batch import guess_labels, noise_limit, two_valued_labels
from tacit.kinds.vertical_logistic.attacks.honest_steps import Tables, Training, secret_offsets, views
from tacit.kinds.vertical_logistic.protocol.metrics import sigmoid
from tacit.tables.plain import read_numbers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SIZES = ((60, 10), (100, 15), (100, 30), (150, 40))
SPREADS = (0.01, 0.03, 0.1, 0.3, 1.0)
TRIALS = 5
STEPS = 15
ALLOWED = 0.002  # of AUC


def run(options: Options) -> list[Row]:
    rows: list[Row] = []
    for size in SIZES[:2] if options.quick else SIZES:
        rows += _first_batch(*size)
    if not options.quick:
        rows += [_steps(60, features, rate) for features in (20, 15, 10) for rate in (0.1, 0.5)]
        rows += [_spread(60, 20, spread) for spread in SPREADS]
    x, y = load_breast_cancer(return_X_y=True)
    rows += _cost("breast cancer", x[:, :10], x[:, 10:], y, 128)
    if options.data is not None and not options.quick:
        rows += _credit(options.data)
    return rows


def _drawn(rows: int, features: int, seed: int) -> Tables:
    rng = np.random.default_rng([seed, rows, features])
    labels = rng.integers(0, 2, rows)
    return Tables(rng.normal(size=(rows, features)), rng.normal(size=(rows, 5)), labels)


def _first_batch(rows: int, features: int) -> list[Row]:
    made = _drawn(rows, features, 0)
    view = views(made.columns, made.others, made.labels, Training(rows))[0]
    began = CPU()
    found = two_valued_labels(made.columns.integers, view.gradient)
    seconds = CPU() - began
    right = 0.0 if found is None else float((found == made.labels).mean())
    name = f"first batch of {rows} × {features}"
    return [
        Row(f"{name}: labels right", right, None, "", "higher", floor=1.0, judged="ours"),
        Row(f"{name}: processor time", seconds, None, "s", "lower"),
    ]


def _steps(rows: int, features: int, rate: float) -> Row:
    """From zero, over all rows in each step: the passive knows its own part of the scores, and not the active's."""
    made = _drawn(rows, features, 1)
    seen = views(made.columns, made.others, made.labels, Training(rows, STEPS, rate))
    guesses = [guess_labels(made.columns, [view]) for view in seen]
    solved = sum(guess.explained and bool(((guess.scores > 0.5) == made.labels).all()) for guess in guesses)
    return Row(f"{rows} × {features}, rate {rate:g}: of the first {STEPS} steps solved", solved, None, "", "lower")


def _spread(rows: int, features: int, spread: float) -> Row:
    solved = 0
    for seed in range(TRIALS):
        made = _drawn(rows, features, seed)
        start = secret_offsets(made.others, spread, np.random.default_rng(seed))
        guess = guess_labels(made.columns, views(made.columns, made.others, made.labels, Training(rows), start))
        solved += guess.explained and bool(((guess.scores > 0.5) == made.labels).all())
    deviation = spread / 4  # of σ(score), for small spreads
    name = f"{rows} × {features}, secret offsets of {spread:g}: residues off by {deviation:.2g}, limit "
    return Row(f"{name}{noise_limit(rows, features):.2g}: batches solved", solved / TRIALS, None, "", "lower")


def _credit(folder: Path) -> list[Row]:
    guest = read_numbers(folder / "default_credit_hetero_guest.csv", label=True)
    host = read_numbers(folder / "default_credit_hetero_host.csv")
    if guest.labels is None:
        raise ValueError("the guest's file of the credit data has no label")
    return _cost("credit defaults", guest.features, host.features, guest.labels.codes, 2048)


def _cost(name: str, active: Floats, passive: Floats, labels: Ints, batch: int) -> list[Row]:
    order = np.random.default_rng(0).permutation(len(labels))
    test, training = order[: len(order) // 5], order[len(order) // 5 :]
    x = np.hstack([active, passive])
    x = (x - x[training].mean(axis=0)) / x[training].std(axis=0)
    rows = []
    for epochs in (3, 10, 30):
        plain = _area(x, labels, training, test, Training(batch, epochs, l2=0.001), None)
        secret = [
            _area(x, labels, training, test, Training(batch, epochs, l2=0.001), np.random.default_rng(seed))
            for seed in range(TRIALS)
        ]
        found = float(np.mean(secret))
        floor = 1 - ALLOWED / plain if epochs >= 10 else None
        rows.append(Row(f"{name}: AUC after {epochs} epochs with secret offsets", found, plain, "", "higher", floor))
    return rows


def _area(
    x: Floats, labels: Ints, rows: Ints, test: Ints, training: Training, rng: np.random.Generator | None
) -> float:
    """The AUC on held-out rows, which have no offsets."""
    columns, weights, intercept, rate = x[rows], np.zeros(x.shape[1]), 0.0, training.rate
    offsets = np.zeros(len(rows)) if rng is None else rng.normal(size=len(rows))
    for batch in training.batches(len(rows)):
        residues = sigmoid(columns[batch] @ weights + intercept + offsets[batch]) - labels[rows][batch]
        weights = weights - rate * (columns[batch].T @ residues / len(batch) + training.l2 * weights)
        intercept -= rate * float(residues.mean())
    return float(roc_auc_score(labels[test], x[test] @ weights))
