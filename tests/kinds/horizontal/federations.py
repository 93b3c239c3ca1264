"""Small federations for tests: the built-in digits, or a task made of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.events import Kept, RoundFinished
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.messages import ToCoordinator
from tacit.kinds.horizontal.protections.contract import UnusableUpdate
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Fitted, Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.tasks.softmax import SoftmaxTask, softmax


def settings_for(**keys: Any) -> Settings:
    train = {"epochs": 1, "batch": 16, "learning_rate": 0.5}
    return Settings(**({"task": "digits", "rounds": 3, "clients": 12, "train": train} | keys))


def run(
    settings: Settings,
    task: Task | None = None,
    watch: Callable[[int, ToCoordinator], None] | None = None,
    abandoned: int = 0,
) -> tuple[MemoryEngine, Kept]:
    """A whole run, after so many rounds that were begun and abandoned."""
    kept = Kept()
    made = task or tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    engine = MemoryEngine(settings, made, kept, watch=watch)
    for _ in range(abandoned):
        engine.coordinator.begin(0.0)
        state = engine.coordinator.state()
        engine = MemoryEngine(settings, made, kept, watch=watch)
        engine.restore(state, made.model())
    engine.run()
    return engine, kept


def finished(kept: Kept) -> list[RoundFinished]:
    return [event for event in kept.events if isinstance(event, RoundFinished)]


class Inferring(SoftmaxTask):
    """Digits whose model is also judged by what it infers."""

    classes = 10

    def __init__(self) -> None:
        made: Any = tasks.make("digits", 12, 0, {})
        super().__init__(made._parts, made._test, 10)

    def infer(self, client, model, count):
        x, _ = self._parts[client]
        return softmax(x[:count] @ model["weights"] + model["bias"])


class Numbers:
    """A task whose clients add their own number to every weight."""

    def __init__(self, size: int = 5, dtype: str = "float64") -> None:
        self._size = size
        self._dtype = dtype

    def model(self) -> dict[str, np.ndarray]:
        return {"weights": np.zeros(self._size, self._dtype)}

    def fit(self, client, model, work) -> Fitted:
        return Fitted({"weights": model["weights"] + np.asarray(client, self._dtype)}, client + 1, float(client))


class Failing(Numbers):
    """The update of client 5 is unusable in some rounds: if all are needed, these abort with their sum opened."""

    def __init__(self, rounds: set[int]) -> None:
        super().__init__()
        self._rounds = rounds

    def fit(self, client, model, work) -> Fitted:
        if client == 5 and work.round in self._rounds:
            raise UnusableUpdate("its update is too large")
        return super().fit(client, model, work)


def another_model_after(coordinator: Coordinator, aborted: int) -> None:
    """Let a coordinator send another model once so many rounds were aborted."""
    abort = coordinator._abort
    left = aborted

    def counted(reason: str) -> None:
        nonlocal left
        abort(reason)
        left -= 1
        if left == 0:
            coordinator._model = coordinator._model + 1
            coordinator._answers._declined = set()

    coordinator._abort = counted
