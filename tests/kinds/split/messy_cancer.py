"""Breast cancer as two messy CSV files: a clinic's with diagnoses and some features, a laboratory's with others."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import bundled

SIZES = ("small", "middle", "large")
_OWN, _ONLY_HERE = 5, 20  # columns of the clinic; people that one of both lacks


@dataclass(frozen=True, eq=False)
class Messy:
    """What the files were made from: of each person, the clinic's numbers, the laboratory's, the size, the label."""

    ids: list[str]
    clinic: NDArray[np.float64]  # NaN where a cell is blank
    laboratory: NDArray[np.float64]
    sizes: list[str]  # "" where a cell is blank
    labels: NDArray[np.int64]
    everywhere: NDArray[np.int64]  # people in both files


def write(folder: Path, *, classes: int = 2, clinic_features: bool = True) -> Messy:
    """Write clinic.csv and laboratory.csv, with blanks, thousands separators, text, and rows in different orders."""
    features, labels = bundled.breast_cancer()
    rng = np.random.default_rng(5)
    features = np.where(rng.random(features.shape) < 0.02, np.nan, np.round(features, 5))
    edges = np.nanquantile(features[:, 3], [1 / 3, 2 / 3])
    sizes = ["" if np.isnan(x) else SIZES[int(np.searchsorted(edges, x))] for x in features[:, 3]]
    if classes == 3:
        radius = bundled.breast_cancer()[0][:, 20]
        labels = np.searchsorted(np.quantile(radius, [0.4, 0.7]), radius)
    names = {2: ["malignant", "benign"], 3: ["first", "second", "third"]}[classes]
    own, other = features[:, :_OWN], features[:, _OWN:]
    ids = [f"P{row:04d}" for row in range(len(labels))]
    here = rng.permutation(len(ids) - _ONLY_HERE)
    there = rng.permutation(np.r_[: len(ids) - 2 * _ONLY_HERE, len(ids) - _ONLY_HERE : len(ids)])
    clinic: list[list[str]] = [["patient", "diagnosis", *(f"c{k}" for k in range(_OWN))]]
    if not clinic_features:
        clinic = [["patient", "diagnosis"]]
    for row in here.tolist():
        cells = [_number(value) for value in own[row]] if clinic_features else []
        clinic.append([f" {ids[row]}", names[int(labels[row])], *cells])
    laboratory = [["id", "size", *(f"l{k}" for k in range(other.shape[1]))]]
    laboratory += [[ids[row], sizes[row], *(_number(value) for value in other[row])] for row in there.tolist()]
    for name, lines in (("clinic", clinic), ("laboratory", laboratory)):
        text = io.StringIO()
        csv.writer(text).writerows(lines)
        (folder / f"{name}.csv").write_text(text.getvalue())
    return Messy(ids, own, other, sizes, labels.astype(np.int64), np.arange(len(ids) - 2 * _ONLY_HERE))


def _number(value: float) -> str:
    return "n/a" if np.isnan(value) else f"{value:,.5f}"


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    """The file of a training on both tables."""
    tables = {name: {"path": str(folder / f"{name}.csv")} for name in ("clinic", "laboratory")}
    return {
        "kind": "split",
        "name": "messy",
        "topology": "V",
        "task": "table",
        "task_options": {"data": tables, "hidden": [16], "cut": 8, "test": 0.25},
        "parties": {"clinic": {"role": "leader", "address": "127.0.0.1:8443"}, "laboratory": {"role": "follower"}},
        "align": True,
        "train": {"epochs": 12, "batch": 32, "learning_rate": 0.005},
        "evaluate": 12,
        "seed": 2,
        **changes,
    }
