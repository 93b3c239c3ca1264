"""The names of a public module that lie elsewhere: imported when they are first asked for, as some are heavy.

    __getattr__, __dir__ = door(__name__, __all__, {"tacit.errors": "BudgetError PeerError"})

What a public module promises is in its `__all__`, and in docs/api.md; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def door(
    module: str, names: Sequence[str], homes: Mapping[str, str], first: Callable[[], object] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module. A home lists its names, "own=public" where the two differ.

    Names without a home that the module does not define itself are modules inside it. `first` runs before an import.
    """
    known = {}
    for home, listed in homes.items():
        for entry in listed.split():
            own, _, public = entry.partition("=")
            known[public or own] = (home, own)

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if first is not None:
            first()
        if name not in known:
            return import_module(f"{module}.{name}")
        home, own = known[name]
        return getattr(import_module(home), own)

    return find, lambda: sorted(names)
