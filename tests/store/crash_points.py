"""A process that dies between two steps on disk, played in this one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Killed(BaseException):
    """Nothing catches it."""


@contextmanager
def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], bool]]:
    """The n-th replacing, synchronising, linking or removing of a file is the last thing that happens inside.

    Gives a function that says whether it came to so many steps.
    """
    calls = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keys: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step:
                raise Killed
            return original(*arguments, **keys)

        return call

    with monkeypatch.context() as patched:
        for owner, name in ((os, "fsync"), (os, "link"), (Path, "replace"), (Path, "unlink")):
            patched.setattr(owner, name, counted(getattr(owner, name)))
        try:
            yield lambda: calls >= step
        except Killed:
            return
