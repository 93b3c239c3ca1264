"""Whether a fault is noticed: the named tests on a copy of the package, and `tacit audit --full` of a file.

copied(folder, patches)             a copy of the package below `folder`, with these patches
tests_of(names, root)               node ids of test functions, wherever they lie
run_tests(nodes, copy, root)        how each ended: "passed", "asserted" (it noticed), "error"
run_audit(file, copy, root)         the claims that are false
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import bench
from bench.sabotage.outcomes import OUTCOMES, PACKAGE
from bench.sabotage.patches import Patch, apply

HANGS = 1800  # seconds after which a process that does not end is given up


class Broken(Exception):
    """The bench cannot judge. The message says why."""


def copied(folder: Path, source: Path, patches: Sequence[Patch]) -> Path:
    """A folder for PYTHONPATH with a patched copy of the package `source`."""
    shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    apply(patches, folder / source.name)
    return folder


def tests_of(names: Iterable[str], root: Path) -> dict[str, str]:
    """The node id of each test function, found by parsing `root`/tests; Broken unless there is exactly one."""
    wanted = set(names)
    found: dict[str, list[str]] = {name: [] for name in wanted}
    for path in sorted((root / "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if wanted.isdisjoint(re.findall(r"def (test_\w+)", source)):
            continue
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in wanted:
                found[node.name].append(f"{path.relative_to(root)}::{node.name}")
    for name, nodes in sorted(found.items()):
        if len(nodes) != 1:
            raise Broken(f"there are {len(nodes)} tests {name}, a fault must name one: {', '.join(nodes) or 'none'}")
    return {name: nodes[0] for name, nodes in found.items()}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a test ended."""

    outcome: str
    error: str


def run_tests(nodes: Sequence[str], copy: Path, root: Path) -> dict[str, Ended]:
    """How each test ended on the package in `copy`, by node id. Broken where pytest itself failed."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder, "outcomes.json")
        environment = _environment(copy) | {OUTCOMES: str(outcomes), PACKAGE: str(copy)}
        options = ["-q", "-m", "", "-p", "bench.sabotage.outcomes", "-p", "no:cacheprovider"]
        ended = _run(["-m", "pytest", *options, *nodes], environment, root)
        if ended.returncode not in (0, 1) or not outcomes.exists():
            raise Broken(f"pytest ended with {ended.returncode}:\n{ended.stdout[-3000:]}{ended.stderr[-1000:]}")
        found = json.loads(outcomes.read_text())
    missing = [node for node in nodes if node not in found]
    if missing:
        raise Broken(f"these tests were not run: {', '.join(missing)}")
    return {node: Ended(**found[node]) for node in nodes}


def run_audit(file: Path, copy: Path, root: Path, seed: int = 0) -> tuple[str, ...]:
    """The attacks by which `tacit audit --full` of `file` calls a claim false. Broken where it comes to no end."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--full", "--json", "--quiet", "--seed", str(seed), "--output", str(Path(folder, "audit.html"))]
        ended = _run(["-m", "tacit", "audit", str(file), *options], _environment(copy), root)
    try:
        found = json.loads(ended.stdout)
    except ValueError:
        shown = (ended.stdout + ended.stderr)[-3000:]
        raise Broken(f"the audit of {file.name} ended with {ended.returncode}:\n{shown}") from None
    false_claims = tuple(each["attack"] for each in found["findings"] if each["refuted"])
    if ended.returncode != (1 if false_claims else 0):
        raise Broken(f"the audit of {file.name} ended with {ended.returncode}, but says {false_claims}")
    return false_claims


def _environment(copy: Path) -> dict[str, str]:
    """In which `tacit` is the copy's, also before an installed one, and `bench` is this one."""
    path = os.pathsep.join([str(copy), str(Path(bench.__file__).parents[1])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def _run(arguments: Sequence[str], environment: Mapping[str, str], root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  # our own commands
        [sys.executable, *arguments], cwd=root, env=dict(environment), capture_output=True, text=True, timeout=HANGS
    )
