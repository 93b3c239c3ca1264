"""Gradient inversion, against gradients whose records are known."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.audit.attacks.inversion import (
    Layer,
    Search,
    dlg,
    fit_one_record,
    imprinted,
    infer_label,
    infer_labels,
    invert_imprint,
    invert_linear,
    layers_of,
)
from tacit.kinds.horizontal.settings import Training
from tacit.kinds.horizontal.task import FitWork
from tacit.kinds.horizontal.tasks.softmax import SoftmaxTask

RATE = 0.1


def digits(count, seed=0):
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    chosen = np.random.default_rng(seed).choice(len(y), count, replace=False)
    return (x[chosen] / 16).astype(np.float32), y[chosen].astype(np.int64)


def step(task, model=None):
    """The gradient of one step of client 0, as its update shows it."""
    model = model or task.model()
    batch = len(task._parts[0][1])
    fitted = task.fit(0, model, FitWork(0, Training(epochs=1, batch=batch, learning_rate=RATE), (0,))).model
    return {name: (model[name].astype(float) - fitted[name]) / RATE for name in model}


def mlp(count, hidden=32, seed=0):
    pytest.importorskip("torch")
    from tacit.kinds.horizontal.tasks.mlp import MlpTask

    data = digits(count, seed)
    return MlpTask([data], digits(200, seed + 1), 10, seed, hidden), data


def nearest(originals, candidates):
    return np.square(originals[:, None] - candidates[None]).mean(axis=2).min(axis=1)


def test_softmax_regression_gives_its_record_away_without_torch():
    x, y = digits(1)
    gradient = layers_of(step(SoftmaxTask([(x, y)], (x, y), 10)))[0]
    assert invert_linear(gradient) == pytest.approx(np.tile(x, (10, 1)), abs=1e-4)
    assert infer_label(gradient) == y[0]
    assert fit_one_record(gradient) == pytest.approx(x, abs=1e-4)


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_the_closed_form_takes_no_notice_of_clipping(scale):
    task, (x, y) = mlp(1)
    layers = layers_of({name: scale * array for name, array in step(task).items()})
    assert nearest(x, invert_linear(layers[0])) < 1e-4
    assert infer_label(layers[-1]) == y[0]


def test_all_neurons_together_see_through_more_noise_than_each_alone():
    task, (x, _) = mlp(1, hidden=256)
    clear = layers_of(step(task))[0]
    rng = np.random.default_rng(0)
    noise = 0.3 * np.abs(clear.weights).mean()
    noisy = Layer(*(array + rng.normal(0, noise, array.shape) for array in (clear.weights, clear.bias)))
    together = float(nearest(x, fit_one_record(noisy))[0])
    assert together < 0.01
    assert together < float(nearest(x, invert_linear(noisy))[0])


def test_a_gradient_of_nothing_tells_nothing():
    nothing = Layer(np.zeros((5, 64)), np.zeros(5))
    for found in (invert_linear(nothing), invert_imprint(nothing), fit_one_record(nothing)):
        assert np.isfinite(found).all()
    assert (invert_linear(nothing) == 0.5).all()


def test_several_records_are_inverted_where_one_alone_moves_a_neuron():
    task, (x, _) = mlp(10, hidden=256)
    assert (nearest(x, invert_linear(layers_of(step(task))[0])) < 0.01).mean() >= 0.8


def test_a_planted_model_parts_many_records():
    task, (x, _) = mlp(40, hidden=512)
    planted = imprinted(task.model(), digits(200, 5)[0].astype(float))
    found = nearest(x, invert_imprint(layers_of(step(task, planted))[0]))
    honest = nearest(x, invert_linear(layers_of(step(task))[0]))
    assert (found < 0.01).mean() >= 0.7
    assert (found < 0.01).mean() > (honest < 0.01).mean()


@pytest.mark.parametrize("distance", ["squared", "cosine"])
def test_dlg_finds_the_record(distance):
    task, (x, y) = mlp(1)
    found = dlg(task.model(), step(task), [int(y[0])], distance=distance, search=Search(iterations=100))
    assert nearest(x, found) < 1e-3


def test_clipping_defeats_plain_dlg_and_not_the_one_that_compares_directions():
    """The trap: a test of clipping by plain DLG takes it for a protection."""
    task, (x, y) = mlp(1)
    clipped = {name: 0.01 * array for name, array in step(task).items()}
    found = {
        distance: float(
            nearest(x, dlg(task.model(), clipped, [int(y[0])], distance=distance, search=Search(iterations=150)))[0]
        )
        for distance in ("squared", "cosine")
    }
    assert found["squared"] > 0.05
    assert found["cosine"] < 1e-2


def test_labels_of_a_batch():
    task, (_, y) = mlp(4, seed=1)
    assert infer_labels(layers_of(step(task))[-1], 4) == sorted(y.tolist())


def test_dlg_finds_the_records_of_a_batch():
    task, (x, y) = mlp(2)
    found = dlg(task.model(), step(task), sorted(y.tolist()), distance="cosine", search=Search(100, 1))
    assert (nearest(x, found) < 1e-2).all()
