"""Tables of the parties' own: each follower has features, the leader has labels and perhaps features (topology V).

Options: `data` (see `party_tables`), `hidden` (widths of the hidden layers of every network), `cut` (numbers of a
record that cross each cut), `test` (the part of the records that is held back). The networks are small perceptrons.

Transforms and scales are fitted on the training records, once the records that all parties have are known. They are
kept with the party's part, and a prediction applies them as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit import partition
from tacit.kinds.split.initial_weights import first_weights
from tacit.kinds.split.inputs import Inputs
from tacit.kinds.split.party_tables import data_of, no_data
from tacit.kinds.split.task import Bottom, Kept, Part, Rows, Seat, Shape, Top, Unfitted
from tacit.kinds.split.tasks.cancer import binary_metrics, logistic_loss
from tacit.kinds.split.tasks.digits import accuracy
from tacit.tables.cells import take
from tacit.tables.labels import Labels
from tacit.tables.settings import Data
from tacit.tables.table import Table, open_rows, open_table

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    raise ValueError("a split network needs torch: pip install 'tacit-learning[torch]'") from error

_CLASSES = "classes"  # among what the leader keeps: JSON in bytes
_MOST_LAYERS, _WIDEST = 8, 4096


def make_parts(
    seat: Seat, data: Any = None, hidden: Sequence[int] = (32,), cut: int = 8, test: float = 0.2
) -> Unfitted:
    """This party's table, checked; its part is made once the common rows are known."""
    _check(seat, hidden, cut, test)
    given = data_of({"data": data}, seat)
    if given is None:
        raise ValueError(no_data(seat.party))
    table = open_table(*given, label="classes" if seat.role == "leader" else None)
    if seat.role != "leader" and all(choice.use == "drop" for choice in table.choices):
        raise ValueError(f"{table.where}: no column is left to learn from: a follower brings one or more")

    def fit(rows: NDArray[np.int64], kept: Kept | None) -> Bottom | Top:
        order = np.random.default_rng([seat.seed, partition.SPLIT]).permutation(len(rows))
        held_back, rest = (np.sort(part) for part in np.split(order, [int(test * len(order))]))
        if not len(rest):
            raise ValueError(f"{table.where}: no record is left to train on")
        inputs = Inputs.fit(table, rows[rest]) if kept is None else Inputs.restore(kept)
        rows_of = (_rows(table, inputs, rows[part]) for part in (rest, held_back))
        return _part(seat, inputs, _classes_of(table), hidden, cut, *rows_of)

    return Unfitted(tuple(table.ids), fit, table.notes, table.left_out, table.where)


def restored_part(
    seat: Seat, kept: Kept, data: Any = None, hidden: Sequence[int] = (32,), cut: int = 8, test: float = 0.2
) -> Part:
    """The part of a stored model, without records: the table of the training is not needed."""
    _check(seat, hidden, cut, test)
    classes = json.loads(np.asarray(kept[_CLASSES], dtype=np.uint8).tobytes()) if _CLASSES in kept else ()
    return _part(seat, Inputs.restore(kept), tuple(classes), hidden, cut, Rows(), Rows())


def read_rows(seat: Seat, source: Path, kept: Kept, data: Any = None, **options: Any) -> Rows:
    """New records from a table: columns by name in any order. No label is needed."""
    given = data_of({"data": data}, seat)
    section = given[0] if given is not None else Data(path="")
    inputs = Inputs.restore(kept)
    changes = {"path": str(source.absolute()), "source": None}
    new = open_rows(section.model_copy(update=changes), Path(), inputs.transforms)
    features = inputs.apply(new.cells) if inputs.width else None
    return Rows(features, ids=tuple(new.ids))


def cuts(seat: Seat, cut: int = 8, **options: Any) -> dict[str, Shape]:
    """The shape of each follower's cut, which needs no table."""
    return dict.fromkeys(seat.followers, (cut,))


def _check(seat: Seat, hidden: Sequence[int], cut: int, test: float) -> None:
    if seat.topology != "V":
        raise ValueError("table is trained in topology V: features at the followers, labels at the leader")
    whole = isinstance(hidden, list | tuple) and all(type(width) is int and 1 <= width <= _WIDEST for width in hidden)
    if not whole or len(hidden) > _MOST_LAYERS:
        raise ValueError(f"hidden is {hidden!r:.60}: give a list of up to {_MOST_LAYERS} widths from 1 to {_WIDEST}")
    if type(cut) is not int or not 1 <= cut <= _WIDEST:
        raise ValueError(f"cut is {cut!r:.60}: give a whole number from 1 to {_WIDEST}")
    if type(test) not in (int, float) or not 0 <= test <= 0.5:
        raise ValueError(f"test is {test!r:.60}: give the part of the records to hold back, from 0 to 0.5")


def _classes_of(table: Table) -> tuple[str, ...]:
    return table.labels.classes if isinstance(table.labels, Labels) else ()


def _rows(table: Table, inputs: Inputs, rows: NDArray[np.int64]) -> Rows:
    """Some rows of the table as a network takes them."""
    features = inputs.apply({name: take(table.cells[name], rows) for name in inputs.transforms.names})
    ids = tuple(table.ids[row] for row in rows.tolist())
    if not isinstance(table.labels, Labels):
        return Rows(features, ids=ids)
    codes = table.labels.codes[rows]
    labels = codes.astype(np.float32) if len(table.labels.classes) == 2 else codes
    return Rows(features if inputs.width else None, labels, ids)


def _part(
    seat: Seat, inputs: Inputs, classes: tuple[str, ...], hidden: Sequence[int], cut: int, train: Rows, test: Rows
) -> Bottom | Top:
    place = 0 if seat.role == "leader" else 1 + seat.followers.index(seat.party)
    with first_weights(seat, seat.seed * 100 + place):
        if seat.role != "leader":
            return Bottom(bottom_network(inputs.width, hidden, cut), (cut,), train, test, inputs.state())
        bottom = bottom_network(inputs.width, hidden, cut) if inputs.width else None
        width = cut * (len(seat.followers) + (bottom is not None))
        several = len(classes) > 2
        return Top(
            TopNetwork(width, hidden, len(classes) if several else 1),
            cuts(seat, cut),
            train,
            nn.functional.cross_entropy if several else logistic_loss,
            test,
            accuracy if several else binary_metrics,
            bottom,
            len(classes) if several else None,
            classes if several else (),
            {**inputs.state(), _CLASSES: np.frombuffer(json.dumps(classes).encode(), dtype=np.uint8).copy()},
        )


def bottom_network(features: int, hidden: Sequence[int], cut: int) -> nn.Module:
    """From the features of a record to the cut, between -1 and 1. Records are not mixed."""
    layers: list[nn.Module] = []
    for before, after in pairwise((features, *hidden)):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear((features, *hidden)[-1], cut), nn.Tanh())


class TopNetwork(nn.Module):  # type: ignore[misc]  # torch may be missing
    """From all cuts to one score, or to one of each class. The normalisation is of a record by itself."""

    def __init__(self, width: int, hidden: Sequence[int], scores: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in pairwise((width, *hidden)):
            layers += [nn.Linear(before, after), nn.LayerNorm(after), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear((width, *hidden)[-1], scores))

    def forward(self, *cuts: Tensor) -> Tensor:
        found: Tensor = self.layers(torch.cat(cuts, dim=1))
        return found.squeeze(1) if found.shape[1] == 1 else found
