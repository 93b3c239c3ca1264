from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tacit import partition
from tacit.kinds.horizontal.settings import Training
from tacit.kinds.horizontal.task import FitWork
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.tasks.softmax import SoftmaxTask


def work(**keys) -> FitWork:
    return FitWork(0, Training(**keys), (1,))


@pytest.mark.parametrize("clients", [1, 7, 100])
def test_partitions_hold_every_sample_once(clients):
    labels = np.random.default_rng(1).integers(0, 10, 500)
    for parts in (
        partition.iid(500, clients, np.random.default_rng(2)),
        partition.dirichlet(labels, clients, 0.3, np.random.default_rng(2)),
    ):
        assert len(parts) == clients
        assert sorted(np.concatenate(parts).tolist()) == list(range(500))
        assert min(len(part) for part in parts) >= 1


def test_a_small_alpha_gives_each_client_few_labels():
    labels = np.repeat(np.arange(10), 100)
    skewed = partition.dirichlet(labels, 10, 0.05, np.random.default_rng(1))
    even = partition.dirichlet(labels, 10, 100.0, np.random.default_rng(1))
    share = lambda parts: np.mean([np.bincount(labels[p], minlength=10).max() / len(p) for p in parts])  # noqa: E731
    assert share(skewed) > 0.5 > 0.2 > share(even)


def test_too_many_clients_or_a_bad_alpha_are_refused():
    with pytest.raises(ValueError, match="11 clients cannot share 10 samples"):
        partition.iid(10, 11, np.random.default_rng(1))
    with pytest.raises(ValueError, match="alpha must be"):
        partition.dirichlet(np.zeros(10, int), 2, 0.0, np.random.default_rng(1))


def test_softmax_training_finds_what_scikit_learn_finds():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 4)).astype(np.float32)
    y = (x @ rng.normal(size=(4, 3))).argmax(axis=1)
    task = SoftmaxTask([(x, y)], (x, y), classes=3)
    fitted = task.fit(0, task.model(), work(epochs=60, batch=64, learning_rate=1.0))
    ours = task.evaluate(fitted.model)["accuracy"]
    theirs = LogisticRegression(C=100).fit(x, y).score(x, y)
    assert ours > theirs - 0.02
    assert fitted.samples == 600
    assert fitted.loss < 0.3


def test_one_full_batch_step_is_the_gradient():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(5, 2)).astype(np.float32)
    y = np.array([0, 1, 1, 0, 1])
    task = SoftmaxTask([(x, y)], (x, y), classes=2)
    moved = task.fit(0, task.model(), work(epochs=1, batch=5, learning_rate=1.0)).model

    def loss(weights):
        scores = x @ weights
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(5), y]))

    for place in np.ndindex(2, 2):
        step = np.zeros((2, 2))
        step[place] = 1e-4
        slope = (loss(step) - loss(-step)) / 2e-4
        assert moved["weights"][place] == pytest.approx(-slope, abs=1e-4)


@pytest.mark.parametrize("split", ["iid", "dirichlet"])
def test_digits(split):
    task: Any = tasks.make("digits", 20, 0, {"split": split})
    model = task.model()
    assert task.evaluate(model)["accuracy"] < 0.2
    fitted = task.fit(3, model, work())
    assert set(fitted.model) == {"weights", "bias"}
    again = tasks.make("digits", 20, 0, {"split": split}).fit(3, model, work())
    assert (again.model["weights"] == fitted.model["weights"]).all()


def test_mnist_by_writer(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "mnist.npz"
    images, labels = rng.integers(0, 256, (40, 4, 4), dtype=np.uint8), rng.integers(0, 10, 40, dtype=np.uint8)
    np.savez(path, x=images, y=labels, writer=np.repeat(np.arange(8), 5), x_test=images, y_test=labels)
    natural = tasks.make("mnist_by_writer", 6, 0, {"path": str(path)})
    assert natural.fit(0, natural.model(), work()).samples == 5
    even = tasks.make("mnist_by_writer", 20, 0, {"path": str(path), "split": "iid"})
    assert even.fit(0, even.model(), work()).samples == 2
    with pytest.raises(ValueError, match="9 clients, but the file has 8 writers"):
        tasks.make("mnist_by_writer", 9, 0, {"path": str(path)})
    with pytest.raises(ValueError, match="there is no file"):
        tasks.make("mnist_by_writer", 9, 0, {"path": str(tmp_path / "none.npz")})
    np.savez(path, x=images)
    with pytest.raises(ValueError, match="lacks the arrays y, writer"):
        tasks.make("mnist_by_writer", 2, 0, {"path": str(path)})


def test_a_users_own_task(monkeypatch):
    module: Any = ModuleType("mine")
    made = SimpleNamespace(model=lambda: {}, fit=lambda client, model, work: None)
    module.make_task = lambda clients, seed, size=1: SimpleNamespace(**vars(made), given=(clients, seed, size))
    module.make_nothing = lambda clients, seed: None
    monkeypatch.setitem(sys.modules, "mine", module)
    own: Any = tasks.make("mine:make_task", 3, 4, {"size": 5})
    assert own.given == (3, 4, 5)
    for name, options, words in (
        ("mine:other", {}, "has no function other"),
        ("mine:make_nothing", {}, "made a NoneType, which has no method model"),
        ("nowhere.at_all:make", {}, "which is not installed"),
        ("letters", {}, "not known: take one of digits, digits_unsupervised, mnist_by_writer"),
        ("mine:make_task", {"colour": 1}, "does not take these task_options"),
        ("digits", {"split": "odd"}, "iid or dirichlet, got 'odd'"),
        ("digits", {"network": "odd"}, "softmax or mlp, got 'odd'"),
    ):
        with pytest.raises(ValueError, match=words):
            tasks.make(name, 3, 4, options)


def test_the_torch_network_learns_like_any_task():
    task: Any = tasks.make("digits", 4, 0, {"network": "mlp"})
    model = task.model()
    assert set(model) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    fitted = task.fit(0, model, work(epochs=20, batch=16, learning_rate=0.5))
    assert task.evaluate(fitted.model)["accuracy"] > 0.85
    held = task.fit(0, model, work(epochs=20, batch=16, learning_rate=0.5, proximal_mu=1.0))
    moved = lambda other: sum(float(np.square(other.model[n] - model[n]).sum()) for n in model)  # noqa: E731
    assert moved(held) < 0.7 * moved(fitted)
    again = tasks.make("digits", 4, 0, {"network": "mlp"}).model()
    assert all((again[name] == model[name]).all() for name in model)
