"""`TorchTask`: a torch module, a loss and data as a task of a federation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TaskError
from tacit.kinds.horizontal.settings import Training
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork
from tacit.kinds.horizontal.tasks.client_data import check_function, data_of

try:
    import torch
    from torch import nn
except ModuleNotFoundError as error:
    raise ValueError("TorchTask needs torch: pip install 'tacit-learning[torch]'") from error

from tacit.kinds.horizontal.torch_tasks.local_training import (
    Loss,
    MakeScheduler,
    Recipe,
    enough_threads,
    seeded,
    sentences,
    train,
)
from tacit.kinds.horizontal.torch_tasks.optimizers import MakeOptimizer, check_optimizer
from tacit.kinds.horizontal.torch_tasks.private_training import Attached, Own, private_plan, train_privately
from tacit.kinds.horizontal.torch_tasks.records import Collate, records_of
from tacit.kinds.horizontal.torch_tasks.weights import Weights
from tacit.training.checks import refuse_unfit
from tacit.training.plan import Plan

_MODEL = 18  # what a seed is for: see `sampling.SAMPLING`
_EVALUATION = 19


class TorchTask:
    """A federation of torch models.

        task = tacit.TorchTask(model=make_net, loss=loss, data=records_of_client, evaluate=judge)

    The file names it as `task: module:task`; options that it takes there (`task_options`) are `local`, `device`,
    `optimizer` and `optimizer_options`.

    Args:
        model: returns the module. It is called with torch's generator set from the file's `seed`, so that all parties
            begin with the same values. Only parameters with requires_grad travel; frozen ones are compared by digest.
        loss: `loss(module, batch)` returns the mean over the batch, or a loss for each record, whose mean is minimised.
        data: `data(client)`, or `data(client, clients)` to deal records out, returns tensors, a dict of tensors or a
            dataset with a length and indices. It is called in every round.
        evaluate: `evaluate(module)` returns a dict of numbers, on the coordinator's own data. The module is in eval
            mode, without gradients, and its local parameters and buffers are as `model` returned them.
        local: patterns of parameters that stay at each client, such as `["bn*", "head"]`.
        optimizer: a name (sgd, momentum, nesterov, adam, adamw, rmsprop, ...), or a function of parameters and lr.
        optimizer_options: further arguments of the optimizer.
        scheduler: `scheduler(optimizer, steps)` returns a torch scheduler for the steps of one round.
        device: where clients train: the CPU by default; `auto` takes a GPU if there is one.
        collate: puts the items of a dataset together.
        clients, seed: the number of clients, and what the module is made from; the file's if it names the task.
    """

    evaluate: Callable[[Arrays], dict[str, float]]  # only if an `evaluate` was given

    def __init__(
        self,
        model: Callable[[], nn.Module],
        loss: Loss,
        data: Callable[..., Any],
        evaluate: Callable[[nn.Module], Mapping[str, Any]] | None = None,
        *,
        local: Sequence[str] = (),
        optimizer: str | MakeOptimizer = "sgd",
        optimizer_options: Mapping[str, Any] | None = None,
        scheduler: MakeScheduler | None = None,
        device: str | torch.device | None = None,
        collate: Collate | None = None,
        clients: int | None = None,
        seed: int = 0,
    ) -> None:
        if isinstance(model, nn.Module):
            raise ValueError("model must be a function that returns the module, got the module: give lambda: module")
        check_function(model, "model()", 0)
        check_function(loss, "loss(module, batch)", 2)
        check_function(data, "data(client)", 1, 2)
        if evaluate is not None:
            check_function(evaluate, "evaluate(module)", 1)
        check_optimizer(optimizer)
        self._given = {
            "model": model,
            "loss": loss,
            "data": data,
            "evaluate": evaluate,
            "local": _patterns(local),
            "optimizer": optimizer,
            "optimizer_options": dict(optimizer_options or {}),
            "scheduler": scheduler,
            "device": device,
            "collate": collate,
        }
        self._make = model
        self._data = data
        self._judge = evaluate
        self._local = _patterns(local)
        self._recipe = Recipe(loss, optimizer, dict(optimizer_options or {}), scheduler)
        self._device = _device(device)
        self._collate = collate
        self._clients = clients
        self._seed = seed
        self._built: tuple[nn.Module, Weights] | None = None
        self.attached: Attached = lambda optimizer, loader: None  # told of each private training, for audits
        if evaluate is not None:
            self.evaluate = self._evaluate

    def __call__(self, clients: int, seed: int, **options: Any) -> TorchTask:
        """The same task for a file: its number of clients, its seed and its task_options."""
        free = ("local", "device", "optimizer", "optimizer_options")
        if unknown := sorted(options.keys() - set(free)):
            raise ValueError(f"task_options: {unknown[0]} is not known: a TorchTask takes {', '.join(free)}")
        return TorchTask(**{**self._given, **options}, clients=clients, seed=seed)

    # --- a task of a federation

    def model(self) -> Arrays:
        """The parameters that travel, as `model` returned them."""
        _, weights = self._module()
        weights.reset()
        return weights.arrays()

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        """Train on the client's records."""
        module, weights = self._module()
        weights.load(model, work.kept)
        with seeded(work.seed, self._device), enough_threads(module):
            data = data_of(self._data, client, self._clients)
            with sentences():
                records = records_of(data, self._collate, self._device)
            if len(records) == 0:
                return Fitted(weights.arrays(), 0)
            if work.train.privacy is not None:
                cost = train_privately(module, weights, Own(data, records), work, self._recipe, self.attached)
                kept = weights.kept() if weights.keeps else None
                return Fitted(weights.arrays(), len(records), None, kept, cost.events, cost.left_out)
            loss = train(module, weights, records, work, self._recipe)
        return Fitted(weights.arrays(), len(records), loss, weights.kept() if weights.keeps else None)

    def check_private_fit(self) -> None:
        """ValueError, with the names of the layers, if the module cannot be trained privately (`train.privacy`)."""
        refuse_unfit(self._module()[0])

    def private_plan(self, client: int, train: Training, answers: int) -> Plan:
        """The plan by which a client trains privately in each round, if it may answer so often in the run."""
        data = data_of(self._data, client, self._clients)
        return private_plan(Own(data, records_of(data, self._collate, self._device)), train, answers)

    def _evaluate(self, model: Arrays) -> dict[str, float]:
        module = self.module(model)
        with seeded((self._seed, _EVALUATION), self._device), enough_threads(module), torch.no_grad():
            found = self._judge(module) if self._judge is not None else {}
        if not isinstance(found, Mapping):
            raise TaskError(f"evaluate(module) must return a dict of numbers, got {type(found).__name__}")
        return {name: _number(name, value) for name, value in found.items()}

    # --- what the parties compare, and what clients keep

    @property
    def keeps(self) -> bool:
        """Whether clients keep parameters or buffers from one round to the next."""
        return self._module()[1].keeps

    def frozen_digest(self) -> str | None:
        """What parties with the same frozen parameters agree on; None if all are trained."""
        return self._module()[1].frozen_digest()

    def module(self, model: Mapping[str, NDArray[Any]], kept: Mapping[str, NDArray[Any]] | None = None) -> nn.Module:
        """The module with a model and with what a client kept, in eval mode. The next call changes the same module."""
        module, weights = self._module()
        weights.load(model, kept)
        return module.eval()

    def _module(self) -> tuple[nn.Module, Weights]:
        if self._built is None:
            _check_present(self._device)
            with seeded((self._seed, _MODEL), self._device):
                module = self._make()
            weights = Weights(module.to(self._device) if isinstance(module, nn.Module) else module, self._local)
            self._built = module, weights
        return self._built


def _patterns(local: Sequence[str]) -> tuple[str, ...]:
    patterns = (local,) if isinstance(local, str) else tuple(local)
    if not all(isinstance(each, str) for each in patterns):
        raise ValueError(f"local must be a list of patterns of parameter names, got {local!r}")
    return patterns


def _device(device: str | torch.device | None) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device or "cpu")
    except RuntimeError:
        raise ValueError(f"device is {device!r}: give cpu, cuda, cuda:1 or auto") from None


def _check_present(device: torch.device) -> None:
    """When it is needed: a task may name a device that the file of a site without one replaces."""
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device is {str(device)!r}, and torch sees {torch.cuda.device_count()} GPUs: give cpu or auto"
        )


def _number(name: str, value: Any) -> float:
    try:
        return float(value.item() if isinstance(value, torch.Tensor | np.ndarray) else value)
    except (TypeError, ValueError, RuntimeError):
        raise TaskError(f"evaluate(module) must return numbers, and {name!r} is {type(value).__name__}") from None
