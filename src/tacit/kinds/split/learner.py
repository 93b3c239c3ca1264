"""One party's part while it learns: its networks, its optimizer, where it is, and what it has spent."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tacit.dp.accounting import Ledger
from tacit.kinds.split.settings import Train
from tacit.lockstep.context import Ledgers

_OPTIMIZER = "optimizer"
_first = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A party's own part at some step, as plain arrays and numbers: what is stored, and never sent."""

    step: int  # done
    arrays: Mapping[str, NDArray[Any]]
    ledgers: Ledgers = field(default_factory=dict)


class Learner:
    """The networks of one party under one optimizer."""

    def __init__(self, networks: Mapping[str, nn.Module], train: Train, ledgers: Mapping[str, Ledger]) -> None:
        self.networks = dict(networks)
        self.ledgers = dict(ledgers)
        self.step = 0
        self.extra: dict[str, NDArray[Any]] = {}  # what must survive in addition to the networks: randomized labels
        self._parameters = _trained(self.networks)
        self._optimizer = make_optimizer(self._parameters, train) if self._parameters else None

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self._parameters)

    def train(self, learning: bool) -> None:
        for network in self.networks.values():
            network.train(learning)

    def clear(self) -> None:
        if self._optimizer is not None:
            self._optimizer.zero_grad(set_to_none=True)

    def advance(self) -> None:
        """One optimizer step with the gradients that are there."""
        if self._optimizer is not None:
            self._optimizer.step()
        self.step += 1

    def state(self) -> State:
        """A copy of this part, optimizer and counters included."""
        arrays = {f"extra.{name}": array.copy() for name, array in self.extra.items()}
        for name, network in self.networks.items():
            for key, tensor in network.state_dict().items():
                arrays[f"{name}.{key}"] = tensor.detach().cpu().numpy().copy()
        if self._optimizer is not None:
            for index, values in self._optimizer.state_dict()["state"].items():
                for key, value in values.items():
                    if value is not None:
                        arrays[f"{_OPTIMIZER}.{index}.{key}"] = _array(value)
        return State(self.step, arrays, self.spent())

    def spent(self) -> Ledgers:
        return {name: ledger.to_json() for name, ledger in self.ledgers.items()}

    def restore(self, state: State, ledgers: Ledgers) -> None:
        """Resume from `state`, which this part or one of the same shape gave. ValueError if it does not fit.

        `ledgers` are later than those of the state, where there are any: they count what was sent since.
        """
        for name, network in self.networks.items():
            prefix = f"{name}."
            found = {k[len(prefix) :]: torch.from_numpy(np.array(v)) for k, v in _under(state, prefix).items()}
            try:
                network.load_state_dict(found)
            except RuntimeError as error:
                raise ValueError(f"what was saved does not fit the {name}: was the task changed? {error}") from None
        if self._optimizer is not None:
            self._restore_optimizer(_under(state, f"{_OPTIMIZER}."))
        self.extra = {key[len("extra.") :]: np.array(value) for key, value in _under(state, "extra.").items()}
        self.owe({**state.ledgers, **ledgers})
        self.step = state.step

    def owe(self, ledgers: Ledgers) -> None:
        """Take over what was spent before."""
        self.ledgers |= {name: Ledger.from_json(data) for name, data in ledgers.items()}

    def _restore_optimizer(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        values: dict[int, dict[str, Any]] = {}
        for name, array in arrays.items():
            _, index, key = name.split(".", 2)
            values.setdefault(int(index), {})[key] = torch.from_numpy(np.array(array))
        assert self._optimizer is not None  # noqa: S101
        whole = self._optimizer.state_dict()
        self._optimizer.load_state_dict({**whole, "state": values})


def make_optimizer(parameters: list[nn.Parameter], train: Train) -> Any:
    """An optimizer of torch.optim by its name, in any case."""
    with _first:  # torch imports much of itself with the first optimizer, which threads should not do together
        return _made(parameters, train)


def _made(parameters: list[nn.Parameter], train: Train) -> Any:
    known = {
        name.lower(): kind
        for name, kind in vars(torch.optim).items()
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
    }
    kind = known.get(train.optimizer.lower())
    if kind is None or train.optimizer.lower() == "lbfgs":
        names = ", ".join(sorted(known.keys() - {"lbfgs"}))
        raise ValueError(f"train.optimizer {train.optimizer!r} cannot be used here: take one of {names}")
    try:
        return kind(parameters, lr=train.learning_rate, **train.optimizer_options)
    except TypeError as error:
        raise ValueError(f"train.optimizer_options do not fit {train.optimizer}: {error}") from None


def _trained(networks: Mapping[str, nn.Module]) -> list[nn.Parameter]:
    """Each trainable parameter once, also where networks share it."""
    found: dict[int, nn.Parameter] = {}
    for network in networks.values():
        for parameter in network.parameters():
            if parameter.requires_grad:
                found.setdefault(id(parameter), parameter)
    return list(found.values())


def _under(state: State, prefix: str) -> dict[str, NDArray[Any]]:
    return {name: array for name, array in state.arrays.items() if name.startswith(prefix)}


def _array(value: Any) -> NDArray[Any]:
    if isinstance(value, torch.Tensor):
        return np.array(value.detach().cpu().numpy())
    return np.array(value)
