"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LONGEST = 300


def short(value: float, digits: int = 4) -> str:
    """A number for people: up to `digits` digits, powers of ten where it is very large or small."""
    if not math.isfinite(value):
        return "∞" if value == math.inf else "−∞" if value == -math.inf else "no number"
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 10**6:
        factor, power = f"{value:.{digits - 1}e}".split("e")
        factor = factor.rstrip("0").rstrip(".") if "." in factor else factor
        sign = "−" if factor.startswith("-") else ""
        factor = factor.lstrip("-")
        tens = f"10{str(int(power)).translate(_SUPERSCRIPT)}"
        return f"{sign}{tens}" if factor == "1" else f"{sign}{factor}×{tens}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    fixed = f"{value:,.{decimals}f}"
    return (fixed.rstrip("0").rstrip(".") if "." in fixed else fixed).replace("-", "−")


def or_nothing(value: float | None) -> str:
    """Nothing where there is no number."""
    return "" if value is None or not math.isfinite(value) else short(value)


def percent(part: float) -> str:
    """Never 100% where it is less."""
    if part >= 1:
        return "100%"
    if part > 0.9999:
        return "99.99…%"
    return f"{100 * part:.2f}".rstrip("0").rstrip(".") + "%" if part > 0.99 else f"{100 * part:.1f}%"


def at_most(part: float) -> str:
    """A bound in percent: never less than it is."""
    return f"{min(100.0, math.ceil(1000 * part - 1e-9) / 10):g}%"


def metric(name: str, value: float) -> str:
    """A task's metric: an accuracy in percent, any other as it is."""
    return percent(value) if name == "accuracy" and 0 <= value <= 1 else short(value)


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{short(seconds, 3)} s"
    return f"{short(seconds / 60, 3)} min" if seconds < 7200 else f"{short(seconds / 3600, 3)} h"


def size(count: float) -> str:
    """Bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def numbered(rounds: Sequence[int]) -> str:
    """Rounds that count from 0 in rising order, as people count them: 1, 5-7."""
    runs: list[list[int]] = []
    for round in rounds:
        if runs and round == runs[-1][-1] + 1:
            runs[-1].append(round)
        else:
            runs.append([round])
    return ", ".join(f"{run[0] + 1}" if len(run) == 1 else f"{run[0] + 1}–{run[-1] + 1}" for run in runs)


def cut(reason: str) -> str:
    """The beginning of what another party wrote."""
    return reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
