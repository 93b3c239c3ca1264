"""What a run depends on in addition to its settings."""

from __future__ import annotations

import hashlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from tacit.version import __version__

_PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "cryptography",
    "gmpy2",
    "randomgen",
    "dp-accounting",
    "msgspec",
    "safetensors",
    "pydantic",
    "torch",
)


def environment() -> dict[str, Any]:
    """Versions and processors. No user, host or path is in it: a run may be handed on."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "packages": {"tacit": __version__, **_versions()},
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed
    return found


def package_digest() -> str:
    """A digest of the Python source of the installed package, by which others can tell whether it is the released one.

    SHA-256 over a line for each file: its path in the package, and the SHA-256 of its bytes, in order.
    """
    root = Path(str(files("tacit")))
    lines = [
        f"{path.relative_to(root).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix())
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
