"""Figures of held-out rows against those of the opened model; and what of them is opened, to whom."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from tacit.kinds.vertical_logistic.shared.held_out_figures import Figures
from tacit.kinds.vertical_logistic.shared.histogram import LEAST
from tacit.kinds.vertical_logistic.shared.messages import COUNTS, LOSS, RANKS, WEIGHTS, Groups, Revealed, Verdict
from tacit.kinds.vertical_logistic.shared.training import SharedContext
from tacit.kinds.vertical_logistic.two_party import held_out_counts
from tests.kinds.vertical_logistic.shared.trainings import NAMES, people, run, whole
from tests.kinds.vertical_logistic.two_party.sessions import terms_of

ROWS = 600


def judged(x, y, terms, recorders=None) -> tuple[Figures, np.ndarray]:
    """The last figures, and the scores of held-out rows by the opened weights."""
    told = []
    contexts = {terms.active: SharedContext(told=lambda _, found: told.append(found))}
    weights, intercept = whole(run(x, y, terms, contexts=contexts, recorders=recorders), terms)
    return told[-1], x[terms.split[1]] @ weights + intercept


@pytest.mark.parametrize("active", [0, 1])
def test_loss_and_auc_are_those_of_the_model(active):
    x, y = people(ROWS, 5)
    terms = terms_of(ROWS, epochs=2, figures="end", held_out=0.7, active=NAMES[active])
    found, scores = judged(x, y, terms)
    labels = y[terms.split[1]]
    (values,) = found.outputs
    assert abs(values["loss"] - log_loss(labels, 1 / (1 + np.exp(-scores[:, 0])))) < 0.02
    assert abs(values["auc"] - roc_auc_score(labels, scores[:, 0])) < 0.02
    assert abs(values["accuracy"] - np.mean((scores[:, 0] > 0) == labels)) < 0.04
    (shown,) = found.histograms
    assert shown.positive.sum() == labels.sum()
    assert shown.negative.sum() == (1 - labels).sum()
    assert (shown.positive + shown.negative).min() > LEAST


def test_each_class_has_its_figures():
    x, _ = people(ROWS, 4)
    y = np.eye(3)[np.argmax(x @ np.random.default_rng(1).normal(size=(4, 3)), axis=1)]
    terms = terms_of(ROWS, epochs=2, figures="end", held_out=0.5, outputs=3)
    found, scores = judged(x, y, terms)
    for output, values in enumerate(found.outputs):
        assert abs(values["auc"] - roc_auc_score(y[terms.split[1], output], scores[:, output])) < 0.03


def test_counts_of_many_rows_take_longer_words(monkeypatch):
    assert held_out_counts.word_of_counts(65_000) == np.uint32
    assert held_out_counts.word_of_counts(65_536) == np.uint64
    monkeypatch.setattr(held_out_counts, "word_of_counts", lambda rows: np.dtype(np.uint64))
    x, y = people(200, 4)
    terms = terms_of(200, epochs=1, figures="end", held_out=0.5)
    found, _ = judged(x, y, terms)
    assert found.histograms[0].positive.sum() == y[terms.split[1]].sum()


def test_ranks_are_right_to_within_four_rows():
    x, y = people(ROWS, 5)
    terms = terms_of(ROWS, epochs=2, figures="end", held_out=0.7)
    found, scores = judged(x, y, terms)
    ranks, rows = found.histograms[0].ranks, len(scores)
    assert abs(ranks[-1] - rows) < 4
    median = np.flatnonzero(ranks >= rows / 2)[0]
    assert abs(np.median(scores) - np.sinh(np.linspace(-5, 5, 256))[median]) < 0.4


def test_squares_of_a_linear_regression_are_exact():
    x, _ = people(300, 4)
    y = np.stack([x[:, 0] + 0.5, 3 * x[:, 1] - x[:, 2]], axis=1) + np.random.default_rng(2).normal(size=(300, 2))
    terms = terms_of(300, model="linear", outputs=2, figures="end", epochs=2)
    found, scores = judged(x, y, terms)
    expected = ((scores - y[terms.split[1]]) ** 2).mean(axis=0)
    np.testing.assert_allclose([values["loss"] for values in found.outputs], expected, rtol=0.001, atol=1e-4)


def test_what_is_opened_and_to_whom():
    x, y = people(300, 4)
    terms, recorders = terms_of(300, epochs=2, figures="epoch", held_out=0.5), {}
    judged(x, y, terms, recorders)
    seen = recorders["bank"]["shop"].seen
    assert [m.stage for m in seen if isinstance(m, Revealed)] == [RANKS, COUNTS, LOSS] * 2 + [WEIGHTS]
    told = recorders["shop"]["bank"].seen
    assert [m.stage for m in told if isinstance(m, Revealed)] == [WEIGHTS]
    assert [type(m) for m in told if isinstance(m, Groups | Verdict)] == [Groups, Verdict] * 2
    assert not [m for m in seen if isinstance(m, Groups | Verdict)]


def test_too_few_rows_of_a_class_are_refused():
    x, y = people(300, 4)
    y[:] = 0
    y[:5] = 1
    with pytest.raises(ValueError, match="figures of fewer than"):
        run(x, y, terms_of(300, figures="end"))
