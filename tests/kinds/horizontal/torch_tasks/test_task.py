from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from tacit.kinds.horizontal.messages import Update
from tacit.kinds.horizontal.task import Evaluates
from tacit.kinds.horizontal.torch_tasks.task import TorchTask
from tests.kinds.horizontal.federations import finished, run, settings_for
from tests.kinds.horizontal.torch_tasks.nets import cross_entropy, plain_net, records, same, task_of, work


def test_two_clients_with_whole_batches_are_gradient_descent_on_all_records():
    """Against plain numpy: least squares on the union, weighted by the number of samples."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 5)), rng.normal(size=30)
    parts = [slice(0, 11), slice(11, 30)]

    def squares(module, batch):
        return (module(batch[0])[:, 0] - batch[1]) ** 2

    task = TorchTask(lambda: nn.Linear(5, 1).double(), squares, lambda client: (x[parts[client]], y[parts[client]]))
    settings = settings_for(clients=2, rounds=7, train={"batch": 100, "learning_rate": 0.05, "epochs": 1})
    start = task.model()
    weights, bias = start["weight"][0].copy(), start["bias"][0]
    for _ in range(7):
        residue = x @ weights + bias - y
        weights, bias = weights - 0.05 * 2 * x.T @ residue / 30, bias - 0.05 * 2 * residue.mean()
    engine, _ = run(settings, task)
    np.testing.assert_allclose(engine.coordinator.model["weight"][0], weights, atol=1e-10, rtol=0)
    np.testing.assert_allclose(engine.coordinator.model["bias"][0], bias, atol=1e-10, rtol=0)


def test_the_seed_makes_the_module_and_every_party_the_same_one():
    torch.manual_seed(1)
    one = task_of(seed=5).model()
    torch.manual_seed(2)
    assert same(one, task_of(seed=5).model())
    assert not same(one, task_of(seed=6).model())


def test_training_does_not_depend_on_other_clients_of_the_process():
    alone, shared = task_of(local=["head"]), task_of(local=["head"])
    model = alone.model()
    expected = alone.fit(1, model, work())
    for client in (0, 2):
        shared.fit(client, model, work())
    found = shared.fit(1, model, work())
    assert same(found.model, expected.model)
    assert same(found.kept, expected.kept)


def test_batch_norm_statistics_stay_and_come_back():
    task = task_of()
    model = task.model()
    first = task.fit(0, model, work())
    assert set(first.kept) == {"bn1.running_mean", "bn1.running_var", "bn1.num_batches_tracked"}
    assert not any("running" in name or "tracked" in name for name in first.model)
    assert first.kept["bn1.num_batches_tracked"] == 6
    second = task.fit(0, first.model, work(kept=first.kept))
    assert second.kept["bn1.num_batches_tracked"] == 12


def test_constant_buffers_are_neither_sent_nor_kept():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 4)
            self.register_buffer("position_ids", torch.arange(6))
            self.register_buffer("scale", torch.ones(6), persistent=False)

        def forward(self, x):
            return self.linear(x[:, self.position_ids] * self.scale)

    task = task_of(model=Positions)
    fitted = task.fit(0, task.model(), work())
    assert set(fitted.model) == {"linear.weight", "linear.bias"}
    assert fitted.kept == {}


def test_local_parameters_are_not_in_the_model():
    task = task_of(local=["bn*", "head"])
    assert set(task.model()) == {"body.weight", "body.bias"}
    fitted = task.fit(0, task.model(), work())
    assert {"head.weight", "head.bias", "bn1.weight", "bn1.bias"} <= set(fitted.kept)
    again = task.fit(0, task.model(), work(kept=fitted.kept))
    assert not same(again.kept, fitted.kept)


def test_the_coordinator_judges_with_the_initial_local_values_in_eval_mode():
    task = task_of(local=["head"])
    model = task.model()
    before = task.evaluate(model)
    fitted = task.fit(0, model, work(epochs=20))
    assert task.evaluate(model) == before
    assert before["training"] == 0
    assert task.evaluate(fitted.model) == task_of(local=["head"]).evaluate(fitted.model)


def test_a_task_without_evaluate_judges_nothing():
    task = task_of(evaluate=None)
    assert not isinstance(task, Evaluates)
    _, kept = run(settings_for(clients=3, rounds=1), task)
    assert finished(kept)[0].metrics == {}


def test_the_file_gives_seed_clients_and_options():
    def dealt(client, clients):
        x, y = records(0, 40)
        return x[client::clients], y[client::clients]

    task = task_of(data=dealt)(clients=4, seed=9, local=["head"], optimizer="adam", optimizer_options={"eps": 1e-4})
    assert "head.weight" not in task.model()
    assert task.fit(3, task.model(), work()).samples == 10
    assert same(task.model(), task_of(seed=9, local="head").model())
    with pytest.raises(ValueError, match="task_options: locl is not known"):
        task_of()(clients=4, seed=9, locl=[])
    with pytest.raises(ValueError, match="needs the number of clients"):
        task_of(data=dealt).fit(0, task_of().model(), work())


def test_mistakes_are_told_in_a_sentence():
    with pytest.raises(ValueError, match="local must be a list of patterns"):
        task_of(local=[3])
    with pytest.raises(ValueError, match="device is 'gpu'"):
        task_of(device="gpu")
    with pytest.raises(TypeError, match="numbers, and 'a' is str"):
        task_of(evaluate=lambda module: {"a": "b"}).evaluate(task_of().model())
    with pytest.raises(TypeError, match="a dict of numbers, got float"):
        task_of(evaluate=lambda module: 0.5).evaluate(task_of().model())


def test_dict_batches_as_of_hugging_face_models():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 4)

        def forward(self, inputs, labels):
            return nn.functional.cross_entropy(self.linear(inputs), labels)

    def data(client):
        x, y = records(client)
        return [{"inputs": x[i], "labels": y[i]} for i in range(len(y))]

    task = TorchTask(Model, lambda module, batch: module(**batch), data)
    model = task.model()
    assert task.fit(0, model, work(epochs=5)).loss < task.fit(0, model, work(epochs=1)).loss


@pytest.mark.parametrize(
    "encrypt",
    [
        {"encrypt_type": "NOT_ENCRYPT"},
        {"encrypt_type": "DP_ENCRYPT", "dp_encrypt": {"dp_eps": 50.0}},
        {"encrypt_type": "PW_ENCRYPT"},
        {"encrypt_type": "DDP_ENCRYPT", "ddp_encrypt": {"ddp_eps": 8.0}},
    ],
    ids=lambda encrypt: encrypt["encrypt_type"],
)
def test_a_run_under_each_protection_sends_only_what_travels(encrypt):
    sent = []
    task = task_of(local=["bn*", "head"])
    engine, kept = run(
        settings_for(clients=4, rounds=2, encrypt=encrypt), task, lambda sender, message: sent.append(message)
    )
    assert len(finished(kept)) == 2
    assert engine.coordinator.layout.size == 6 * 8 + 8
    for message in sent:
        if isinstance(message, Update):
            assert message.vector.shape == (6 * 8 + 8,)
    assert engine.coordinator.layout.names == ("body.weight", "body.bias")


def permuted(client):
    """The same inputs mean something else to each client."""
    x, y = records(client, 200)
    return x, torch.from_numpy(np.random.default_rng(client).permutation(4))[y]


def test_local_heads_beat_a_common_head_if_labels_differ():
    def mean_accuracy(local):
        task = TorchTask(plain_net, cross_entropy, permuted, local=local, optimizer="adam")
        settings = settings_for(clients=4, rounds=6, train={"batch": 32, "epochs": 4, "learning_rate": 0.02})
        engine, _ = run(settings, task)
        right = []
        for client in range(4):
            module = task.module(engine.coordinator.model, engine._kept.of(client))
            x, y = permuted(client)
            right.append((module(x).argmax(1) == y).float().mean().item())
        return np.mean(right)

    assert mean_accuracy(["2"]) > mean_accuracy([]) + 0.25


def test_without_torch_there_is_a_sentence():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import tacit, tacit.tasks\n"
        "try: tacit.TorchTask\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "TorchTask needs torch: pip install 'tacit-learning[torch]'"
