"""The page docs/benchmarks.md, from the stored results in docs/benchmarks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.__main__ import benchmark_names
from bench.measure import Row
from bench.stored import load
from bench.table import bound, quantity

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "benchmarks"
_OPENING = """\
# Benchmarks

Made by `python -m pages` from the stored results in `docs/benchmarks`. `make bench` runs all benchmarks and stores
their results; `python -m bench NAME --store docs/benchmarks` runs one.

Ours and the peer are measured in turn in one run. *Ratio* says how many times better ours is than the peer: less time,
fewer bytes, or more units a second. Seconds differ between machines, ratios much less. A row has a *floor*, below which
the benchmark fails, and a *target*."""


def page(results: Path = RESULTS) -> str:
    """The page of all benchmarks. One whose results are not stored is named with its command."""
    lines = [_OPENING]
    for name in benchmark_names():
        lines += ["", f"## {name.replace('_', ' ').capitalize()}", "", _first_paragraph(name), ""]
        path = results / f"{name}.json"
        lines += _measured(load(path)) if path.exists() else [f"No result is stored: run `python -m bench {name}`."]
    return "\n".join(lines) + "\n"


def _first_paragraph(name: str) -> str:
    source = (ROOT / "bench" / f"{name}.py").read_text(encoding="utf-8")
    words = ast.get_docstring(ast.parse(source)) or ""
    return " ".join(words.partition("\n\n")[0].split())


def _measured(result: dict[str, Any]) -> Iterator[str]:
    packages = ", ".join(f"{name} {version}" for name, version in result["packages"].items())
    load = f", load {result['load']} before it began" if "load" in result else ""
    yield (
        f"`{result['command']}`, {result['date']}, Tacit {result['tacit']}, Python {result['python']}, "
        f"{result['cores']} cores{load}; {packages}."
    )
    yield from ["", "| what | ours | peer | ratio | floor | target | verdict |"]
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for each in result["rows"]:
        row = Row(**{key: value for key, value in each.items() if key not in ("ratio", "verdict")})
        ratio = "–" if row.ratio is None else f"{row.ratio:.3g} ×"
        cells = (row.name, quantity(row.ours, row.unit), quantity(row.peer, row.unit), ratio)
        bounds = (bound(row.floor, row), bound(row.target, row), row.verdict)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in (*cells, *bounds)) + " |"
