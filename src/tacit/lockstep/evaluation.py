"""How good a trained model's scores are, as curves and tables for the page of the party that has the labels.

    evaluated(scores, labels, classes, held_out=True, linear=False)     events, to be told at the end of a training

Two classes: ROC, precision and recall, calibration, gains, lift, KS, thresholds, class balance. Several: each against
all others, and a confusion matrix. Numbers (`linear`): predicted against actual values, and residuals. All derive
from private records, and no epsilon covers it: curves keep at most 200 points, numbers are shown in groups of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.events import Curve, Event, Tabled
from tacit.fixedpoint import Floats

Ints = NDArray[np.int64]
HELD_OUT, TRAINED = "On held-out rows", "On training rows"
_POINTS = 200  # of a curve that is kept
_GROUPS = 10  # of calibration, as scikit-learn's quantile strategy
_DRAWN = 6  # classes in one chart; all are in the table
_LEAST_SHARE = 0.01  # of the rows: the lift of fewer is noise
_BINS = 25
_DIAGONAL = [[0.0, 0.0], [1.0, 1.0]]


def probabilities(scores: Floats, *, linear: bool = False) -> Floats:
    """What raw scores (n, K) say: (n,) of the second of two classes, (n, K) one against the rest, values if linear.

    One against the rest: the probability of each class against all others, over their sum. What is said of a row does
    not depend on the others, to the last bit.
    """
    if linear:
        return np.asarray(scores[:, 0])
    logarithms = -np.logaddexp(0.0, -scores)
    if scores.shape[1] == 1:
        return np.asarray(np.exp(logarithms[:, 0]))
    relative = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))  # all may be too small for a float
    total = np.zeros(len(relative))
    for column in relative.T:  # one after the other: the order of a sum over an axis may depend on the number of rows
        total = total + column
    return np.asarray(relative / total[:, None])


def evaluated(
    scores: Floats, labels: NDArray[np.generic], classes: Sequence[str], *, held_out: bool, linear: bool
) -> list[Event]:
    """Curves and tables of these rows.

    Args:
        scores: (n, K) log odds of the second of two classes (K = 1) or of each class; values in the label's own unit
            if linear.
        labels: codes from 0 of the classes, or numbers if linear.
        held_out: whether the model was trained without these rows.
    """
    if scores.ndim != 2 or labels.shape != (len(scores),) or not np.isfinite(scores).all():
        raise ValueError(f"scores of shape {scores.shape} and labels of {labels.shape}: give finite scores of each row")
    section = HELD_OUT if held_out else TRAINED
    if not len(scores):
        return []
    if linear:
        return _numbers(scores[:, 0], labels.astype(np.float64), section)
    codes = labels.astype(np.int64)
    if scores.shape[1] > 1:
        return _several(scores, codes, classes, section)
    return _two(scores[:, 0], codes, classes, section)


def area_under_curve(scores: Floats, positive: NDArray[np.bool_]) -> float | None:
    """The AUC of scores: how often a positive row has the higher one of two; None if only one class occurs."""
    ranked = _Ranked.of(scores, positive)
    return ranked.auc if ranked.both else None


# --- two classes


@dataclass(frozen=True, slots=True, eq=False)
class _Ranked:
    """Rows from the highest score down, one point for each distinct score; the first point is before any row."""

    scores: Floats  # from which on rows count as positive; infinite at the first point
    true: Ints  # positives so far
    false: Ints

    @classmethod
    def of(cls, scores: Floats, positive: NDArray[np.bool_]) -> _Ranked:
        descending = np.argsort(-scores, kind="stable")
        ordered, hits = scores[descending], positive[descending]
        ends = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)
        true, false = np.cumsum(hits)[ends], np.cumsum(~hits)[ends]
        return cls(np.append(np.inf, ordered[ends]), np.append(0, true), np.append(0, false))

    @property
    def both(self) -> bool:
        """Whether both classes occur: rates are of nothing otherwise."""
        return bool(self.true[-1] and self.false[-1])

    @property
    def recall(self) -> Floats:
        return np.asarray(self.true / self.true[-1])

    @property
    def fall_out(self) -> Floats:
        return np.asarray(self.false / self.false[-1])

    @property
    def auc(self) -> float:
        return float(np.trapezoid(self.recall, self.fall_out))

    @property
    def rows(self) -> Floats:
        """The share of all rows so far."""
        return np.asarray((self.true + self.false) / (self.true[-1] + self.false[-1]))


def _two(scores: Floats, codes: Ints, classes: Sequence[str], section: str) -> list[Event]:
    chance, positive = probabilities(scores[:, None]), codes == 1
    ranked = _Ranked.of(scores, positive)  # probabilities near 1 are equal where scores are not
    if not ranked.both:
        return [_balance(codes, classes, section, " Only one class occurs: there are no curves.")]
    best = int(np.argmax(np.abs(ranked.recall - ranked.fall_out)))
    return [
        _roc(ranked, classes, section),
        _precision(ranked, classes, section),
        _calibration(chance, positive, classes, section),
        _gains(ranked, classes, section),
        _lift(ranked, classes, section),
        _ks(ranked, best, classes, section),
        _thresholds(scores, positive, float(ranked.scores[best]), classes, section),
        _balance(codes, classes, section),
    ]


def _roc(ranked: _Ranked, classes: Sequence[str], section: str) -> Curve:
    caption = (
        f"AUC {ranked.auc:.4f}: the probability that a row of {classes[1]} scores higher than one of {classes[0]}."
    )
    points = _few(ranked.fall_out, ranked.recall)
    return Curve(
        "ROC", "false positive rate", "true positive rate", points, caption, {"chance": _DIAGONAL}, section=section
    )


def _precision(ranked: _Ranked, classes: Sequence[str], section: str) -> Curve:
    precision = ranked.true[1:] / (ranked.true[1:] + ranked.false[1:])
    average = float(np.sum(np.diff(ranked.recall) * precision))
    rate = float(ranked.true[-1] / (ranked.true[-1] + ranked.false[-1]))
    caption = (
        f"Average precision {average:.4f}; a guess without any information has {rate:.4f}, the share of {classes[1]}."
    )
    points = _few(ranked.recall[1:], precision)
    chance = {"chance": [[0.0, rate], [1.0, rate]]}
    return Curve("Precision and recall", "recall", "precision", points, caption, chance, section=section)


def _calibration(chance: Floats, positive: NDArray[np.bool_], classes: Sequence[str], section: str) -> Curve:
    points = _grouped(chance, positive.astype(np.float64), _GROUPS)
    caption = (
        f"Rows in {len(points)} groups of similar prediction: what was predicted on average, and the share of "
        f"{classes[1]} among them."
    )
    return Curve(
        "Calibration",
        "mean predicted probability",
        f"share of {classes[1]}",
        points,
        caption,
        {"perfect": _DIAGONAL},
        section=section,
    )


def _gains(ranked: _Ranked, classes: Sequence[str], section: str) -> Curve:
    tenth = float(np.interp(0.1, ranked.rows, ranked.recall))
    rate = float(ranked.true[-1] / (ranked.true[-1] + ranked.false[-1]))
    caption = f"The tenth of the rows with the highest scores has {tenth:.1%} of all rows of {classes[1]}."
    lines = {"chance": _DIAGONAL, "perfect": [[0.0, 0.0], [rate, 1.0], [1.0, 1.0]]}
    points = _few(ranked.rows, ranked.recall)
    return Curve(
        "Cumulative gains",
        "share of rows, highest scores first",
        f"share of {classes[1]} found",
        points,
        caption,
        lines,
        section=section,
    )


def _lift(ranked: _Ranked, classes: Sequence[str], section: str) -> Curve:
    kept = ranked.rows >= min(_LEAST_SHARE, float(ranked.rows[-1]))
    rows, recall = ranked.rows[kept], ranked.recall[kept]
    caption = f"How many times more rows of {classes[1]} are among those taken than among as many rows taken at random."
    points = _few(rows, recall / rows)
    chance = {"chance": [[0.0, 1.0], [1.0, 1.0]]}
    return Curve("Lift", "share of rows, highest scores first", "lift", points, caption, chance, section=section)


def _ks(ranked: _Ranked, best: int, classes: Sequence[str], section: str) -> Curve:
    gap = float(abs(ranked.recall[best] - ranked.fall_out[best]))
    chance = probabilities(ranked.scores[1:, None])  # without the point before any row
    caption = (
        f"The share of each class with a lower probability. The largest gap, KS, is {gap:.4f}, at a probability of "
        f"{chance[best - 1]:.4f}."
    )
    lines = {
        f"class {name}": _few(chance[::-1], 1 - rate[:0:-1])
        for name, rate in ((classes[1], ranked.recall), (classes[0], ranked.fall_out))
    }
    x = f"probability of {classes[1]}"
    return Curve("KS", x, "share of the class below", [], caption, lines, section=section)


def _thresholds(
    scores: Floats, positive: NDArray[np.bool_], best: float, classes: Sequence[str], section: str
) -> Tabled:
    """Counts at each threshold; `best` is a score, and not a probability."""
    chance = probabilities(scores[:, None])
    at: list[tuple[float, str | float, NDArray[np.bool_]]]
    at = [(step / 20, step / 20, chance >= step / 20) for step in range(1, 20)]
    largest = float(probabilities(np.array([[best]]))[0])
    at.append((largest, f"{largest:.4f} (KS)", scores >= best))
    rows: list[list[str | float]] = []
    for _, shown, taken in sorted(at, key=lambda each: each[0]):
        true, false = int(np.sum(taken & positive)), int(np.sum(taken & ~positive))
        missed = int(positive.sum()) - true
        precision: str | float = true / (true + false) if true + false else ""
        rates = (precision, true / (true + missed), 2 * true / (2 * true + false + missed))
        rows.append([shown, true + false, true, false, len(chance) - true - false - missed, missed, *rates])
    header = ["threshold", f"taken for {classes[1]}", "true positives", "false positives", "true negatives"]
    return Tabled(
        "Thresholds",
        f"Rows with a probability of {classes[1]} from the threshold on are taken for {classes[1]}, which counts as "
        "positive. KS: the threshold with the largest gap between both classes.",
        [*header, "false negatives", "precision", "recall", "F1"],
        rows,
        section,
    )


def _balance(codes: Ints, classes: Sequence[str], section: str, more: str = "") -> Tabled:
    counts = [int(np.sum(codes == code)) for code in range(len(classes))]
    rows: list[list[str | float]] = [
        [name, count, f"{count / len(codes):.1%}"] for name, count in zip(classes, counts, strict=True)
    ]
    caption = f"How many of the {len(codes):,} rows are of each class.{more}"
    return Tabled("Class balance", caption, ["class", "rows", "share"], rows, section)


# --- several classes


def _several(scores: Floats, codes: Ints, classes: Sequence[str], section: str) -> list[Event]:
    ranked = [_Ranked.of(scores[:, code], codes == code) for code in range(len(classes))]
    counts = np.bincount(codes, minlength=len(classes))
    drawn = sorted(sorted(range(len(classes)), key=lambda code: -counts[code])[:_DRAWN])
    lines = {
        f"class {classes[code]}": _few(ranked[code].fall_out, ranked[code].recall)
        for code in drawn
        if ranked[code].both
    }
    some = "" if len(classes) <= _DRAWN else f", the {_DRAWN} most frequent of {len(classes)}"
    caption = f"Each class against all others{some}. The table of classes has the area under each curve, AUC."
    roc = Curve(
        "ROC",
        "false positive rate",
        "true positive rate",
        [],
        caption,
        {"chance": _DIAGONAL, **lines},
        section=section,
    )
    rows: list[list[str | float]] = [
        [name, int(count), f"{count / len(codes):.1%}", each.auc if each.both else ""]
        for name, count, each in zip(classes, counts, ranked, strict=True)
    ]
    words = f"How many of the {len(codes):,} rows are of each class, and how well its score tells it from all others."
    balance = Tabled("Class balance", words, ["class", "rows", "share", "AUC"], rows, section)
    return [roc, _confusion(scores.argmax(axis=1), codes, classes, section), balance]


def _confusion(decided: Ints, codes: Ints, classes: Sequence[str], section: str) -> Tabled:
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(counts, (codes, decided), 1)
    right = float(np.trace(counts) / counts.sum())
    rows: list[list[str | float]] = [[name, *map(int, row)] for name, row in zip(classes, counts, strict=True)]
    caption = f"Rows by their class and by the class with the highest score: {right:.1%} are on the diagonal."
    return Tabled("Confusion matrix", caption, ["class", *(f"taken for {name}" for name in classes)], rows, section)


# --- numbers


def _numbers(predicted: Floats, actual: Floats, section: str) -> list[Event]:
    left = actual - predicted
    spread = float(np.sum((actual - actual.mean()) ** 2))
    fit = f"R² {1 - float(np.sum(left**2)) / spread:.4f}, r" if spread else "R"
    points = _grouped(predicted, actual, 2 * _GROUPS)
    ends = [float(min(each[0] for each in points)), float(max(each[0] for each in points))]
    caption = (
        f"Rows in {len(points)} groups of similar prediction: what was predicted and what was observed, on average. "
        f"{fit}oot mean squared error {np.sqrt(np.mean(left**2)):.4g}, mean absolute error {np.mean(np.abs(left)):.4g}."
    )
    fitted = Curve(
        "Predicted and actual",
        "mean prediction",
        "mean of the label",
        points,
        caption,
        {"perfect": [[end, end] for end in ends]},
        section=section,
    )
    counts, edges = np.histogram(left, bins=_BINS)
    outline = [[float(edges[0]), 0.0]]
    for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
        outline += [[float(low), float(count)], [float(high), float(count)]]
    words = f"How far the label lies from what was predicted, in {_BINS} steps: {np.mean(left):.4g} on average."
    residuals = Curve(
        "Residuals",
        "label less prediction",
        "rows",
        [*outline, [float(edges[-1]), 0.0]],
        words,
        section=section,
    )
    return [fitted, residuals]


# --- points


def _few(x: Floats, y: Floats) -> list[list[float]]:
    """A curve in few points, its ends among them."""
    kept = np.unique(np.linspace(0, len(x) - 1, min(_POINTS, len(x))).round().astype(int))
    return [[float(x[place]), float(y[place])] for place in kept]


def _grouped(predicted: Floats, observed: Floats, groups: int) -> list[list[float]]:
    """The means of rows in groups between quantiles of the prediction, in rising order; equal ones stay together."""
    edges = np.quantile(predicted, np.linspace(0, 1, groups + 1))[1:-1]
    group = np.searchsorted(edges, predicted)
    return [
        [float(predicted[group == each].mean()), float(observed[group == each].mean())] for each in np.unique(group)
    ]
