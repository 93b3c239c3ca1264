"""Breast cancer in Wisconsin, as scikit-learn ships it: 569 patients, 30 features, dealt out by columns.

The first features and the diagnosis (1: benign) are the active's, the others the passives'. Where the parties align,
each has its patients in an order of its own and, with `overlap` below 1, lacks some that others have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit import bundled

_ORDER = 21  # what a seed is for
SIZE = 569


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one party knows."""

    ids: tuple[str, ...]
    features: NDArray[np.float64]
    columns: tuple[str, ...]
    labels: NDArray[np.int64] | None


def make_parts(
    parties: Sequence[str], active: str, seed: int, *, align: bool = True, overlap: float = 1.0
) -> dict[str, Part]:
    """Each party's part. With `align` false all have the same patients in the same order."""
    if active not in parties or not 2 <= len(parties) <= 30:
        raise ValueError(f"cancer is dealt out to 2 to 30 parties, {active} among them, got {', '.join(parties)}")
    if not 0 < overlap <= 1 or (overlap < 1 and not align):
        raise ValueError(f"overlap must be above 0 and at most 1, and 1 without align, got {overlap}")
    features, labels = bundled.breast_cancer()
    ids = np.array([f"patient-{number:04}" for number in range(len(labels))])
    parts = {}
    ordered = [active, *(name for name in parties if name != active)]
    for place, (name, columns) in enumerate(zip(ordered, np.array_split(np.arange(30), len(ordered)), strict=True)):
        rows = np.arange(len(ids))
        if align:
            order = np.random.default_rng([seed, _ORDER, place]).permutation(len(ids))
            rows = order[: round(overlap * len(ids))]
        parts[name] = Part(
            tuple(ids[rows].tolist()),
            features[np.ix_(rows, columns)],
            tuple(bundled.CANCER_COLUMNS[column].replace(" ", "_") for column in columns),
            labels[rows] if name == active else None,
        )
    return parts
