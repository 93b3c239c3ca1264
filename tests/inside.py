"""What a test looks at behind a seam, where `mypy` knows only what the seam promises."""

from __future__ import annotations

from typing import Any


def inside(it: object) -> Any:
    """The object itself, with whatever attributes it has."""
    return it
