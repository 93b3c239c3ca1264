"""Tables on disk and the settings of a training on shares over them: one active, some passives and a dealer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.kinds.vertical_logistic.settings import Settings
from tests.kinds.vertical_logistic.parties import labelled


def of_tables(
    folder: Path,
    passives: int,
    *,
    labels: str = "two",
    woe: bool = False,
    rows: int = 400,
    dealer: bool = True,
    **changes: Any,
) -> Settings:
    """Settings of `bank`, `shop0` and on, and the dealer `notary`; tables of `rows` people with 12 columns in all."""
    x, y = labelled(rows, 12, labels)
    owners = ["bank", *(f"shop{number}" for number in range(passives))]
    settings: dict[str, Any] = {
        "model": "linear" if labels == "linear" else "logistic",
        "parties": {name: {"role": "active" if name == "bank" else "passive"} for name in owners}
        | ({"notary": {"role": "dealer"}} if dealer else {}),
        "protocol": "shared",
        "train": {"epochs": 1, "batch": 200, "test": 0.2},
        "paillier": {"bits": 512},
    }
    for name, value in changes.items():
        settings[name] = {**settings.get(name, {}), **value} if isinstance(value, dict) else value
    data: dict[str, dict[str, Any]] = {}
    parts = dict(zip(owners, np.array_split(x, len(owners), axis=1), strict=True))
    for name, part in parts.items():
        lines = [",".join(["id", *(["y"] if name == "bank" else []), *(f"x{k}" for k in range(part.shape[1]))])]
        for row, values in enumerate(part.tolist()):
            lines.append(",".join(map(str, [f"p{row}", *([y[row]] if name == "bank" else []), *values])))
        (folder / f"{name}.csv").write_text("\n".join(lines))
        data[name] = {"path": str(folder / f"{name}.csv")}
    if woe:
        data["bank"]["label_counts"] = True
        data["shop0"]["columns"] = {"x0": {"use": "woe", "bins": 4}, "x1": "woe"}
    return Settings.model_validate(settings | {"data": data})
