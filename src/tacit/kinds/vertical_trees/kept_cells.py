"""Punctured trees of cells and counters of tweaks, kept in a party's folder while a training is under way.

    cells.counter(other)                    the tweaks that were used with another party, never one twice
    cells.made(other), cells.held(other)    the trees of an earlier meeting, if they are there
    cells.keep(other, trees)                store them, once a set-up is complete

    RUN/journal/cells-NAME.safetensors      secrets: the folder's mode is 0700
    RUN/journal/tweaks-NAME.json            and a copy

All are removed once all parties have said that they are done. A counter outlives its trees: trees that are made anew in
the same folder continue its count.
"""

from __future__ import annotations

from pathlib import Path

from tacit.crypto.counter import Counter
from tacit.kinds.vertical_trees.protocol.cells import Held, Made
from tacit.store import journal_files
from tacit.store.counter_file import new_counter, open_counter
from tacit.store.files import Arrays, Damaged, copy_of, read_arrays, write_arrays


class KeptCells:
    """What one party keeps of its set-ups; in memory only without a folder."""

    def __init__(self, run: Path | None) -> None:
        self._folder = None if run is None else journal_files.make(run)

    def counter(self, other: str) -> Counter:
        """The counter shared with another party. Damaged if it is lost and its trees are not."""
        if self._folder is None:
            return Counter(0, lambda number: None)
        path = self._folder / f"tweaks-{other}.json"
        if path.exists() or copy_of(path).exists() or _cells(self._folder, other).exists():
            return open_counter(path)
        return new_counter(path)

    def made(self, other: str) -> Made | None:
        """The active's trees of a passive's cells."""
        found = self._read(other)
        return None if found is None else Made.of_arrays(found)

    def held(self, other: str) -> Held | None:
        """A passive's trees of its own cells."""
        found = self._read(other)
        return None if found is None else Held.of_arrays(found)

    def keep(self, other: str, trees: Made | Held) -> None:
        """Store trees in the place of earlier ones."""
        if self._folder is not None:
            write_arrays(_cells(self._folder, other), trees.arrays(), {"round": "0"})

    def _read(self, other: str) -> Arrays | None:
        if self._folder is None or not _cells(self._folder, other).exists():
            return None
        try:
            return read_arrays(_cells(self._folder, other))[0]
        except Damaged:  # made anew, under tweaks that are not used
            return None


def _cells(folder: Path, other: str) -> Path:
    return folder / f"cells-{other}.safetensors"
