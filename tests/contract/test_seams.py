"""What an import loads: a kind no other kind, and nobody gRPC before a transport is made."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENDS = ("hub", "spoke", "star", "star_guest", "star_host", "site", "transport", "tls")


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded afterwards."""
    code = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return set(json.loads(output))


def test_a_kind_loads_neither_grpc_nor_torch_nor_another_kind() -> None:
    loaded = loaded_by("import tacit.kinds.vertical_logistic")
    assert "tacit.kinds.vertical_logistic" in loaded
    assert not loaded & {"grpc", "torch", "tacit.kinds.horizontal", "tacit.kinds.split"}


@pytest.mark.parametrize("module", ["tacit.kinds.vertical_logistic.party", "tacit.lockstep.run"])
def test_parties_in_lock_step_load_no_transport(module: str) -> None:
    assert not loaded_by(f"import {module}") & {"grpc", "torch", "tacit.net.grpc"}


def test_both_ends_of_a_network_load_no_transport_and_no_kind() -> None:
    loaded = loaded_by("\n".join(f"import tacit.net.{name}" for name in ENDS))
    assert "tacit.net.star_host" in loaded
    assert not loaded & {"grpc", "torch", "tacit.net.grpc", "tacit.kinds"}


def test_a_site_loads_grpc_before_anybody_else_can() -> None:
    """A task that loads gRPC itself would have it take TLS 1.2."""
    made = "from tacit.net.site import Site\nSite('127.0.0.1:1', '127.0.0.1:1', None, None)"
    loaded = loaded_by(f"{made}\nimport grpc\nfrom tacit.net.grpc.credentials import ONLY_TLS13\nassert ONLY_TLS13")
    assert "tacit.net.grpc.server" in loaded


def test_every_module_of_the_network_but_the_transport_is_under_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["name"] == "gRPC is a transport"]
    folder = ROOT / "src" / "tacit" / "net"
    modules = {f"tacit.net.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"}
    assert {name for name in contract["source_modules"] if name.startswith("tacit.net.")} == modules
    assert "ignore_imports" not in contract
