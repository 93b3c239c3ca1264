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
    """A row of a benchmark, by its name without a remark in brackets, under words that a newcomer understands."""

    what: str
    peer: str
    benchmark: str
    row: str


SHOWN = (
    Shown("discrete Gaussian noise, σ = 100", "OpenDP", "noise", "discrete Gaussian, sigma 100"),
    Shown(
        "secure aggregation, a round of 50 clients, 30% dropped",
        "Flower SecAgg+",
        "secagg",
        "whole round against Flower SecAgg+, n 50, d 100000",
    ),
    Shown(
        "a simulated round of 100 clients, 1,000,000 floats",
        "Flower",
        "simulation",
        "a round of 100 clients, 1,000,000 floats",
    ),
    Shown("private SGD, MLP, a step", "Opacus ghost", "private_sgd", "MLP: a step, opacus ghost"),
    Shown("private SGD, GPT, a step", "Opacus hooks", "private_sgd", "GPT: a step, opacus hooks"),
    Shown(
        "alignment of 100,000 ids a side, CPU", "openmined-psi", "psi", "100,000 × 100,000 ids: CPU, one worker each"
    ),
    Shown(
        "regression under Paillier, 3072 bits, a step of 512 × 30, CPU",
        "phe",
        "vertical_logistic",
        "step against phe, CPU, 512 x 30, 3072 bits",
    ),
    Shown(
        "regression on shares, a step of 512 × 30, CPU",
        "SPU semi2k",
        "vertical_shared",
        "step against SPU semi2k, CPU, 512 x 30",
    ),
    Shown(
        "regression between two parties without a dealer, a step of 512 × 30, CPU",
        "SPU cheetah",
        "vertical_shared",
        "step without a dealer against SPU cheetah, CPU, 512 x 30",
    ),
)


def is_row(name: str, shown: Shown) -> bool:
    """Whether a row of that name is the one that is shown."""
    return name == shown.row or name.startswith(f"{shown.row} (")


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
        found = [each for each in load(path)["rows"] if is_row(each["name"], shown)] if path.exists() else []
        for each in found:
            row = Row(**{key: value for key, value in each.items() if key not in ("ratio", "verdict")})
            peer = f"{shown.peer} {quantity(row.peer, row.unit)}" if row.peer is not None else "–"
            ratio = "–" if row.ratio is None else f"{row.ratio:,.0f} ×" if row.ratio >= 100 else f"{row.ratio:.3g} ×"
            lines.append(f"| {shown.what} | {quantity(row.ours, row.unit)} | {peer} | {ratio} |")
    return "\n".join(lines) + "\n"
