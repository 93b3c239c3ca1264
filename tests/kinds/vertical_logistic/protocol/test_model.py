"""Scaling is that of scikit-learn; a row's score is its own; a part of a model comes back from its file."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from tacit.kinds.vertical_logistic.protocol.model import Model, Saved, Scaler, Target, TrainingState


def test_scaling_is_that_of_scikit_learn():
    x, _ = load_breast_cancer(return_X_y=True)
    x = np.hstack([x, np.full((len(x), 1), 0.1)])
    np.testing.assert_allclose(Scaler.fit(x).apply(x)[:, :-1], scale(x[:, :-1]), atol=1e-9)
    assert not Scaler.fit(x).apply(x)[:, -1].any()


@pytest.mark.parametrize("unit", [1e-100, 1e-14, 1e14, 1e300])
def test_a_column_in_any_unit_is_standardised_alike(unit):
    x = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_allclose(Scaler.fit(x * unit).apply(x * unit), scale(x), atol=1e-9)
    constant = np.full((50, 1), 0.1 * unit)
    assert not Scaler.fit(constant).apply(constant).any()


def model_of(rng: np.random.Generator, columns: int, outputs: int, **given) -> Model:
    scaler = Scaler(rng.normal(size=columns), rng.normal(size=columns))
    return Model(rng.normal(size=(columns, outputs)), scaler, bytes(16), rng.normal(size=outputs), **given)


@given(
    seed=st.integers(0, 2**32),
    columns=st.sampled_from([0, 1, 2, 3, 7, 8, 9, 30, 127, 128, 129, 300]),
    outputs=st.sampled_from([1, 3, 8]),
    order=st.sampled_from("CF"),
    row=st.integers(0, 999),
)
def test_the_score_of_a_row_is_the_same_alone_and_among_others_to_the_last_bit(seed, columns, outputs, order, row):
    rng = np.random.default_rng(seed)
    model = model_of(rng, columns, outputs)
    x = np.asarray(rng.normal(size=(1000, columns)), order=order)
    among = model.score(x)
    assert among.shape == (1000, outputs)
    assert np.array_equal(among[row], model.score(x[row : row + 1])[0])
    assert np.array_equal(among[row:], model.score(x[row:]))
    expected = (x - model.scaler.mean) * model.scaler.factor @ model.weights + model.intercept
    np.testing.assert_allclose(among, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("outputs", "given"),
    [
        (1, {}),
        (1, {"classes": ("no", "yes é")}),
        (3, {"classes": ("a", "b", "c")}),
        (1, {"target": Target(-1.25, 1 / 3)}),
    ],
)
def test_a_part_of_a_model_comes_back_from_its_file(outputs, given):
    model = model_of(np.random.default_rng(0), 4, outputs, **given)
    state = model.state()
    assert all(isinstance(value, np.ndarray) for value in state.values())
    back = Model.restore(state)
    assert (back.classes, back.target, back.session) == (model.classes, model.target, model.session)
    for name in ("weights", "intercept"):
        assert np.array_equal(getattr(back, name), getattr(model, name))


@pytest.mark.parametrize(
    "damage",
    [
        {"weights": np.zeros(4)},
        {"weights": np.zeros((4, 0)), "intercept": np.zeros(0)},
        {"intercept": np.zeros(2)},
        {"mean": np.zeros(3)},
        {"classes": np.frombuffer(b'["a"]', dtype=np.uint8)},
        {"classes": np.frombuffer(b'["a", 7]', dtype=np.uint8)},
        {"classes": np.frombuffer(b"\xff", dtype=np.uint8)},
        {"classes": np.frombuffer(b"[" * 100_000, dtype=np.uint8)},
        {"weights": np.full((4, 1), np.nan)},
        {"factor": np.full(4, np.inf)},
        {"target": np.array([1.0])},
        {"target": np.array([1.0, np.nan])},
    ],
)
def test_a_damaged_file_is_refused(damage):
    state = model_of(np.random.default_rng(0), 4, 1).state()
    with pytest.raises(ValueError, match="damaged"):
        Model.restore(state | damage)


def test_the_scale_of_a_number_leaves_it_within_one_half():
    labels = np.array([3.0, 7.0, 100.0, -2.0])
    target = Target.fit(labels)
    scaled = target.scaled(labels)
    assert np.abs(scaled).max() == pytest.approx(0.5)
    assert scaled.mean() == pytest.approx(0)
    np.testing.assert_allclose(target.original(scaled), labels)
    assert Target.fit(np.full(30, 1.01)) == Target(1.01, 1.0)
    with pytest.raises(ValueError, match="another unit"):
        Target.fit(np.array([-1e308, 1e308]))


def test_scores_of_the_best_epoch_are_kept():
    state = TrainingState.start(2, 3)
    first, second = np.full((4, 3), 1.0), np.full((4, 3), 2.0)
    state = state.next(np.ones((2, 3)), np.ones(3), best=True, last=False, loss=0.5, scores=first)
    state = state.next(np.zeros((2, 3)), np.zeros(3), best=False, last=True, loss=0.6, scores=second)
    back = TrainingState.restore(state.state())
    assert np.array_equal(back.best_scores, first)
    assert np.array_equal(back.best_weights, np.ones((2, 3)))
    with pytest.raises(ValueError, match="start all parties anew"):
        TrainingState.restore(state.state() | {"weights": np.zeros(2)})


def test_what_is_saved_comes_back():
    saved = Saved.start(bytes(16), Scaler.identity(2), 3, ("a", "b", "c"))
    back = Saved.restore(saved.state())
    assert (back.classes, back.target, back.outputs) == (("a", "b", "c"), None, 3)
    number = Saved.restore(Saved.start(bytes(16), Scaler.identity(2), 1, (), Target(1.0, 0.1)).state())
    assert number.target == Target(1.0, 0.1)
    assert number.best.target == Target(1.0, 0.1)


@pytest.mark.parametrize("name", ["weights", "intercept", "mean", "factor", "session"])
def test_a_file_without_a_part_of_the_model_is_refused(name):
    state = model_of(np.random.default_rng(0), 4, 1).state()
    del state[name]
    with pytest.raises(ValueError, match=f"the stored model has no {name}: the file is damaged"):
        Model.restore(state)
