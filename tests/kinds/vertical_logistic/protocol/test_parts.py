"""Settings, batches, figures, encodings and masks, each on its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss, roc_auc_score, roc_curve

from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol import batches, encoding, masks, metrics
from tacit.kinds.vertical_logistic.protocol.model import Scaler
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.tasks import cancer
from tests.kinds.vertical_logistic.parties import deal

PARTIES = {"bank": {"role": "active"}, "shop": {"role": "passive"}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parties": {"a": {"role": "passive"}}}, "0 of them are active"),
        ({"parties": {"a": {"role": "active"}, "b": {"role": "active"}}}, "2 of them are active"),
        ({"parties": {"a": {"role": "active"}}}, "no passive one"),
        ({"protocol": "shared"}, "not part of this release"),
        ({"data": {"post": {"path": "x.csv"}}}, "none of the parties"),
        ({"data": {"shop": {"path": "x.csv", "label": "y"}}}, "passive and has no label"),
        ({"data": {"bank": {"path": "x.csv"}}, "task": "cancer"}, "both given"),
        ({"task_options": {"overlap": 1}}, "without a task"),
        ({"train": {"epochs": 30}, "checks": {"row_uses": 20}}, "lower the first or raise the last"),
        ({"train": {"schedule": "step", "decay": 2.0}}, "at most 1"),
        ({"train": {"batch": 1}}, "greater than or equal to 2"),
        ({"train": {"epoch": 1}}, "Extra inputs"),
        ({"paillier": {"bits": 1000}}, "512, 1024, 2048"),
        ({"parties": {"bank": {"role": "active", "address": "nowhere"}, "shop": {"role": "passive"}}}, "HOST:PORT"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_words(changes, words):
    with pytest.raises(ValidationError, match=words):
        Settings.model_validate({"parties": PARTIES} | changes)


def test_the_file_of_the_design():
    settings = Settings.model_validate(
        {
            "kind": "vertical_logistic",
            "protocol": "masked",
            "parties": {
                "bank": {"role": "active", "address": "bank.example:8443"},
                "shop": {"role": "passive", "address": "shop.example:8443"},
            },
            "data": {"bank": {"path": "bank.csv", "id": "id", "label": "y"}, "shop": {"path": "shop.csv", "id": "id"}},
            "align": True,
            "train": {"epochs": 20, "batch": 512, "learning_rate": 0.1, "l2": 0.001, "batch_order": "epoch"},
            "paillier": {"bits": 3072, "workers": 2},
        }
    )
    assert settings.active == "bank"
    assert settings.passives == ("shop",)
    assert settings.notes() == ["one passive: bank sees the score w·x of shop for every row, in every epoch"]


@given(rows=st.integers(2, 400), batch=st.integers(2, 100), epoch=st.integers(0, 1))
@pytest.mark.parametrize("order", ["epoch", "permuted", "hashed"])
def test_every_row_is_in_one_batch_of_an_epoch(order, rows, batch, epoch):
    settings = deal(train={"batch": batch, "batch_order": order})
    found = batches.schedule(rows, settings).batches(epoch)
    assert sorted(np.concatenate(found).tolist()) == list(range(rows))
    as_even = np.array_split(batches.order(rows, batches.epoch_seed(epoch, settings)), len(found))
    assert [part.tolist() for part in found] == [part.tolist() for part in as_even]
    sizes = {len(part) for part in found}
    assert max(sizes) == batches.largest(rows, batch) <= batch
    assert min(sizes) == batches.smallest(rows, batch) >= max(sizes) - 1


def test_orders_differ_from_epoch_to_epoch_and_from_one_another():
    seeds = {}
    for order in ("epoch", "permuted", "hashed"):
        settings = deal(seed=3, train={"epochs": 50, "batch_order": order})
        seeds[order] = [batches.epoch_seed(epoch, settings) for epoch in range(50)]
        assert len(set(seeds[order])) == 50
    assert seeds["epoch"] == list(range(50))
    assert sorted(seeds["permuted"]) == list(range(50))
    assert seeds["permuted"] != seeds["epoch"]
    other = deal(seed=4, train={"epochs": 50, "batch_order": "hashed"})
    assert batches.epoch_seed(0, other) != seeds["hashed"][0]


def test_orders_are_the_same_for_ever():
    """Parties with different releases must agree: another order is another protocol."""
    assert batches.order(8, 0).tolist() == [2, 1, 6, 4, 7, 5, 3, 0]
    assert batches.hold_out(10, 0.3, 7)[1].tolist() == [1, 2, 9]


@given(rows=st.integers(2, 300), fraction=st.floats(0, 0.99), seed=st.integers(0, 5))
def test_rows_are_held_out_or_trained_on(rows, fraction, seed):
    training, held_out = batches.hold_out(rows, fraction, seed)
    assert sorted([*training, *held_out]) == list(range(rows))
    assert len(training) >= 1
    assert (len(held_out) >= 1) == (fraction > 0)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=60))
def test_figures_are_those_of_scikit_learn(rows):
    scores = np.array([score for score, _ in rows], dtype=float)
    labels = np.array([label for _, label in rows], dtype=float)
    found = metrics.measure(scores, labels)
    assert found["loss"] == pytest.approx(log_loss(labels, 1 / (1 + np.exp(-scores)), labels=[0, 1]))
    assert found["accuracy"] == np.mean((scores > 0) == labels)
    if 0 < labels.sum() < len(labels):
        false, true, _ = roc_curve(labels, scores)
        assert found["auc"] == pytest.approx(roc_auc_score(labels, scores))
        assert found["ks"] == pytest.approx(np.max(np.abs(true - false)))
    else:
        assert "auc" not in found


def test_extreme_scores_have_a_probability():
    assert metrics.sigmoid(np.array([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]


@given(st.integers(0, 2**32), st.integers(-140, 140))
def test_columns_keep_six_digits_in_any_unit(seed, power):
    features = np.random.default_rng(seed).normal(size=(7, 3)) * 10.0**power
    columns = encoding.Columns.encode(features)
    assert np.abs(columns.integers).max() <= 2**encoding.FEATURE_BITS
    np.testing.assert_allclose(columns.values, features, atol=np.abs(features).max() * 2.0**-encoding.FEATURE_BITS)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_a_gradient_of_honest_residues_fits_its_slot(seed, rows):
    rng = np.random.default_rng(seed)
    columns = encoding.Columns.encode(rng.normal(size=(rows, 2)))
    residues = encoding.encode_residues(rng.choice([-1.0, 1.0], rows))
    integers = [int(value) for value in columns.integers.T.astype(object) @ residues.astype(object)]
    assert max(map(abs, integers)) < 2 ** (encoding.slot_bits(rows) - 2)
    np.testing.assert_allclose(columns.gradient(integers), columns.values.T @ (residues / 2**24), atol=1e-9)


@given(st.integers(0, 2**32), st.integers(2, 5))
def test_masks_of_all_passives_cancel_and_none_comes_twice(seed, parties):
    rng = np.random.default_rng(seed)
    shared = {pair: rng.bytes(16) for pair in [(i, j) for j in range(parties) for i in range(j)]}
    hidden = [
        masks.Hidden(tuple((key, 1 if i == me else -1) for (i, j), key in shared.items() if me in (i, j)), parties)
        for me in range(parties)
    ]
    scores = rng.normal(size=(2, parties, 6)) * 100
    words = [{str(me): hidden[me].hide(scores[step, me]) for me in range(parties)} for step in range(2)]
    for step in range(2):
        total = masks.decoded(masks.total(words[step], 6), list(words[step]))
        np.testing.assert_allclose(total, scores[step].sum(axis=0), atol=1e-8)
    mixed = words[0] | {"0": words[1]["0"]}
    with pytest.raises(PeerError, match="masks do not cancel"):
        masks.decoded(masks.total(mixed, 6), list(mixed))


def test_scaling_is_that_of_scikit_learn():
    x, _ = load_breast_cancer(return_X_y=True)
    x = np.hstack([x, np.full((len(x), 1), 0.1)])
    from sklearn.preprocessing import scale

    np.testing.assert_allclose(Scaler.fit(x).apply(x)[:, :-1], scale(x[:, :-1]), atol=1e-9)
    assert not Scaler.fit(x).apply(x)[:, -1].any()


def test_cancer_is_dealt_out_by_columns():
    parts = cancer.make_parts(["shop", "bank", "post"], "bank", 3, overlap=0.9)
    assert [part.features.shape for part in parts.values()] == [(512, 10)] * 3
    assert parts["bank"].labels is not None
    assert parts["shop"].labels is None
    assert parts["bank"].columns[0] == "mean_radius"
    assert parts["shop"].ids != parts["post"].ids
    same = cancer.make_parts(["bank", "shop"], "bank", 3, align=False)
    assert same["bank"].ids == same["shop"].ids
    x, y = load_breast_cancer(return_X_y=True)
    np.testing.assert_array_equal(np.hstack([same["bank"].features, same["shop"].features]), x)
    np.testing.assert_array_equal(same["bank"].labels, y)
    with pytest.raises(ValueError, match="overlap"):
        cancer.make_parts(["bank", "shop"], "bank", 0, align=False, overlap=0.5)
    with pytest.raises(ValueError, match="2 to 30 parties"):
        cancer.make_parts(["bank", "shop"], "post", 0)
