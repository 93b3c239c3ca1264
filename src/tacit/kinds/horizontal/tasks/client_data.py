"""A user's function of data: `data(client)`, or `data(client, clients)` to deal one data set out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def data_of(data: Callable[..., Any], client: int, clients: int | None) -> Any:
    """What the function returns for a client. It is handed the number of clients if it asks for that."""
    if not _takes_two(data):
        return data(client)
    if clients is None:
        raise ValueError("data(client, clients) needs the number of clients: give it to the task as clients=")
    return data(client, clients)


def check_function(function: object, name: str, *counts: int) -> None:
    """ValueError unless it can be called with one of so many arguments; what hides its signature is believed."""
    if not callable(function):
        raise ValueError(f"{name} must be a function, got {type(function).__name__}: give the function itself")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    if not any(_binds(signature, count) for count in counts):
        raise ValueError(f"{name} must be a function with these arguments, got {function_name(function)}{signature}")


def function_name(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _takes_two(data: Callable[..., Any]) -> bool:
    try:
        named = inspect.signature(data).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is inspect.Parameter.empty for each in named) == 2
