"""Carrying out a private training, and keeping what came of it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.config.source import ConfigError
from tacit.events import EpochFinished, Noted, Stepped, TrainingResumed, TrainingStarted
from tacit.kind import Here, Result, ended_early
from tacit.kinds.private_training.forecast import forecast as forecast_of
from tacit.kinds.private_training.owners import planned
from tacit.kinds.private_training.settings import Settings
from tacit.kinds.private_training.tasks import load as tasks
from tacit.report.forecast import Forecast

if TYPE_CHECKING:
    import torch
    from torch import nn

    from tacit.kinds.private_training.task import Task
    from tacit.training.optimizer import PrivateOptimizer

_LINE = 1.0  # seconds between two lines
_BETWEEN = 60.0  # seconds between two stores within an epoch
_AGAINST = "against anyone who has the model and every model stored during training"
_CHANGES = {"add-remove": "adding it or leaving it out", "zero-out": "leaving its gradients out"}
_WHOM = {"record": "record", "owner": "owner with all its records"}


def may_change(stored: Settings) -> frozenset[str]:
    """What a resumed run may change. Noise is sized for the number of epochs, unless it is given and stays."""
    free = frozenset({"train.physical", "monitor.every"})
    given = stored.privacy.noise_multiplier is not None and stored.noise.decay is None
    return free | {"train.epochs"} if given else free


def finished(settings: Settings, state: Mapping[str, Any]) -> str | None:
    """Why there is nothing left to do."""
    done = state["epochs"]
    if done < settings.train.epochs:
        return None
    longer = f": to train longer, give more (--set train.epochs={done + settings.train.epochs})"
    return f"all {done} epochs are done{longer if 'train.epochs' in may_change(settings) else ''}"


def caught_up(settings: Settings, state: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
    """An earlier state in which the steps that were taken since are paid for: they are taken again."""
    paid = {int(step): int(count) for step, count in ledger["abandoned"]}
    for step in range(state["steps"], ledger["steps"]):
        paid[step] = paid.get(step, 0) + 1
    for step, count in state["abandoned"]:
        paid[step] = max(paid.get(step, 0), count)
    return {**state, "abandoned": [[step, count] for step, count in sorted(paid.items())]}


def forecast(settings: Settings) -> Forecast:
    """What the file will cost. The task is made, for its records and the size of its model; nothing is trained."""
    task = tasks.make_training(settings.task, settings.seed, settings.task_options)
    parameters = sum(each.numel() for each in task.model().parameters() if each.requires_grad)
    return forecast_of(settings, planned(settings, task.records).plan, parameters)


def execute(settings: Settings, here: Here) -> Callable[[], Result]:
    """A training, from the start or from what is stored, to its end or until it is stopped."""
    training = _Training(settings, here)
    training.begin()

    def run() -> Result:
        with ended_early() as ending:
            training.run()
        training.save()
        return Result(training.weights(), training.ledger(), ending.status, ending.text)

    return run


class _Training:
    """A training under way."""

    def __init__(self, settings: Settings, here: Here) -> None:
        from tacit.training.monitor import Monitor

        self._settings = settings
        self._sink = here.sink
        self._store = here.store
        self._should_stop = here.should_stop
        self._task: Task = tasks.make_training(settings.task, settings.seed, settings.task_options)
        made = planned(settings, self._task.records)
        self._plan = made.plan
        own = settings.monitor
        self._every = own.every or self._plan.steps_an_epoch
        self._epsilon: float | None = None
        monitor = Monitor(self._plan, method=own.method, budget=own.budget, every=self._every, tell=self._heard)
        model = self._task.model()
        inner = optimizer_of(settings, model)
        self._model, self._optimizer, self._loader = self._plan.attach(
            model, inner, self._task.records, monitors=[monitor], owners=made.owners
        )
        self._stored_at = self._said = time.perf_counter()

    def begin(self) -> None:
        """Say that it begins, and continue from the stored state."""
        settings, plan = self._settings, self._plan
        size = sum(each.numel() for each in self._model.parameters() if each.requires_grad)
        words = f"{settings.noise.kind} noise of {plan.initial_noise:.4g} times the clipping norm, tier {plan.drawn}"
        self._sink.emit(TrainingStarted(settings.name, settings.kind, 1, plan.epochs, plan.steps_an_epoch, words, size))
        for note in settings.notes():
            self._sink.emit(Noted(note))
        stored = self._store.stored() if self._store is not None else None
        if stored is not None:
            state, weights = stored
            _load(self._model, weights)
            self._optimizer.restore({key: value for key, value in state.items() if key not in ("settings", "epochs")})
            self._sink.emit(TrainingResumed(self._optimizer.epoch, self._optimizer.steps % plan.steps_an_epoch))

    def run(self) -> None:
        if self._optimizer.steps == 0:
            self.save()
        while self._optimizer.steps < self._plan.steps:
            self._run_epoch()

    def _run_epoch(self) -> None:
        start = time.perf_counter()
        epoch, losses, records = self._optimizer.epoch, [], 0
        self._model.train()
        for batch in self._loader:
            before = self._optimizer.steps
            loss = self._task.loss(self._model, batch)
            loss.backward()
            self._optimizer.step()
            if not self._optimizer.checking:
                losses.append(float(loss.detach()))
                records += _size(batch)
            if self._optimizer.steps != before:
                self._say(epoch, losses[-1], records / (time.perf_counter() - start))
                self._save_sometimes()
                if self._should_stop():
                    raise KeyboardInterrupt
        self._end_epoch(epoch, losses, time.perf_counter() - start)

    def _heard(self, steps: int, epsilon: float, method: str) -> None:
        self._epsilon = epsilon

    def _say(self, epoch: int, loss: float, speed: float) -> None:
        done, steps = self._optimizer.steps - epoch * self._plan.steps_an_epoch, self._plan.steps_an_epoch
        now = time.perf_counter()
        if self._optimizer.steps % self._every == 0 or now - self._said > _LINE:
            self._said = now
            self._sink.emit(Stepped(epoch, done, steps, loss, self._epsilon, speed))
        self._epsilon = None

    def _end_epoch(self, epoch: int, losses: list[float], seconds: float) -> None:
        import torch

        self._model.eval()
        with torch.no_grad():
            metrics = self._task.evaluate(self._model)
        self.save()  # before anything that depends on the model is told
        local = {"training loss": sum(losses) / len(losses)} if losses else {}
        epsilon = self._optimizer.epsilon(self._settings.monitor.method)
        self._sink.emit(EpochFinished(epoch, seconds, metrics, local, epsilon, self._plan.delta))

    def _save_sometimes(self) -> None:
        if time.perf_counter() - self._stored_at > _BETWEEN:
            self.save()

    def save(self) -> None:
        """Store the model, the optimizer, the sampler and the ledger together."""
        self._stored_at = time.perf_counter()
        if self._store is None:
            return
        state = self._optimizer.state()
        more = {"round": self._optimizer.steps, "epochs": self._optimizer.epoch}
        self._store.save(self.weights(), {**state, **more}, self.ledger())

    def weights(self) -> dict[str, NDArray[Any]]:
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self._model.state_dict().items()}

    def ledger(self) -> dict[str, Any]:
        """The ledger as plain data, with what it amounts to and which noise it was."""
        optimizer: PrivateOptimizer = self._optimizer
        epsilon = optimizer.epsilon()
        spent = {
            "view": "central",
            "covers": ["model"],
            **optimizer.ledger.to_json(),
            "epsilon": "infinite" if math.isinf(epsilon) else epsilon,
            "delta": self._plan.delta,
            "against": f"for each {_WHOM[self._plan.unit]}, for {_CHANGES[optimizer.ledger.relation]}, {_AGAINST}",
            "tier": self._plan.drawn,
        }
        counters = {"steps": optimizer.steps, "abandoned": optimizer.abandoned}
        return {"version": 1, "ledgers": [spent] if optimizer.ledger.lines else [], **counters}


def optimizer_of(settings: Settings, model: nn.Module) -> torch.optim.Optimizer:
    """What moves the model, before it is made private."""
    import torch

    train = settings.train
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    match train.optimizer:
        case "sgd":
            return torch.optim.SGD(parameters, lr=train.learning_rate, momentum=train.momentum)
        case "adam":
            return torch.optim.Adam(parameters, lr=train.learning_rate)
        case "adamw":
            return torch.optim.AdamW(parameters, lr=train.learning_rate)
        case "adam_bc":
            from tacit.training.adam import AdamBC

            return AdamBC(parameters, lr=train.learning_rate)


def _load(model: nn.Module, weights: dict[str, NDArray[Any]]) -> None:
    import torch

    try:
        model.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in weights.items()})
    except RuntimeError as error:
        raise ConfigError(f"the stored model does not fit the task's: {error}") from error


def _size(batch: Any) -> int:
    first = batch[0] if isinstance(batch, list | tuple) else batch
    return len(first) if hasattr(first, "__len__") else 1
