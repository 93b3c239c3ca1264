"""Breast cancer, as scikit-learn ships it: 569 records of 30 features, cut between the followers (topology V).

The leader holds the diagnoses. Options: `width` (of each cut), `hidden` (of the top network), `test` (the part of the
records that is held back).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import bundled, partition
from tacit.kinds.split.initial_weights import first_weights
from tacit.kinds.split.task import Bottom, Part, Rows, Seat, Top
from tacit.tables.plain import read_numbers

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    raise ValueError("a split network needs torch: pip install 'tacit-learning[torch]'") from error

Features = NDArray[np.float32]


def make_parts(seat: Seat, width: int = 16, hidden: int = 16, test: float = 0.2) -> Part:
    if seat.topology != "V":
        raise ValueError("split_cancer is trained in topology V: features at the followers, labels at the leader")
    if not 1 <= width <= 1024 or not 1 <= hidden <= 4096 or not 0 <= test <= 0.5:
        raise ValueError(f"width {width}, hidden {hidden}, test {test}: up to 1024, up to 4096, and 0 to 0.5")
    features, labels, order = records(seat.seed)
    if len(seat.followers) > features.shape[1]:
        raise ValueError(f"{features.shape[1]} features cannot be shared out to {len(seat.followers)} followers")
    held_back, rest = order[: int(test * len(order))], order[int(test * len(order)) :]
    place = 0 if seat.role == "leader" else 1 + seat.followers.index(seat.party)
    with first_weights(seat, seat.seed * 100 + place):
        if seat.role == "leader":
            return Top(
                TopNetwork(width * len(seat.followers), hidden),
                dict.fromkeys(seat.followers, (width,)),
                Rows(labels=labels[rest]),
                logistic_loss,
                Rows(labels=labels[held_back]),
                binary_metrics,
            )
        columns = np.array_split(np.arange(features.shape[1]), len(seat.followers))[seat.followers.index(seat.party)]
        own = standardized(features[:, columns], rest)
        bottom = nn.Sequential(nn.Linear(len(columns), width), nn.Tanh())
        return Bottom(bottom, (width,), Rows(own[rest]), Rows(own[held_back]))


def read_rows(seat: Seat, source: Path, test: float = 0.2, **options: Any) -> Rows:
    """New patients from a table: ids first; at a follower then its own columns, in the order of scikit-learn's."""
    table = read_numbers(source)
    if seat.role == "leader":
        return Rows(labels=np.zeros(len(table.ids), dtype=np.float32), ids=tuple(table.ids))
    features, _, order = records(seat.seed)
    own = features[:, np.array_split(np.arange(features.shape[1]), len(seat.followers))[_place(seat)]]
    if table.features.shape[1] != own.shape[1]:
        raise ValueError(f"{source}: {table.features.shape[1]} features, {seat.party} was trained on {own.shape[1]}")
    rest = order[int(test * len(order)) :]
    whole = np.concatenate([own, table.features.astype(np.float32)])
    return Rows(standardized(whole, rest)[len(own) :], ids=tuple(table.ids))


def _place(seat: Seat) -> int:
    return seat.followers.index(seat.party)


def records(seed: int) -> tuple[Features, NDArray[np.float32], NDArray[np.int64]]:
    features, labels = bundled.breast_cancer()
    order = np.random.default_rng([seed, partition.SPLIT]).permutation(len(labels))
    return features.astype(np.float32), labels.astype(np.float32), order


def standardized(features: Features, rest: NDArray[np.int64]) -> Features:
    """By the mean and deviation of the training records of this party's own columns."""
    mean, deviation = features[rest].mean(axis=0), features[rest].std(axis=0)
    found: Features = ((features - mean) / np.maximum(deviation, 1e-6)).astype(np.float32)
    return found


class TopNetwork(nn.Module):  # type: ignore[misc]  # torch may be missing
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, *cuts: Tensor) -> Tensor:
        found: Tensor = self.layers(torch.cat(cuts, dim=1)).squeeze(1)
        return found


def logistic_loss(scores: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(scores, labels)


def binary_metrics(scores: NDArray[np.float32], labels: NDArray[np.float32]) -> dict[str, float]:
    from sklearn.metrics import roc_auc_score

    found = {"accuracy": float(((scores > 0) == (labels > 0.5)).mean())}
    if 0 < labels.mean() < 1:
        found["auc"] = float(roc_auc_score(labels, scores))
    return found
