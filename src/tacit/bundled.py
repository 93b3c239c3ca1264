"""Tables that scikit-learn ships, read from its files.

Importing `sklearn.datasets` takes as long as everything else that `tacit plan` does for these tasks.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Table = tuple[NDArray[np.float64], NDArray[np.int64]]

_MEASURED = (
    *("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points"),
    *("symmetry", "fractal dimension"),
)
CANCER_COLUMNS = tuple(
    form.format(name) for form in ("mean {}", "{} error", "worst {}") for name in _MEASURED
)  # fmt: skip


def digits() -> Table:
    """1,797 images of 64 pixels from 0 to 16, and the digit of each: `load_digits(return_X_y=True)`."""
    return _features_and_labels("digits.csv.gz", skip=0)


def breast_cancer() -> Table:
    """569 patients of 30 measurements, and 1 for each that is benign: `load_breast_cancer(return_X_y=True)`."""
    return _features_and_labels("breast_cancer.csv", skip=1)


def _features_and_labels(name: str, skip: int) -> Table:
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
    table = np.loadtxt(Path(found.origin).parent / "datasets" / "data" / name, delimiter=",", skiprows=skip)
    return table[:, :-1], table[:, -1].astype(np.int64)
