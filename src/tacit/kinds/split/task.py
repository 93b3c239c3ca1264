"""What a task of a split training is: each party's own part of the network, with its own records.

A file names `package.module:make_parts`, a function `make_parts(seat, **task_options) -> Part` that every party calls
for itself: it builds this party's part and loads this party's records, and nothing of the others'. The part is

    Bottom      topology V, a follower: a network from its features to the cut
    Top         topology V, the leader: labels, a network from all cuts to scores, perhaps features of its own
    Ends        topology U, the leader: records, labels, an embedding before the cut and a head after it
    Trunk       topology U, the follower: the network in between

A `Bottom` or `Top` that depends on which records all parties have, as transforms that are fitted on the training
records do, cannot be made before these are known. Its maker returns an `Unfitted`, which makes the part after the
alignment. What such a part needs in a prediction it names as `kept`: that is stored with the weights, and handed to two
more functions next to `make_parts`:

    restored_part(seat, kept, **task_options) -> Part       the part without records, before its weights are put in
    read_rows(seat, source, kept=kept, **task_options)      new records, as those of the training were made

A part that keeps nothing is made anew for a prediction, and its `read_rows` is not given `kept`. A task whose records
may be elsewhere when a plan is made has `cuts(seat, **task_options)`, the shape of each follower's cut by its name.

Networks see activations in batches, records first. Under `embedding_dp` they arrive as -1 and 1, so that the network
behind the cut does well to begin with a linear layer and a normalisation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.kinds.split.settings import Role, Settings, Topology

Array = NDArray[Any]
Shape = tuple[int, ...]
Loss = Callable[[Tensor, Tensor], Tensor]  # scores and labels of a batch: the mean over its records
Metrics = Callable[[Array, Array], dict[str, float]]  # of all scores and labels
Kept = Mapping[str, Array]  # what a part needs in a prediction in addition to its weights


@dataclass(frozen=True, slots=True)
class Seat:
    """Whose part is wanted."""

    party: str
    role: Role
    topology: Topology
    leader: str
    followers: tuple[str, ...]
    seed: int
    quantized: bool  # whether activations cross the cut as bits
    secret: bool = False  # over a network, where first weights must not be drawn from the seed: see `initial_weights`
    own_options: frozenset[str] = frozenset()  # names of the task_options that this party's local file gives
    folder: Path = Path()  # that paths in the local file are relative to

    @classmethod
    def of(
        cls,
        settings: Settings,
        party: str,
        *,
        secret: bool = False,
        own_options: frozenset[str] = frozenset(),
        folder: Path = Path(),
    ) -> Seat:
        if party not in settings.parties:
            raise ValueError(f"{party!r} is not a party of this file: use one of {', '.join(settings.parties)}")
        return cls(
            party,
            settings.parties[party].role,
            settings.topology,
            settings.leader,
            settings.followers,
            settings.seed,
            settings.embedding_dp is not None,
            secret,
            own_options,
            folder,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Records of one party, in the order that all parties have agreed on: features, labels or both."""

    features: Array | None = None
    labels: Array | None = None
    ids: tuple[str, ...] | None = None  # to align by

    def __post_init__(self) -> None:
        lengths = {len(column) for column in (self.features, self.labels, self.ids) if column is not None}
        if len(lengths) > 1:
            raise ValueError(f"features, labels and ids differ in length: {', '.join(map(str, sorted(lengths)))}")

    def __len__(self) -> int:
        return next((len(column) for column in (self.features, self.labels, self.ids) if column is not None), 0)

    def take(self, order: NDArray[np.int64]) -> Rows:
        """These records only, in this order."""
        return Rows(
            None if self.features is None else self.features[order],
            None if self.labels is None else self.labels[order],
            None if self.ids is None else tuple(self.ids[int(index)] for index in order),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Bottom:
    network: nn.Module
    cut: Shape  # of one record
    train: Rows
    test: Rows = field(default_factory=Rows)
    kept: Kept = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Top:
    """`network` is called with one tensor for each follower, in the file's order, and then that of `bottom`, if any."""

    network: nn.Module
    cuts: Mapping[str, Shape]  # by follower
    train: Rows
    loss: Loss
    test: Rows = field(default_factory=Rows)
    metrics: Metrics | None = None
    bottom: nn.Module | None = None
    classes: int | None = None  # of labels that are whole numbers
    class_names: tuple[str, ...] = ()  # of several classes, for the header of predictions
    kept: Kept = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    embedding: nn.Module
    head: nn.Module
    cut: Shape  # of one record, from the embedding to the trunk
    back_cut: Shape  # from the trunk to the head
    train: Rows
    loss: Loss
    test: Rows = field(default_factory=Rows)
    metrics: Metrics | None = None
    classes: int | None = None
    unit: str = "records"
    units: int = 1  # in a record: tokens, say


@dataclass(frozen=True, slots=True, eq=False)
class Trunk:
    network: nn.Module
    cut: Shape
    back_cut: Shape


@dataclass(frozen=True, slots=True, eq=False)
class Unfitted:
    """A part that is made once the records that all parties have are known.

    `fit(rows, kept)` is called after the alignment with the numbers of this party's records that all have, in their
    common order; without `align`, with all of them. It holds some back, in the same way at all parties, and fits what
    it fits on the others only. `kept` is None in a new training; in one that is resumed it is what the part kept, and
    nothing is fitted.
    """

    ids: tuple[str, ...]
    fit: Callable[[NDArray[np.int64], Kept | None], Bottom | Top]
    notes: tuple[str, ...] = ()  # sentences for this party's user, said before anything is sent
    left_out: int = 0  # records of the source that are not among these: without `align` there must be none
    where: str = ""  # the source, for messages


LeaderPart = Top | Ends
FollowerPart = Bottom | Trunk
Part = LeaderPart | FollowerPart


def aligned(part: Bottom | Top, order: NDArray[np.int64]) -> Bottom | Top:
    """The same part with those of its training records that all parties have, in their common order."""
    return replace(part, train=part.train.take(order))


def modules(part: Part) -> dict[str, nn.Module]:
    """The networks of a part, by name."""
    match part:
        case Top(bottom=None):
            return {"network": part.network}
        case Top(bottom=bottom):
            return {"network": part.network, "bottom": bottom}
        case Ends():
            return {"embedding": part.embedding, "head": part.head}
        case _:
            return {"network": part.network}


def expected_part(seat: Seat) -> type[Part]:
    if seat.topology == "V":
        return Top if seat.role == "leader" else Bottom
    return Ends if seat.role == "leader" else Trunk
