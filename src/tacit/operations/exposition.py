"""The text format of Prometheus (version 0.0.4).

text([Family("tacit_round", "gauge", "The round.", (Sample(4.0),)), ...])
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    value: float
    labels: tuple[tuple[str, str], ...] = ()
    suffix: str = ""  # of a histogram: _bucket, _sum or _count


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]


def text(families: Iterable[Family]) -> str:
    """The page. A family without samples is left out."""
    lines = []
    for family in families:
        if family.samples:
            lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
            lines += [
                f"{family.name}{each.suffix}{_labels(each.labels)} {_number(each.value)}" for each in family.samples
            ]
    return "\n".join(lines) + "\n"


def by_label(name: str, values: Mapping[str, float]) -> tuple[Sample, ...]:
    """One sample for each value of a label."""
    return tuple(Sample(value, ((name, label),)) for label, value in values.items())


@dataclass(slots=True)
class Histogram:
    """Observations in buckets, each with an upper bound; one more has no bound."""

    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value; one that is no number belongs into no bucket."""
        if not math.isnan(value):
            self.counts[bisect_left(self.bounds, value)] += 1
            self.total += value

    def samples(self, labels: tuple[tuple[str, str], ...] = ()) -> Iterable[Sample]:
        """Cumulative counts up to each bound, then sum and count."""
        below = 0
        for bound, count in zip((*self.bounds, math.inf), self.counts, strict=True):
            below += count
            yield Sample(below, (*labels, ("le", _number(bound))), "_bucket")
        yield Sample(self.total, labels, "_sum")
        yield Sample(below, labels, "_count")


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))
