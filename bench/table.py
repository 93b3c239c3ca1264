"""What the reader of a benchmark sees: a table, or one JSON object."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table

from bench.measure import Result, Row

COLOURS = {"on target": "green", "above floor": "yellow", "below floor": "bold red", "not judged": "dim"}
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def quantity(value: float | None, unit: str) -> str:
    """Three significant digits and a prefix: `1.25 ms`, `56.2 M samples/s`."""
    if value is None:
        return "-"
    if unit == "s" and value >= 1:
        return f"{value:.3g} s"
    for scale, prefix in PREFIXES:
        if abs(value) >= scale:
            # A prefix joins a symbol (ms); before a word it stands alone (M samples/s).
            space = " " if prefix and len(unit) > 1 else ""
            return f"{value / scale:.3g} {prefix}{space}{unit}"
    return f"{value:.3g} {unit}"


def bound(value: float | None, row: Row) -> str:
    """A floor or target in the measure it applies to."""
    if value is None:
        return "-"
    return f"{value:.3g}x" if row.judged == "ratio" else quantity(value, row.unit)


def table(results: Iterable[Result]) -> Table:
    """All rows of all benchmarks, for the terminal."""
    drawn = Table(title="ratio: how many times better ours is than the peer", title_justify="left")
    drawn.add_column("benchmark")
    for heading in ("ours", "peer", "ratio", "floor", "target"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    drawn.add_column("verdict", no_wrap=True)
    for result in results:
        for row in result.rows:
            drawn.add_row(
                f"{result.benchmark}: {row.name}",
                quantity(row.ours, row.unit),
                quantity(row.peer, row.unit),
                "-" if row.ratio is None else f"{row.ratio:.3g}x",
                bound(row.floor, row),
                bound(row.target, row),
                f"[{COLOURS[row.verdict]}]{row.verdict}[/]",
            )
    return drawn


def plain(row: Row) -> dict[str, Any]:
    """A row as JSON has it."""
    return {
        "name": row.name,
        "ours": row.ours,
        "peer": row.peer,
        "unit": row.unit,
        "better": row.better,
        "ratio": row.ratio,
        "floor": row.floor,
        "target": row.target,
        "judged": row.judged,
        "verdict": row.verdict,
    }


def json_line(results: Sequence[Result], *, quick: bool, missing: Sequence[str], failed: Sequence[str] = ()) -> str:
    """The same as one JSON object on one line. `missing` names the benchmarks that lack a package, `failed` those that
    came to no result."""
    rows = [{"benchmark": result.benchmark, **plain(row)} for result in results for row in result.rows]
    passed = not missing and not failed and all(result.passed for result in results)
    found = {"quick": quick, "passed": passed, "missing": list(missing), "failed": list(failed), "rows": rows}
    return json.dumps(found)
