"""Reading, writing and comparing what is frozen."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

VALUES = Path(__file__).parent / "values"
Arrays = dict[str, np.ndarray]

# Sums in another order, by another processor, change the last bits; a few steps of training make them a little more.
CLOSE = 1e-4


def read(name: str) -> Any:
    return json.loads((VALUES / f"{name}.json").read_text())


def write(name: str, data: Any) -> None:
    VALUES.mkdir(exist_ok=True)
    (VALUES / f"{name}.json").write_text(_lines(data, "") + "\n")


def _lines(value: Any, indent: str) -> str:
    """JSON, with a line for each item of what is not small."""
    flat = json.dumps(value, ensure_ascii=False)
    inner = indent + " "
    if len(flat) + len(indent) <= 120 or not isinstance(value, dict | list):
        return flat
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + _lines(item, inner) for item in value) + f"\n{indent}]"
    items = (f"{inner}{json.dumps(key)}: {_lines(item, inner)}" for key, item in value.items())
    return "{\n" + ",\n".join(items) + f"\n{indent}}}"


def read_arrays(name: str) -> Arrays:
    return safetensors.numpy.load_file(VALUES / f"{name}.safetensors")


def write_arrays(name: str, arrays: Arrays) -> None:
    safetensors.numpy.save_file(dict(sorted(arrays.items())), VALUES / f"{name}.safetensors")


def differences(frozen: Any, now: Any, close: float = 0.0, where: str = "") -> Iterator[str]:
    """Where two pieces of plain data differ; numbers by more than `close` of their size, and of 1 if they are small."""
    if isinstance(frozen, dict) and isinstance(now, dict):
        if list(frozen) != list(now):
            yield f"{where}: keys were {list(frozen)}, are {list(now)}"
        for key in frozen.keys() & now.keys():
            yield from differences(frozen[key], now[key], close, f"{where}/{key}")
    elif isinstance(frozen, list) and isinstance(now, list):
        if len(frozen) != len(now):
            yield f"{where}: {len(frozen)} items were, {len(now)} are"
        for number, (one, other) in enumerate(zip(frozen, now, strict=False)):
            yield from differences(one, other, close, f"{where}/{number}")
    elif isinstance(frozen, float) and isinstance(now, float) and close:
        if not math.isclose(frozen, now, rel_tol=close, abs_tol=close):
            yield f"{where}: was {frozen!r}, is {now!r}"
    elif frozen != now or type(frozen) is not type(now):
        yield f"{where}: was {frozen!r}, is {now!r}"


def far_apart(frozen: Arrays, now: Arrays, close: float = CLOSE) -> Iterator[str]:
    """Arrays that differ by more than `close`, of their own size or of their array's largest number."""
    if sorted(frozen) != sorted(now):
        yield f"arrays were {sorted(frozen)}, are {sorted(now)}"
    for name in frozen.keys() & now.keys():
        one, other = frozen[name], now[name]
        if one.shape != other.shape or one.dtype != other.dtype:
            yield f"{name}: was {one.dtype} {one.shape}, is {other.dtype} {other.shape}"
            continue
        scale = float(np.abs(one.astype(np.float64)).max(initial=0.0))
        gap = float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max(initial=0.0))
        if not gap <= close * scale:
            yield f"{name}: up to {gap:g} apart, with numbers up to {scale:g}"
