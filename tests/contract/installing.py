"""Packages that offer protections, put on sys.path as an installation would: a folder with a `.dist-info` beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tacit.config.explain import _whole
from tacit.kinds.horizontal import protections

TOYS = Path(__file__).parent / "toys"  # LAPLACE_UPDATES and COARSE_SUMS
TOY_NAMES = ("COARSE_SUMS", "LAPLACE_UPDATES")


@contextmanager
def installed(folder: Path = TOYS) -> Iterator[None]:
    """With the packages of `folder`, here and in the processes that are started meanwhile."""
    before = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder) if before is None else f"{folder}{os.pathsep}{before}")
        _look_again()
        yield
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
    _look_again()


def _look_again() -> None:
    """What is installed is read once in a process."""
    protections._installed.cache_clear()
    protections._found.clear()
    _whole.cache_clear()  # the names of all protections stand in the schema of the settings


def package(folder: Path, module: str, source: str, offers: Mapping[str, str]) -> None:
    """Write a package of one module that offers protections: names, and the objects of the module."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = [f"{name} = {module}:{attribute}" for name, attribute in offers.items()]
    (info / "entry_points.txt").write_text("\n".join(["[tacit.protections]", *lines, ""]))
