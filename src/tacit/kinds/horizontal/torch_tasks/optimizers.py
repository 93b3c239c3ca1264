"""Optimizers by name, with the learning rate of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from tacit.config.explain import nearest

MakeOptimizer = Callable[..., Optimizer]

_NAMED: dict[str, tuple[type[Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "adamax": (torch.optim.Adamax, {}),
    "adagrad": (torch.optim.Adagrad, {}),
    "adadelta": (torch.optim.Adadelta, {}),
    "nadam": (torch.optim.NAdam, {}),
    "radam": (torch.optim.RAdam, {}),
    "rmsprop": (torch.optim.RMSprop, {}),
}


def make_optimizer(
    chosen: str | MakeOptimizer,
    options: Mapping[str, Any],
    parameters: Iterable[nn.Parameter],
    learning_rate: float,
) -> Optimizer:
    """A new optimizer: one of a name, or `chosen(parameters, lr=learning_rate, **options)`, as of torch's classes."""
    if not isinstance(chosen, str):
        return chosen(list(parameters), lr=learning_rate, **options)
    check_optimizer(chosen)
    made, usual = _NAMED[chosen]
    try:
        return made(list(parameters), **{"lr": learning_rate, **usual, **options})
    except TypeError as error:
        raise ValueError(f"optimizer_options: {chosen} does not take these: {error}") from None


def check_optimizer(chosen: object) -> None:
    """ValueError unless it is the name of an optimizer, or a function that makes one."""
    if callable(chosen) or chosen in _NAMED:
        return
    near = nearest(str(chosen), list(_NAMED))
    advice = f"did you mean {near}?" if near else f"take one of {', '.join(_NAMED)}, or a function"
    raise ValueError(f"optimizer is {chosen!r}, which is not known: {advice}")
