"""Which attacks fit a file: one module a kind, imported when it is needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from tacit.audit.steps import Attacks, Scope


class Kind(Protocol):
    """The function of such a module."""

    def attacks(self, settings: Any, scope: Scope) -> Attacks:
        """The attacks on what `settings` describe. The task is made; nothing is trained before a step is taken."""


def of(settings: Any) -> Kind:
    return cast(Kind, import_module(f"tacit.kinds.{settings.kind}.attacks"))
