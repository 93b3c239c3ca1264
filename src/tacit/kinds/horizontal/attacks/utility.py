"""What a protection of a horizontal federation costs: accuracy without and with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.audit.finding import Cost
from tacit.events import Kept
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Evaluates
from tacit.kinds.horizontal.tasks import load as tasks


def accuracy_cost(encrypt: dict[str, Any], *, clients: int = 100, rounds: int = 10, seeds: int = 1) -> Cost:
    """Accuracy of softmax regression on digits, the mean over `seeds` runs."""
    metric = f"accuracy on digits after {rounds} rounds with {clients} clients"
    off, on = (
        float(np.mean([_accuracy(protection, clients, rounds, seed) for seed in range(seeds)]))
        for protection in ({}, encrypt)
    )
    return Cost(metric, off, on)


def _accuracy(encrypt: dict[str, Any], clients: int, rounds: int, seed: int) -> float:
    settings = Settings(
        task="digits",
        rounds=rounds,
        clients=clients,
        train={"batch": 16, "learning_rate": 0.5},  # type: ignore[arg-type]
        encrypt=encrypt,  # type: ignore[arg-type]
        simulation={"insecure_noise_seed": seed},  # type: ignore[arg-type]  # so that an audit repeats
        seed=seed,
    )
    task = tasks.make(settings.task, clients, seed, {})
    engine = MemoryEngine(settings, task, Kept())
    engine.run()
    if not isinstance(task, Evaluates):
        raise TypeError("the task cannot judge a model")
    return task.evaluate(engine.coordinator.model)["accuracy"]
