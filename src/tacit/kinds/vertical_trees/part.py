"""A party's part of the trees, as it is stored: its own columns, and what it knows of the splits.

    Part(about, arrays)             the active: trees with opaque splits of others, classes; a passive: its won splits
    part.file(), Part.of(file)      as arrays of a model file, and back

Edges and categories are those of the party's own columns: those of other parties are not known to it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.kinds.vertical_trees.columns import Columns
from tacit.kinds.vertical_trees.protocol.sides import SPLIT_BYTES, told_key
from tacit.kinds.vertical_trees.protocol.tree import Ensemble

_ABOUT, _TREES, _WON, _COUNTS = "about", "trees.", "splits", "counts"


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What a party keeps of a training.

    Args:
        parties: the names by which trees number them, the active first.
        ensemble: at the active, all trees so far.
        classes: at the active, of labels that are classes.
        won: at a passive, how often each of its splits won, by `sides.split_keys`.
    """

    columns: Columns
    parties: tuple[str, ...]
    session: bytes
    ensemble: Ensemble | None = None
    classes: tuple[str, ...] = ()
    won: Counter[bytes] = field(default_factory=Counter)

    def file(self) -> dict[str, NDArray[Any]]:
        """As arrays, for a model file."""
        about = {
            "columns": self.columns.state(),
            "parties": list(self.parties),
            "session": self.session.hex(),
            "classes": list(self.classes),
        }
        found: dict[str, NDArray[Any]] = {_ABOUT: np.frombuffer(json.dumps(about).encode(), dtype=np.uint8).copy()}
        if self.ensemble is not None:
            return found | {_TREES + name: array for name, array in self.ensemble.arrays().items()}
        keys = sorted(self.won)
        found[_WON] = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), SPLIT_BYTES).copy()
        found[_COUNTS] = np.array([self.won[key] for key in keys], dtype=np.int64)
        return found

    @classmethod
    def of(cls, file: Mapping[str, NDArray[Any]]) -> Part:
        """The part in a model file; ConfigError if it is not one."""
        try:
            about = json.loads(np.asarray(file[_ABOUT], dtype=np.uint8).tobytes())
            trees = {name.removeprefix(_TREES): array for name, array in file.items() if name.startswith(_TREES)}
            columns, won = Columns.restore(about["columns"]), Counter[bytes]()
            if not trees:
                keys, counts = np.asarray(file[_WON], dtype=np.uint8), file[_COUNTS]
                for row, count in zip(keys, counts, strict=True):
                    won[told_key(row.tobytes(), columns.bins.bins)] += int(count)  # 0.2.0 stored left sides
            return cls(
                columns,
                tuple(about["parties"]),
                bytes.fromhex(about["session"]),
                Ensemble.of_arrays(trees) if trees else None,
                tuple(about["classes"]),
                won,
            )
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError, PeerError) as error:
            raise ConfigError(f"the stored part of the trees is damaged ({error}): take it from a copy") from error

    def importance(self) -> dict[str, float]:
        """Of each own column that splits: at the active its share of its own gain, at a passive the splits it won."""
        values = np.zeros(len(self.columns.columns))
        if self.ensemble is not None:
            values = self.ensemble.importance(0, len(values))
        for key, count in self.won.items():
            values[int.from_bytes(key[:4], "little")] += count
        order = np.argsort(-values, kind="stable")
        return {self.columns.names[place]: float(values[place]) for place in order if values[place] > 0}
