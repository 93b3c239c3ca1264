"""Several torch optimizers as one: each moves its own parameters by a part of the same noisy gradient."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Settings = list[dict[str, Any]]


class SeveralOptimizers(torch.optim.Optimizer):  # type: ignore[misc]
    """Steps `optimizers` in their order. Their groups of parameters are its own, one optimizer after the other."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        # Not that of torch, which would copy the groups: a group may be replaced when its own optimizer is loaded.
        self.optimizers = tuple(optimizers)
        self._optimizer_step_pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._optimizer_step_post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for each in self.optimizers for group in each.param_groups]

    @property
    def defaults(self) -> dict[str, Any]:
        """What they have in common: schedulers ask whether there is a momentum."""
        first, *others = (each.defaults for each in self.optimizers)
        return {key: value for key, value in first.items() if all(key in other for other in others)}

    @property
    def state(self) -> dict[Tensor, Any]:
        return {parameter: values for each in self.optimizers for parameter, values in each.state.items()}

    def __repr__(self) -> str:
        return f"SeveralOptimizers({', '.join(map(repr, self.optimizers))})"

    def step(self, closure: None = None) -> None:
        """Step each optimizer. Hooks of this one are called once, before and after all of them."""
        if closure is not None:
            raise ValueError("a closure asks for several gradients in one step: leave it out")
        for hook in tuple(self._optimizer_step_pre_hooks.values()):
            hook(self, (), {})
        for each in self.optimizers:
            each.step()
        for hook in tuple(self._optimizer_step_post_hooks.values()):
            hook(self, (), {})

    def state_dict(self) -> dict[str, Any]:
        """As of one optimizer: parameters are numbered through all optimizers."""
        state: dict[int, Any] = {}
        groups: Settings = []
        start = 0
        for own in (each.state_dict() for each in self.optimizers):
            state.update({start + place: values for place, values in own["state"].items()})
            groups += [
                {**group, "params": [start + place for place in group["params"]]} for group in own["param_groups"]
            ]
            start += sum(len(group["params"]) for group in own["param_groups"])
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        groups, start = list(state_dict["param_groups"]), 0
        for each in self.optimizers:
            taken, groups = groups[: len(each.param_groups)], groups[len(each.param_groups) :]
            size = sum(len(group["params"]) for group in taken)
            own = {place - start: values for place, values in state_dict["state"].items() if 0 <= place - start < size}
            numbered = [{**group, "params": [place - start for place in group["params"]]} for group in taken]
            each.load_state_dict({"state": own, "param_groups": numbered})
            start += size


def as_one(given: Any) -> torch.optim.Optimizer:
    """The optimizer that was given, or all of a list as one. ValueError if two of them move the same parameter."""
    if not isinstance(given, list | tuple):
        return given
    if not given:
        raise ValueError("the list of optimizers is empty: give one optimizer or more")
    seen: dict[int, int] = {}  # the optimizer of each parameter
    for number, each in enumerate(given, 1):
        if not isinstance(each, torch.optim.Optimizer):
            raise ValueError(f"a list of torch optimizers is expected, got {type(each).__name__} in it")
        for parameter in (parameter for group in each.param_groups for parameter in group["params"]):
            if seen.setdefault(id(parameter), number) != number:
                raise ValueError(
                    f"optimizers {seen[id(parameter)]} and {number} of the list share a parameter of shape "
                    f"{tuple(parameter.shape)}, which would be moved twice by one noisy gradient: give each parameter, "
                    "and a tied one too, to one of them"
                )
    return given[0] if len(given) == 1 else SeveralOptimizers(given)


def each_of(optimizer: torch.optim.Optimizer) -> tuple[torch.optim.Optimizer, ...]:
    return optimizer.optimizers if isinstance(optimizer, SeveralOptimizers) else (optimizer,)


def before_each_step(optimizer: torch.optim.Optimizer, hook: Callable[..., None]) -> None:
    """Call a hook before each of the optimizers steps, whether it is stepped with the others or by itself."""
    for each in each_of(optimizer):
        each.register_step_pre_hook(hook)


def kind_of(optimizer: torch.optim.Optimizer) -> str:
    """The names of the classes, for a state and for messages."""
    return " and ".join(type(each).__name__ for each in each_of(optimizer))


def settings_of(optimizer: torch.optim.Optimizer) -> Settings:
    """Learning rates and the like of all groups, as they are now. Schedulers write into tensors."""
    return [
        {k: v.clone() if isinstance(v, Tensor) else v for k, v in group.items() if k != "params"}
        for group in optimizer.param_groups
    ]


def step_with(optimizer: torch.optim.Optimizer, settings: Settings | None) -> None:
    """Step with settings of an earlier time: a scheduler that has moved on meanwhile did not do so for this step."""
    moved = []
    for group, before in zip(optimizer.param_groups, settings or (), strict=False):
        later = {key: group[key] for key, value in before.items() if not _equal(group[key], value)}
        group.update({key: before[key] for key in later})
        moved.append((group, later))
    try:
        optimizer.step()
    finally:
        for group, later in moved:
            group.update(later)


def _equal(one: Any, other: Any) -> bool:
    return torch.equal(one, other) if isinstance(one, Tensor) and isinstance(other, Tensor) else bool(one == other)
