"""The table of speed in the README, from the stored results: the same figures as on docs/benchmarks.md.

It stands between two comments; a row whose result is not stored is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.measure import Row
from bench.stored import load
from bench.table import quantity
from pages.benchmarks import RESULTS, ROOT

README = ROOT / "README.md"
BEGIN, END = "<!-- speed, by python -m pages -->\n", "<!-- end of speed -->\n"


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of a benchmark under a name that a newcomer understands."""

    what: str
    peer: str
    benchmark: str
    row: str


SHOWN = (Shown("discrete Gaussian noise, σ = 100", "OpenDP", "noise", "discrete Gaussian, sigma 100"),)


def page(readme: Path = README, results: Path = RESULTS) -> str:
    """The README with a new table of speed."""
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table(results) + END + after


def table(results: Path = RESULTS) -> str:
    """The rows whose results are stored."""
    lines = ["| What | Tacit | Peer | Ratio |", "| --- | --- | --- | --- |"]
    for shown in SHOWN:
        path = results / f"{shown.benchmark}.json"
        found = [each for each in load(path)["rows"] if each["name"] == shown.row] if path.exists() else []
        for each in found:
            row = Row(**{key: value for key, value in each.items() if key not in ("ratio", "verdict")})
            peer = f"{shown.peer} {quantity(row.peer, row.unit)}" if row.peer is not None else "–"
            ratio = "–" if row.ratio is None else f"{row.ratio:,.3g} ×"
            lines.append(f"| {shown.what} | {quantity(row.ours, row.unit)} | {peer} | {ratio} |")
    return "\n".join(lines) + "\n"
