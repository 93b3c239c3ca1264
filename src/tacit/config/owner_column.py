"""The owner of a record, as a file names it: a column of the record, or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tacit.config.task import module_of

_SHOWN = 5


def owner_reader(owner: str | int, key: str) -> Callable[[Any], Any]:
    """From a record to its owner: a function that the file names under `key`, or a column of the record."""
    if isinstance(owner, str) and ":" in owner:
        module, name = module_of(owner, {}, "", what=key)
        function: Callable[[Any], Any] = getattr(module, name)
        return function

    def column(record: Any) -> Any:
        if isinstance(owner, int):
            if isinstance(record, list | tuple) and owner < len(record):
                return record[owner]
            shape = f"has {len(record)} columns" if isinstance(record, list | tuple) else f"is a {_kind(record)}"
            raise ValueError(f"{key} is column {owner}, a record {shape}: name one that is there")
        if not isinstance(record, Mapping):
            raise ValueError(
                f"{key} is column {owner!r}, a record is a {_kind(record)} without names: give a number of a column, "
                "or package.module:function from a record to an id"
            )
        if owner not in record:
            names = ", ".join(map(str, list(record)[:_SHOWN]))
            raise ValueError(f"{key} is column {owner!r}, records have {names}: name one that is there")
        return record[owner]

    return column


def _kind(record: Any) -> str:
    return type(record).__name__
