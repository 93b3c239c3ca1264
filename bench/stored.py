"""Results that are kept: one JSON file a benchmark, of which docs/benchmarks.md is made."""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.measure import Result
from bench.table import plain
from tacit.version import __version__

# Packages whose version a figure may depend on, by the name of their distribution.
PEERS = ("opacus", "opendp", "phe", "openmined-psi", "xgboost-cpu", "flwr", "ray")
PACKAGES = ("numpy", "torch", *PEERS, "cryptography", "gmpy2")


def store(result: Result, folder: Path, *, with_data: bool = False, load: float) -> Path:
    """Write the result of one benchmark, with what it was measured on. `load` is the machine's before it began."""
    path = folder / f"{result.benchmark}.json"
    kept = {
        "benchmark": result.benchmark,
        "command": f"python -m bench {result.benchmark}" + (" --data DIR" if with_data else ""),
        "date": datetime.now(UTC).date().isoformat(),
        "tacit": __version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "packages": versions(PACKAGES),
        "rows": [plain(row) for row in result.rows],
    }
    fresh = path.with_suffix(".tmp")  # an interrupted run leaves the old result or the new one
    fresh.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    fresh.replace(path)
    return path


def versions(names: Sequence[str]) -> dict[str, str]:
    """The versions of those packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def load(path: Path) -> dict[str, Any]:
    """What `store` wrote."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data
