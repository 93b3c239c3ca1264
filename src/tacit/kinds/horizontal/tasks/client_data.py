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


def _takes_two(data: Callable[..., Any]) -> bool:
    try:
        named = inspect.signature(data).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is inspect.Parameter.empty for each in named) == 2
