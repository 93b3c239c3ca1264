"""What `promtool check metrics` finds wrong with a page, by its published rules (prometheus/util/promlint).

The page is read by the parser of prometheus_client, which is not ours.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

_UNITS = {  # promlint's units that are not base units, and abbreviations
    *["milliseconds", "microseconds", "nanoseconds", "minutes", "hours", "days", "weeks"],
    *["kilobytes", "megabytes", "gigabytes", "bits", "kilobits"],
    *["percent", "fahrenheit", "kelvins", "grams", "kilograms"],
    *["s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "m"],
}
_TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}


def families(page: str) -> dict:
    """The page as prometheus_client reads it: by name (without _total), what stands there."""
    return {family.name: family for family in text_string_to_metric_families(page)}


def samples(page: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Each sample by its name and labels; each may stand there once."""
    found = {}
    for family in families(page).values():
        for each in family.samples:
            key = (each.name, frozenset(each.labels.items()))
            assert key not in found, key
            found[key] = each.value
    return found


def value(page: str, name: str, **labels: str) -> float | None:
    return samples(page).get((name, frozenset(labels.items())))


def lint(page: str) -> list[str]:
    """What is wrong; nothing if all is well."""
    assert page.endswith("\n")
    found = []
    heads = Counter(
        line.split(" ", 3)[1:3][0] + " " + line.split(" ", 3)[2] for line in page.split("\n") if line[:1] == "#"
    )
    found += [f"{head} stands there {count} times" for head, count in heads.items() if count > 1]
    names = [line.split(" ")[2] for line in page.split("\n") if line.startswith("# TYPE ")]
    for family in families(page).values():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name not in names:
            found.append(f"{name}: no TYPE of this name, as of a counter without _total")
        if not family.documentation:
            found.append(f"{name}: no HELP")
        if family.type != "counter" and name.endswith("_total"):
            found.append(f"{name}: only counters end in _total")
        if family.type != "histogram" and name.endswith(("_bucket", "_count", "_sum")):
            found.append(f"{name}: the name is a histogram's")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            found.append(f"{name}: not lower case with underscores")
        parts = set(name.split("_"))
        found += [f"{name}: {part} is no base unit, or short for one" for part in parts & _UNITS]
        found += [f"{name}: {part} is a type" for part in parts & _TYPES]
        for each in family.samples:
            if family.type != "histogram" and "le" in each.labels:
                found.append(f"{name}: le is a histogram's label")
            if not all(re.fullmatch(r"[a-z][a-z0-9_]*", label) for label in each.labels):
                found.append(f"{name}: labels {each.labels}")
            if family.type in ("counter", "histogram") and each.value < 0:
                found.append(f"{name}: below 0")
        if family.type == "histogram":
            found += _of_histogram(family)
    return found


def _of_histogram(family) -> list[str]:
    found, series = [], {}
    for each in family.samples:
        labels = frozenset((key, word) for key, word in each.labels.items() if key != "le")
        series.setdefault(labels, []).append(each)
    for own in series.values():
        buckets = [(float(each.labels["le"]), each.value) for each in own if each.name.endswith("_bucket")]
        counts = [each.value for each in own if each.name.endswith("_count")]
        sums = [each.value for each in own if each.name.endswith("_sum")]
        if [bound for bound, _ in buckets] != sorted({bound for bound, _ in buckets}):
            found.append(f"{family.name}: bounds do not rise")
        if [count for _, count in buckets] != sorted(count for _, count in buckets):
            found.append(f"{family.name}: counts are not cumulative")
        if not buckets or buckets[-1][0] != math.inf or counts != [buckets[-1][1]] or len(sums) != 1:
            found.append(f"{family.name}: no +Inf bucket, _count or _sum, or they differ")
    return found
