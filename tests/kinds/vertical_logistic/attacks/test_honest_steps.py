"""What attacks are given is what the protocol shows."""

import numpy as np
import pytest
from scipy.special import expit

from tacit.kinds.vertical_logistic.attacks.honest_steps import (
    Start,
    Tables,
    Training,
    secret_offsets,
    secret_weights,
    views,
)
from tacit.kinds.vertical_logistic.attacks.own_tables import Deal
from tacit.kinds.vertical_logistic.protocol import batches
from tests.kinds.vertical_logistic.parties import deal, key, people, shared_out


def test_scores_are_those_that_a_run_of_the_protocol_sends():
    settings = deal(1, train={"epochs": 4, "batch": 80, "learning_rate": 0.5, "l2": 0.01})
    x, y = people(80, 8, seed=2)
    parts = shared_out(x, settings)
    played = Deal(settings, parts, y, key()).play(settings)
    assert not played.errors
    tables = Tables(parts["shop0"], parts["bank"], y)
    seen = views(tables.columns, tables.others, y, Training(80, epochs=4, rate=0.5, l2=0.01))
    for epoch, (sent, view) in enumerate(zip(played.scores(), seen, strict=True)):
        order = batches.schedule(80, settings).batches(epoch)[0]
        assert sent[:, 0] == pytest.approx(view.own_scores[order], abs=1e-6)
    assert np.abs(seen[-1].own_scores).max() > 0.1


def test_every_row_is_in_one_batch_of_each_epoch():
    drawn = Training(30, epochs=3).batches(100)
    assert [len(rows) for rows in drawn] == [25] * 12
    for epoch in range(3):
        assert sorted(np.concatenate(drawn[4 * epoch : 4 * epoch + 4])) == list(range(100))


def test_gradients_are_sums_of_integers():
    """By plain integers, for a start that gives two residues."""
    x, y = people(40, 6, seed=1)
    tables = Tables(x[:, :4], x[:, 4:], y)
    seen = views(tables.columns, tables.others, y, Training(40), Start(np.zeros(2), 0.0))[0]
    integers = tables.columns.integers.tolist()
    expected = [
        sum(row[j] * (2**23 - 2**24 * int(label)) for row, label in zip(integers, y, strict=True)) for j in range(4)
    ]
    assert seen.gradient.tolist() == expected


def test_secret_weights_give_scores_of_the_spread_that_is_asked_for():
    others = np.random.default_rng(0).normal(size=(500, 4))
    start = secret_weights(others, 1.5, np.random.default_rng(1))
    assert (others @ start.weights).std() == pytest.approx(1.5)
    assert not secret_weights(np.zeros((10, 0)), 1.0, np.random.default_rng(1)).weights.size


def test_offsets_differ_by_row_and_are_added_in_every_step():
    """A row for each column, so that the gradient is the residues: by hand, with weights that stay at 0."""
    rng = np.random.default_rng(1)
    tables = Tables(np.eye(30), np.zeros((30, 1)), rng.integers(0, 2, 30), scale=False)
    start = secret_offsets(tables.others, 2.0, rng)
    assert len(set(start.offsets)) == 30
    assert 1.2 < start.offsets.std() < 2.8
    residues = expit(start.offsets) - tables.labels
    seen = views(tables.columns, tables.others, tables.labels, Training(30, epochs=2, rate=1e-9), start)
    for view in seen:
        assert tables.columns.gradient(view.gradient.tolist()) == pytest.approx(residues, abs=1e-6)
