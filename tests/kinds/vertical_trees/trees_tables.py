"""Tables on disk and the settings of trees over them: one active and some passives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit.kinds.vertical_trees.settings import Settings


def people(rows: int, columns: int, objective: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features, of which some matter together, and labels for an objective."""
    rng = np.random.default_rng([seed, 27])
    x = rng.normal(size=(rows, columns)).round(3)
    score = x[:, 0] - x[:, -1] + (x[:, 0] > 0) * x[:, -1]
    match objective:
        case "binary":
            return x, (score + rng.normal(size=rows) / 2 > 0).astype(int)
        case "softmax":
            return x, np.digitize(score + rng.normal(size=rows) / 2, [-0.7, 0.7])
        case "poisson":
            return x, rng.poisson(np.exp(score / 3))
        case _:
            return x, (10 * score + rng.normal(size=rows)).round(3)


def of_tables(
    folder: Path, passives: int = 1, *, objective: str = "binary", rows: int = 150, columns: int = 6, **changes: Any
) -> Settings:
    """Settings of `bank`, `shop0` and on, with tables of `rows` people."""
    x, y = people(rows, columns, objective)
    owners = ["bank", *(f"shop{number}" for number in range(passives))]
    settings: dict[str, Any] = {
        "parties": {name: {"role": "active" if name == "bank" else "passive"} for name in owners},
        "train": {"trees": 3, "depth": 3, "objective": objective, "bins": 8},
        "privacy": {"least": 10},
        "align": False,
    }
    for name, value in changes.items():
        settings[name] = {**settings.get(name, {}), **value} if isinstance(value, dict) else value
    data = {}
    for name, part in zip(owners, np.array_split(x, len(owners), axis=1), strict=True):
        lines = [",".join(["id", *(["y"] if name == "bank" else []), *(f"{name}_{k}" for k in range(part.shape[1]))])]
        for row, values in enumerate(part.tolist()):
            lines.append(",".join(map(str, [f"p{row}", *([y[row]] if name == "bank" else []), *values])))
        (folder / f"{name}.csv").write_text("\n".join(lines))
        data[name] = {"path": str(folder / f"{name}.csv")}
    return Settings.model_validate(settings | {"data": data})
