"""Handwritten digits, 8 by 8 pixels, as scikit-learn ships them: each follower holds some rows of the images.

A convolutional network on its pixels is a follower's part; the leader holds the labels (topology V). Options:
`channels` (of the convolutions), `width` (of each cut), `test` (the part of the records that is held back).
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

SIDE, CLASSES = 8, 10


def make_parts(seat: Seat, channels: int = 16, width: int = 64, test: float = 0.2) -> Part:
    if seat.topology != "V":
        raise ValueError("split_digits is trained in topology V: pixels at the followers, labels at the leader")
    if not 1 <= channels <= 1024 or not 1 <= width <= 4096 or not 0 <= test <= 0.5:
        raise ValueError(f"channels {channels}, width {width}, test {test}: up to 1024, up to 4096, and 0 to 0.5")
    if len(seat.followers) > SIDE:
        raise ValueError(f"{SIDE} rows of pixels cannot be shared out to {len(seat.followers)} followers")
    images, labels, order = records(seat.seed)
    held_back, rest = order[: int(test * len(order))], order[int(test * len(order)) :]
    place = 0 if seat.role == "leader" else 1 + seat.followers.index(seat.party)
    with first_weights(seat, seat.seed * 100 + place):
        if seat.role == "leader":
            return Top(
                TopNetwork(width * len(seat.followers)),
                dict.fromkeys(seat.followers, (width,)),
                Rows(labels=labels[rest]),
                nn.functional.cross_entropy,
                Rows(labels=labels[held_back]),
                accuracy,
                classes=CLASSES,
            )
        lines = np.array_split(np.arange(SIDE), len(seat.followers))[seat.followers.index(seat.party)]
        own = np.ascontiguousarray(images[:, :, lines])
        return Bottom(BottomNetwork(len(lines), channels, width), (width,), Rows(own[rest]), Rows(own[held_back]))


def read_rows(seat: Seat, source: Path, **options: Any) -> Rows:
    """New images from a table: ids first; at a follower then the pixels of its own lines, from 0 to 16."""
    table = read_numbers(source)
    if seat.role == "leader":
        return Rows(labels=np.zeros(len(table.ids), dtype=np.int64), ids=tuple(table.ids))
    lines = len(np.array_split(np.arange(SIDE), len(seat.followers))[seat.followers.index(seat.party)])
    if table.features.shape[1] != lines * SIDE:
        raise ValueError(f"{source}: {table.features.shape[1]} pixels, {seat.party} was trained on {lines * SIDE}")
    pixels = (table.features / 16).astype(np.float32).reshape(-1, 1, lines, SIDE)
    return Rows(pixels, ids=tuple(table.ids))


def records(seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    images, labels = bundled.digits()
    order = np.random.default_rng([seed, partition.SPLIT]).permutation(len(labels))
    return (images / 16).astype(np.float32).reshape(-1, 1, SIDE, SIDE), labels, order


class BottomNetwork(nn.Module):  # type: ignore[misc]  # torch may be missing
    def __init__(self, lines: int, channels: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(channels * lines * SIDE, width),
            nn.LayerNorm(width),  # a record by itself: its signs are its bits
        )

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.layers(images)
        return found


class TopNetwork(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, CLASSES))

    def forward(self, *cuts: Tensor) -> Tensor:
        found: Tensor = self.layers(torch.cat(cuts, dim=1))
        return found


def accuracy(scores: NDArray[np.float32], labels: NDArray[np.int64]) -> dict[str, float]:
    return {"accuracy": float((scores.argmax(axis=1) == labels).mean())}
