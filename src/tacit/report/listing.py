"""A run of a list in words: the same in `tacit runs` and on the board."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from tacit.report.numbers import metric, short
from tacit.store.run_summary import Summary

NOTHING = "–"  # what a cell without a figure shows
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Listed:
    """The cells of a run."""

    folder: str
    name: str
    party: str
    state: str
    kind: str
    protection: str
    epsilon: str  # the largest of those that a run has
    covers: str  # what that epsilon covers, and each other
    metric: str
    measured: str  # the name of the metric
    progress: str  # "3/20"
    unit: str
    age: str
    reason: str  # why it ended as it did, or what is damaged


def listed(run: Summary, now: float) -> Listed:
    """A run as a list shows it. `now`: seconds since 1970."""
    most = max(run.spent, key=lambda each: each.epsilon, default=None)
    each = "; ".join(
        f"{spent.of}: {short(spent.epsilon)}" + (f" (δ = {short(spent.delta, 3)})" if spent.delta else "")
        for spent in run.spent
    )
    measured = run.measured
    return Listed(
        folder=clean(run.folder),
        name=clean(run.name),
        party=clean(run.party),
        state=run.state,
        kind=clean(run.kind).replace("_", " "),
        protection=clean(run.protection) or NOTHING,
        epsilon=short(most.epsilon) if most else NOTHING,
        covers=clean(each),
        metric=metric(measured.name, measured.value) if measured else NOTHING,
        measured=clean(measured.name) if measured else "",
        progress=f"{run.done:,}/{run.total:,}" if run.total else NOTHING,
        unit=run.unit,
        age=age(now - run.began) if run.began else NOTHING,
        reason=clean(run.damage or run.reason),
    )


def share_done(run: Summary) -> float:
    """How far it is, from 0 to 1."""
    return min(1.0, max(0.0, (run.done + run.part) / run.total)) if run.total > 0 else 0.0


def age(seconds: float) -> str:
    """How long ago, in one unit."""
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{int(seconds // length):,} {unit}"
    return f"{max(0, int(seconds))} s"


def clean(words: str, longest: int = _LONGEST) -> str:
    """What a run's folder says, as one short line: nothing in it steers a terminal or the direction of reading."""
    shown = "".join(letter if letter.isprintable() else " " for letter in words[: longest + 1])
    return shown if len(words) <= longest else f"{shown[:longest]}…"


def plain(run: Summary) -> dict[str, Any]:
    """A run as JSON: no figure rounded. What is infinite stands as that word, as in ledger.json."""
    found = asdict(run)
    found["spent"] = [
        {"of": each.of, "epsilon": _finite(each.epsilon), "delta": _finite(each.delta)} for each in run.spent
    ]
    if run.measured is not None:
        found["measured"] = {"name": run.measured.name, "value": _finite(run.measured.value)}
    for key in ("began", "last"):
        found[key] = _time(found[key])
    return found


def to_json(value: Any) -> str:
    """JSON that every reader takes: the names of folders may be bytes that are no text."""
    return json.dumps(value, allow_nan=False)


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else "infinite"


def _time(seconds: float) -> str | None:
    """As in events.jsonl; None if it has none."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds") if seconds else None
    except (ValueError, OverflowError, OSError):
        return None
