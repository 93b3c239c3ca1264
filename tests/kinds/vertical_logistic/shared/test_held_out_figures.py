"""Figures on shares are those of the scores; nothing but the declared counts is opened."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol import metrics
from tacit.kinds.vertical_logistic.shared import deals, held_out_figures, histogram
from tacit.kinds.vertical_logistic.shared.messages import Groups, Revealed
from tacit.kinds.vertical_logistic.shared.training import SharedContext
from tests.kinds.vertical_logistic.shared.trainings import people, plain, run, terms_of


def _figures(x, y, terms, **options):
    told = []
    contexts = {terms.active: SharedContext(told=lambda position, figures: told.append((position, figures)))}
    run(x, y, terms, contexts=contexts, **options)
    return told


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_figures_are_those_of_the_held_out_scores(parties):
    x, y = people(6000, 8)
    terms = terms_of(parties, 6000, epochs=2, batch=512, held_out=0.5, figures="epoch", active="shop")
    told = _figures(x, y, terms)
    assert [position for position, _ in told] == [terms.schedule.steps, 2 * terms.schedule.steps]
    held_out = terms.split[1]
    for position, figures in told:
        weights, intercept = plain(x, y, terms, steps=position)
        scores, labels = x[held_out] @ weights[:, 0] + intercept[0], y[held_out]
        expected = metrics.measure(scores[:, None], labels.astype(int))
        (found,) = figures.outputs
        assert found["loss"] == pytest.approx(log_loss(labels, metrics.sigmoid(scores)), abs=2e-4)
        assert found["auc"] == pytest.approx(roc_auc_score(labels, scores), abs=0.002)
        assert found["ks"] == pytest.approx(expected["ks"], abs=0.02)
        assert found["accuracy"] == pytest.approx(expected["accuracy"], abs=0.01)


def test_groups_have_more_than_ten_rows():
    x, y = people(2000, 8)
    (_, figures), *_ = _figures(x, y, terms_of(2, 2000, held_out=0.5, figures="end"))
    (found,) = figures.histograms
    rows = found.negative + found.positive
    assert len(rows) > 20
    assert rows.min() > histogram.LEAST
    assert rows.sum() == 1000


def test_blocks_of_rows_make_one_histogram(monkeypatch):
    x, y = people(600, 4)
    terms = terms_of(3, 600, held_out=0.5, figures="end")
    monkeypatch.setattr(deals, "BLOCK_WORDS", 100 * 380)
    assert len(deals.held_out(terms)) == 3
    ((_, figures),) = _figures(x, y, terms)
    weights, intercept = plain(x, y, terms)
    scores = x[terms.split[1]] @ weights[:, 0] + intercept[0]
    assert figures.loss == pytest.approx(log_loss(y[terms.split[1]], metrics.sigmoid(scores)), abs=2e-4)


def test_several_classes_have_figures_each():
    x, _ = people(900, 6)
    y = np.eye(3)[np.argmax(x @ np.random.default_rng(1).normal(size=(6, 3)), axis=1)]
    terms = terms_of(2, 900, outputs=3, held_out=0.5, figures="end")
    ((_, figures),) = _figures(x, y, terms)
    weights, intercept = plain(x, y, terms)
    scores = x[terms.split[1]] @ weights + intercept
    for output in range(3):
        expected = metrics.measure(scores[:, output : output + 1], y[terms.split[1], output].astype(int))
        assert figures.outputs[output]["loss"] == pytest.approx(expected["loss"], abs=5e-4)
        assert figures.outputs[output]["auc"] == pytest.approx(expected["auc"], abs=0.01)


def test_a_linear_regression_has_a_mean_square():
    x, _ = people(400, 6)
    y = x @ np.random.default_rng(1).normal(size=(6, 2)) + np.random.default_rng(2).normal(size=(400, 2))
    terms = terms_of(3, 400, model="linear", outputs=2, rate=0.1, figures="end")
    ((_, figures),) = _figures(x, y, terms)
    weights, intercept = plain(x, y, terms)
    labels = y[terms.split[1]]
    squares = ((x[terms.split[1]] @ weights + intercept - labels) ** 2).mean(axis=0)
    for found, square, variance in zip(figures.outputs, squares, labels.var(axis=0), strict=True):
        assert found["loss"] == pytest.approx(square, abs=2e-3)
        assert found["r2"] == pytest.approx(1 - square / variance, abs=2e-3)


def test_only_the_active_receives_figures():
    x, y = people(400, 6)
    terms, recorders = terms_of(3, 400, figures="end"), {}
    run(x, y, terms, recorders=recorders)
    columns = 2 * 8
    for name in terms.parties:
        for other in terms.parties:
            if other == name:
                continue
            revealed = [len(m.words) for m in recorders[name][other].seen if isinstance(m, Revealed)]
            (groups,) = [list(m.ends).count(1) for m in recorders["shop"]["bank"].seen if isinstance(m, Groups)]
            ranks, counts, loss = 8 * terms.buckets, 2 * 4 * groups, 8
            own = columns + 8 if name == terms.active else columns
            assert revealed == ([ranks, counts, loss, own] if name == terms.active else [own])


def test_few_rows_of_a_class_have_no_figures():
    x, y = people(100, 4)
    y[:] = 0
    y[:20] = 1
    with pytest.raises(ValueError, match="tell of single rows"):
        run(x, y, terms_of(2, 100, figures="end"))


@pytest.mark.parametrize("ends", [b"\x01" * 256, b"\x00" * 256, b"\x01" * 255, b"\x02" * 256])
def test_groups_of_single_buckets_are_refused(ends):
    terms = terms_of(2, 400, figures="end")
    with pytest.raises(PeerError, match=r"groups"):
        held_out_figures.groups_of(Groups(7, ends), 7, terms)
