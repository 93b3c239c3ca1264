"""The package as a whole: its version, what importing it costs, and the contracts that guard its imports."""

import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import tacit

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "sklearn", "scipy", "matplotlib", "ray", "flwr", "grpc", "pydantic", "dp_accounting"}
PURE = (
    "crypto",
    "dp",
    "wire",
    "channel",
    "secagg",
    "align",
    "oblivious",
    "kinds/vertical_logistic/protocol",
    "kinds/vertical_logistic/shared",
    "kinds/vertical_logistic/two_party",
    "kinds/vertical_trees/protocol",
    "kinds/horizontal/alone",
    "kinds/horizontal/client",
    "kinds/horizontal/coordinator",
    "kinds/horizontal/masked",
)


def test_version_is_that_of_the_installed_distribution() -> None:
    assert tacit.__version__ == importlib.metadata.version("tacit-learning")


def test_import_loads_no_heavy_module() -> None:
    code = "import json, sys, tacit; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    loaded = {name.partition(".")[0] for name in json.loads(output)}
    assert "tacit" in loaded
    assert not loaded & HEAVY


def test_every_pure_package_is_under_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if "pure" in contract["name"]]
    package = ROOT / "src" / "tacit"
    present = [name for name in PURE if (package / name).is_dir() or (package / f"{name}.py").exists()]
    assert sorted(contract["source_modules"]) == sorted(f"tacit.{name.replace('/', '.')}" for name in present)
