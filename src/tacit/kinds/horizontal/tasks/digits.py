"""Handwritten digits, 8 by 8 pixels, as scikit-learn ships them: 1,797 images, a fifth of them the coordinator's.

Options: `split` (iid, or dirichlet with `alpha`), `network` (softmax, or mlp: a small torch network).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from tacit import bundled, partition
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.tasks.softmax import Features, Labels, SoftmaxTask

Split = Literal["iid", "dirichlet"]
Samples = tuple[Features, Labels]


def make_task(
    clients: int,
    seed: int,
    split: Split = "iid",
    alpha: float = 0.5,
    network: Literal["softmax", "mlp"] = "softmax",
) -> Task:
    data, test = dealt_out(clients, seed, split, alpha)
    match network:
        case "softmax":
            return SoftmaxTask(data, test, classes=10)
        case "mlp":
            from tacit.kinds.horizontal.tasks.mlp import MlpTask

            return MlpTask(data, test, classes=10, seed=seed)
        case _:
            raise ValueError(f"network must be softmax or mlp, got {network!r}")


def dealt_out(clients: int, seed: int, split: Split, alpha: float) -> tuple[list[Samples], Samples]:
    """Each client's images and labels, and those that the coordinator holds back."""
    images, y = bundled.digits()
    x = (images / 16).astype(np.float32)
    rng = np.random.default_rng([seed, partition.SPLIT])
    order = rng.permutation(len(y))
    held_back, rest = order[: len(y) // 5], order[len(y) // 5 :]
    match split:
        case "iid":
            parts = partition.iid(len(rest), clients, rng)
        case "dirichlet":
            parts = partition.dirichlet(y[rest], clients, alpha, rng)
        case _:
            raise ValueError(f"split must be iid or dirichlet, got {split!r}")
    return [(x[rest[part]], y[rest[part]]) for part in parts], (x[held_back], y[held_back])
