"""A convolutional network on MNIST by writer: the whole run of a simulated federation against its training alone.

Not a benchmark by itself: `bench.simulation` measures it. The training alone is the same batches, steps and evaluation
in a plain loop of torch, with nothing sent, checked or stored.

Each client begins with the mean of the last round, as in the federation: twenty copies and additions of small tensors
for each client. If the model went from client to client, the numbers would be others, and max pooling, whose time
depends on them, was measured at two thirds of the time.
"""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import tacit

CLIENTS, ROUNDS, BATCH, RATE, SEED = 100, 5, 10, 0.05, 3
Records = tuple[Tensor, Tensor]


def net() -> nn.Module:
    """LeNet, as in the first tutorials of torch and Flower."""
    features = (nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2))
    head = (nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))
    return nn.Sequential(*features, nn.Flatten(), *head)


def loss(module: nn.Module, batch: Records) -> Tensor:
    images, labels = batch
    return nn.functional.cross_entropy(module(images), labels)


def accuracy(module: nn.Module, held_out: Records) -> float:
    images, labels = held_out
    return float((module(images).argmax(1) == labels).float().mean())


@functools.cache
def records(path: str) -> tuple[list[Records], Records]:
    """Of each client, and of the coordinator."""
    with np.load(path, allow_pickle=False) as file:
        images, labels, writers, test, answers = (file[name] for name in ("x", "y", "writer", "x_test", "y_test"))
    chosen = np.sort(np.random.default_rng(SEED).choice(np.unique(writers), CLIENTS, replace=False))
    parts = [np.flatnonzero(writers == writer) for writer in chosen]
    return [_records(images[part], labels[part]) for part in parts], _records(test, answers)


def _records(pixels: NDArray[np.uint8], labels: NDArray[np.uint8]) -> Records:
    return torch.from_numpy(pixels.astype(np.float32) / 255).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))


def make_task(clients: int, seed: int, path: str) -> tacit.TorchTask:
    held, held_out = records(path)
    return tacit.TorchTask(
        model=net,
        loss=loss,
        data=lambda client: held[client],
        evaluate=lambda module: {"accuracy": accuracy(module, held_out)},
        optimizer="momentum",
        clients=clients,
        seed=seed,
    )


def federation(path: str) -> float:
    """A whole run, from its file to its report; the last accuracy."""
    settings = {
        "kind": "horizontal",
        "task": "bench.simulation_torch:make_task",
        "task_options": {"path": path},
        "clients": CLIENTS,
        "rounds": ROUNDS,
        "seed": SEED,
        "train": {"epochs": 1, "batch": BATCH, "learning_rate": RATE},
    }
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        outcome = tacit.run(settings, runs=folder)
    return float(outcome.history[-1].metrics["accuracy"])


def training(path: str) -> float:
    """The same training in a plain loop; the last accuracy."""
    held, held_out = records(path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the federation trains a model of this size
    torch.manual_seed(SEED)
    module, rng = net(), np.random.default_rng(SEED)
    found, records_of_all = 0.0, sum(len(labels) for _, labels in held)
    parameters = list(module.parameters())
    for _ in range(ROUNDS):
        module.train()
        begun = [parameter.detach().clone() for parameter in parameters]
        mean_of_all = [torch.zeros_like(tensor) for tensor in begun]
        for images, labels in held:
            _put(begun, parameters)
            optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=0.9)
            order = torch.from_numpy(rng.permutation(len(labels)))
            for start in range(0, len(order), BATCH):
                chosen = order[start : start + BATCH]
                optimizer.zero_grad()
                mean = loss(module, (images[chosen], labels[chosen]))
                mean.backward()
                optimizer.step()
            with torch.no_grad():
                for total, parameter in zip(mean_of_all, parameters, strict=True):
                    total.add_(parameter, alpha=len(labels) / records_of_all)
        _put(mean_of_all, parameters)
        module.eval()
        with torch.no_grad():
            found = accuracy(module, held_out)
    torch.set_num_threads(threads)
    return found


def _put(values: list[Tensor], parameters: list[nn.Parameter]) -> None:
    with torch.no_grad():
        for value, parameter in zip(values, parameters, strict=True):
            parameter.copy_(value)
