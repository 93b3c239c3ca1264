"""Clustering without labels: its gradient, and that a federation's loss and score tell the same story."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.metrics import silhouette_score

from tacit.kinds.horizontal.settings import Training
from tacit.kinds.horizontal.task import Evaluates, FitWork, Infers
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.tasks.clustering import Clustering, ClusteringTask, gradient, probabilities
from tacit.runs.load import load

EXAMPLE: Any = load(Path(__file__).parents[4] / "examples" / "digits_unsupervised.yaml")


def work(seed: int = 1, **keys) -> FitWork:
    return FitWork(0, Training(**keys), (seed,))


def small(rng, *, classes=3, features=4, hidden=5):
    shapes = {
        "weights1": (features, hidden),
        "bias1": (hidden,),
        "weights2": (hidden, classes),
        "bias2": (classes,),
        "centres": (classes, features),
        "mean": (features,),
    }
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}, rng.normal(size=(7, features))


def plain_loss(model, x, options):
    """The loss as the docstring says it, sample by sample."""
    p = probabilities(model, x)
    rebuilt = [np.sum((x[i] - p[i] @ model["centres"] - model["mean"]) ** 2) for i in range(len(x))]
    doubts = [-sum(q * np.log(q) for q in row) for row in p]
    shares = p.mean(axis=0)
    divergence = sum(share * np.log(share * options.classes) for share in shares)
    return np.mean(rebuilt) + options.doubt * np.mean(doubts) + options.balance * divergence


@pytest.mark.parametrize(("doubt", "balance"), [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 4.0)])
def test_the_gradient_is_the_slope_of_the_loss(doubt, balance):
    options = Clustering(3, 5, doubt, balance)
    model, x = small(np.random.default_rng(2))
    loss, slopes = gradient(model, x, options)
    assert loss == pytest.approx(plain_loss(model, x, options), rel=1e-12)
    assert slopes.keys() == model.keys()
    for name, array in model.items():
        for place in np.ndindex(array.shape):
            step = np.zeros_like(array)
            step[place] = 1e-6
            up = plain_loss({**model, name: array + step}, x, options)
            down = plain_loss({**model, name: array - step}, x, options)
            assert slopes[name][place] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-7), (name, place)


def test_one_full_batch_step_follows_the_gradient_and_the_pull():
    rng = np.random.default_rng(3)
    model, x = small(rng)
    task = ClusteringTask([x], (x, np.zeros(7, np.int64)), 0, Clustering(3, 5))
    once = task.fit(0, model, work(batch=7, learning_rate=0.5))
    loss, slopes = gradient(model, x, Clustering(3, 5))
    assert once.loss == pytest.approx(loss)
    for name in model:
        np.testing.assert_allclose(once.model[name], model[name] - 0.5 * slopes[name])
    free = task.fit(0, model, work(batch=7, learning_rate=0.05, epochs=30))
    held = task.fit(0, model, work(batch=7, learning_rate=0.05, epochs=30, proximal_mu=5.0))
    moved = lambda other: sum(float(np.square(other.model[n] - model[n]).sum()) for n in model)  # noqa: E731
    assert moved(held) < 0.5 * moved(free)


@pytest.mark.parametrize("split", ["iid", "dirichlet"])
def test_the_same_seed_trains_the_same_model(split):
    first, second = (tasks.make("digits_unsupervised", 20, 5, {"split": split}) for _ in range(2))
    model = first.model()
    before = {name: array.copy() for name, array in model.items()}
    fitted, again = first.fit(3, model, work(epochs=3)), second.fit(3, second.model(), work(epochs=3))
    assert all(array.dtype == np.float32 for array in (*model.values(), *fitted.model.values()))
    for name in model:
        np.testing.assert_array_equal(model[name], before[name])  # the received model is not trained in place
        np.testing.assert_array_equal(fitted.model[name], again.model[name])
    assert (tasks.make("digits_unsupervised", 20, 6, {}).model()["weights1"] != model["weights1"]).any()


def test_labels_are_not_trained_on(monkeypatch):
    """The same images with other labels give the same client."""
    images, labels = load_digits(return_X_y=True)
    trained = []
    for given in (labels, labels[::-1]):
        monkeypatch.setattr("sklearn.datasets.load_digits", lambda return_X_y, given=given: (images, given))
        task = tasks.make("digits_unsupervised", 10, 0, {})
        trained.append(task.fit(0, task.model(), work()).model)
    for name in trained[0]:
        np.testing.assert_array_equal(trained[0][name], trained[1][name])


def test_it_shares_its_images_with_the_task_that_has_labels():
    labelled: Any = tasks.make("digits", 30, 4, {})
    unlabelled: Any = tasks.make("digits_unsupervised", 30, 4, {})
    for client in (0, 29):
        np.testing.assert_array_equal(unlabelled._parts[client], labelled._parts[client][0])
    np.testing.assert_array_equal(unlabelled._test[0], labelled._test[0])


def test_inference_results_are_points_of_the_simplex():
    task = tasks.make("digits_unsupervised", 100, 0, {"classes": 7})
    assert isinstance(task, Infers)
    assert isinstance(task, Evaluates)
    assert task.classes == 7
    extreme = {name: 1000 * array for name, array in task.model().items()}
    for model in (task.model(), extreme):
        rows = task.infer(2, model, 8)
        assert rows.shape == (8, 7)
        assert (rows >= 0).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-6)
    assert len(task.infer(2, task.model(), 1000)) == task.fit(2, task.model(), work()).samples < 20
    assert np.isfinite(task.fit(2, extreme, work(learning_rate=1e-6)).loss)


def test_purity_counts_the_most_frequent_label_of_each_class():
    x = np.eye(4, dtype=np.float32)[[0, 0, 0, 1, 1, 2]]
    y = np.array([5, 5, 3, 1, 1, 0])
    task = ClusteringTask([x], (x, y), 0, Clustering(4, 4))
    model = {**task.model(), "weights1": np.eye(4), "weights2": 9 * np.eye(4), "bias2": np.zeros(4)}
    assert task.evaluate(model)["purity"] == pytest.approx(5 / 6)


@pytest.mark.parametrize("options", [{"classes": 1}, {"hidden": 0}, {"doubt": -1.0}, {"balance": float("nan")}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        tasks.make("digits_unsupervised", 5, 0, options)
    with pytest.raises(ValueError, match="iid or dirichlet, got 'odd'"):
        tasks.make("digits_unsupervised", 5, 0, {"split": "odd"})


def test_the_score_rises_as_the_loss_falls():
    """The example's federation, a quarter of its rounds: plain FedAvg, scored as a coordinator scores it."""
    task: Any = tasks.make(EXAMPLE.task, EXAMPLE.clients, EXAMPLE.seed, EXAMPLE.task_options)
    awaited, vectors = EXAMPLE.unsupervised.cluster_client_num, EXAMPLE.unsupervised.vectors
    noise = np.random.default_rng(1)
    model, losses, scores = task.model(), [], []
    for number in range(EXAMPLE.rounds // 4):
        inferred = np.concatenate([task.infer(client, model, vectors) for client in range(awaited)])
        noisy = inferred + noise.laplace(scale=2 / 230260, size=inferred.shape)
        scores.append(silhouette_score(inferred, inferred.argmax(axis=1)))
        assert silhouette_score(noisy, noisy.argmax(axis=1)) == pytest.approx(scores[-1], rel=0.02)
        assert len(set(inferred.argmax(axis=1))) >= 6
        fitted = [task.fit(c, model, FitWork(number, EXAMPLE.train, (0, number, c))) for c in range(EXAMPLE.clients)]
        samples = [each.samples for each in fitted]
        model = {name: np.average([f.model[name] for f in fitted], axis=0, weights=samples) for name in model}
        losses.append(task.evaluate(model)["loss"])
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.7 * losses[0]
    assert scores[-1] > 2 * scores[0] > 0
    assert spearmanr(losses, scores).statistic < -0.8
