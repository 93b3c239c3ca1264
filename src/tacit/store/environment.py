"""What a run depends on in addition to its settings."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
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
