"""The page of a model on shares: curves from counts in groups, marked as such."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tacit.events import Curve, Tabled
from tacit.kinds.vertical_logistic.protocol.model import Model, Scaler, Target
from tacit.kinds.vertical_logistic.shared.held_out_figures import Figures
from tacit.kinds.vertical_logistic.shared.histogram import Histogram, grid
from tacit.kinds.vertical_logistic.shared_judged import SECTION, JudgedOnShares


def histogram(scores, positive, buckets=256, size=25):
    """Counts of rows in groups of about `size` buckets, from scores that are known here."""
    place = np.searchsorted(grid(buckets), scores).clip(0, buckets - 1)
    ends = np.arange(1, buckets + 1) % size == 0
    ends[-1] = True
    firsts = np.flatnonzero(np.append(True, ends[:-1]))
    negative, positives = (
        np.add.reduceat(np.bincount(place[chosen], minlength=buckets), firsts) for chosen in (~positive, positive)
    )
    return Histogram(negative, positives, ends, np.cumsum(np.bincount(place, minlength=buckets)))


def model(classes, target=None):
    outputs = len(classes) if len(classes) > 2 else 1
    return Model(np.zeros((1, outputs)), Scaler.identity(1), bytes(16), np.zeros(outputs), classes, target)


def scored(seed, rows=2000):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=rows) * 2
    return scores, rng.random(rows) < 1 / (1 + np.exp(-scores))


def test_two_classes_have_all_curves_and_say_that_rows_are_grouped():
    scores, positive = scored(1)
    figures = Figures(({"loss": 0.5},), (histogram(scores, positive, size=8),))
    judged = JudgedOnShares(figures, np.empty(0))
    events = {event.name: event for event in judged.events(model(("no", "yes")))}
    assert {"ROC", "KS", "Class balance", "Thresholds"} <= set(events)
    assert {event.section for event in events.values()} == {SECTION}
    assert all("no score of a row is open" in event.caption for event in events.values())
    roc = np.array(events["ROC"].points)
    assert np.trapezoid(roc[:, 1], roc[:, 0]) == pytest.approx(roc_auc_score(positive, scores), abs=0.01)
    np.testing.assert_allclose(judged.edges(model(("no", "yes"))), np.quantile(scores, np.arange(1, 10) / 10), atol=0.1)


def test_several_classes_have_a_curve_each_and_no_confusion_matrix():
    cases = [scored(seed) for seed in (1, 2, 3)]
    figures = Figures(
        tuple({"loss": 0.5} for _ in cases), tuple(histogram(scores, positive, size=8) for scores, positive in cases)
    )
    judged = JudgedOnShares(figures, np.empty(0))
    roc, balance = judged.events(model(("a", "b", "c")))
    assert isinstance(roc, Curve)
    assert isinstance(balance, Tabled)
    assert set(roc.lines) == {"chance", "class a", "class b", "class c"}
    for (scores, positive), row in zip(cases, balance.rows, strict=True):
        assert row[1] == positive.sum()
        assert row[3] == pytest.approx(roc_auc_score(positive, scores), abs=0.01)
    assert judged.edges(model(("a", "b", "c"))) is None


def test_a_linear_regression_has_tenths_of_its_labels():
    numbers = np.arange(101.0)
    judged = JudgedOnShares(Figures(({"loss": 0.1, "r2": 0.5},)), numbers)
    linear = model((), Target.fit(numbers))
    assert judged.edges(linear).tolist() == pytest.approx([10.0 * tenth for tenth in range(1, 10)])
    assert judged.events(linear) == []


def test_without_figures_there_is_nothing_to_tell():
    judged = JudgedOnShares(None, np.empty(0))
    assert judged.events(model(("no", "yes"))) == []
    assert judged.edges(model(("no", "yes"))) is None


def test_figures_are_restored_from_what_is_stored():
    scores, positive = scored(4)
    figures = Figures(({"loss": float("nan"), "auc": 0.7},), (histogram(scores, positive),))
    again = Figures.restore(figures.state())
    assert again.outputs[0]["auc"] == 0.7
    assert np.isnan(again.loss)
    for part in ("negative", "positive", "ends", "ranks"):
        assert np.array_equal(getattr(again.histograms[0], part), getattr(figures.histograms[0], part))
