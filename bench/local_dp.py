"""What local differential privacy costs in accuracy: over epsilon and the number of clients.

MNIST dealt out evenly (`--data` names the folder of `mnist_by_writer.npz`), or without it the digits of scikit-learn.
Judged is the loss at 1000 clients and epsilon 50 an upload, in points of accuracy: MindSpore Federated says that it is
not noticeable for 1000 clients or more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.measure import Options, Row
from tacit.events import Kept, RoundFinished
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.tasks import load as tasks

ROUNDS = 12
MNIST: dict[str, Any] = {"train": {"epochs": 1, "batch": 20, "learning_rate": 0.2}, "clip": 0.5}
DIGITS: dict[str, Any] = {"train": {"epochs": 1, "batch": 16, "learning_rate": 0.5}, "clip": 1.0}


def run(options: Options) -> list[Row]:
    mnist = options.data is not None
    sizes = (100,) if options.quick else (100, 300, 1000)
    epsilons = (10.0, 50.0) if options.quick else (1.0, 10.0, 50.0, 200.0)
    rows: list[Row] = []
    for clients in sizes:
        task = _task(clients, options.data)
        plain = _last(task, clients, MNIST if mnist else DIGITS, None)
        rows.append(
            Row(f"accuracy, {clients} clients, unprotected", 100 * plain.metrics["accuracy"], None, "%", "higher")
        )
        for epsilon in epsilons:
            found = _last(task, clients, MNIST if mnist else DIGITS, epsilon)
            accuracy = found.metrics["accuracy"]
            name = f"accuracy, {clients} clients, epsilon {epsilon:g} an upload, {found.epsilon:.0f} for the run"
            rows.append(Row(name, 100 * accuracy, None, "%", "higher"))
            if mnist and clients == 1000 and epsilon == 50:
                lost = 100 * (plain.metrics["accuracy"] - accuracy)
                rows.append(Row("points lost, 1000 clients, epsilon 50", lost, None, "", "lower", 3, 1, "ours"))
    return rows


def _task(clients: int, data: Path | None) -> Task:
    if data is None:
        return tasks.make("digits", clients, 0, {})
    return tasks.make("mnist_by_writer", clients, 0, {"path": str(data / "mnist_by_writer.npz"), "split": "iid"})


def _last(task: Task, clients: int, keys: dict[str, Any], epsilon: float | None) -> RoundFinished:
    encrypt: dict[str, Any] = {}
    if epsilon is not None:
        encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": epsilon, "dp_norm_clip": keys["clip"]}
    settings = Settings(task="bench", rounds=ROUNDS, clients=clients, encrypt=encrypt, train=keys["train"])
    kept = Kept()
    MemoryEngine(settings, task, kept).run()
    return [event for event in kept.events if isinstance(event, RoundFinished)][-1]
