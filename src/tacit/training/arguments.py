"""Whether what a layer is given has a row for each record, or is shared by all of them."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree


def records_of(given: Any) -> int | None:
    """How many records a model is given: the length of the first tensor whose length is not 1, which is shared."""
    lengths = [len(leaf) for leaf in pytree.tree_leaves(given) if isinstance(leaf, Tensor) and leaf.dim() > 0]
    return next((length for length in lengths if length != 1), 1 if lengths else None)


def with_one_record_less(given: Any, records: int) -> Any:
    """The same arguments without the last row of each tensor that is as long as the batch."""

    def shortened(leaf: Any) -> Any:
        return leaf[:-1] if isinstance(leaf, Tensor) and leaf.dim() > 0 and len(leaf) == records else leaf

    return pytree.tree_map(shortened, given)


class Arguments:
    """Which tensors that a module is given have a row for each record, and which are shared by all records.

    A shared tensor may be as long as the batch by chance. So an argument is known to be of records only once it was as
    long as two batches of different sizes; one that was not as long as a batch is shared. The first tensor is of
    records. A length of 1 says nothing: it broadcasts.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._sizes: dict[tuple[str, int], int] = {}  # of the batch that an argument was as long as, once
        self._known: dict[tuple[str, int], bool] = {}  # whether it is of records
        self.unknown: str | None = None  # a list of ids, given while it was not known how many records there are

    @property
    def undecided(self) -> str | None:
        """An argument that was as long as the only batch that it was given with."""
        return next((f"argument {place + 1} of {self.name}" for _, place in self._sizes), None)

    def split(self, leaves: list[Any], spec: str) -> tuple[int, list[bool]]:
        """The number of records, and for each leaf whether it has a row for each."""
        lengths = [leaf.shape[0] if isinstance(leaf, Tensor) and leaf.dim() > 0 else None for leaf in leaves]
        records = next((length for length in lengths if length is not None), None)
        if records is None:
            raise ValueError(
                f"{self.name} takes no tensor of records, so its gradient has no records: give it the batch"
            )
        first = lengths.index(records)
        return records, [
            length is not None and (place == first or self.of_records((spec, place), length, records))
            for place, length in enumerate(lengths)
        ]

    def of_records(self, key: tuple[str, int], length: int, records: int) -> bool:
        """Whether an argument of so many rows has one for each record; ValueError if it cannot be told."""
        if length != records and length != 1:
            if key in self._sizes or self._known.get(key, False):
                raise ValueError(
                    f"argument {key[1] + 1} of {self.name} has {length} rows for {records} records, and was as "
                    "long as an earlier batch: it cannot be told whether it has a row for each record. Expand what "
                    "all records share to one row a record, x.expand(records, *x.shape)"
                )
            self._known[key] = False
        if key in self._known or length != records:
            return length == records and self._known.get(key, False)
        if self._sizes.setdefault(key, records) != records:
            self._known[key] = True
            del self._sizes[key]
        elif records == 1:
            del self._sizes[key]
        return True
