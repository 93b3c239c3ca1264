"""What clients keep from one round to the next, such as the head of a network: in memory, or in the run's folder.

    local/client-3-7.safetensors        what client 3 kept after 7 rounds; the last two are stored

`take` is told what a client's training returned; `store` writes it, once what it was paid for is stored. A run that
resumes at an earlier round takes up what belongs to that one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from tacit.config.source import ConfigError
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork
from tacit.store.files import Damaged, make_folder, read_arrays, write_arrays

_NAME = re.compile(r"client-(\d+)-(\d+)\.safetensors")
_STORED = 2
_FOLDER = "local"


class KeptArrays:
    """What the clients of this process keep.

    Args:
        folder: of the run; None: all stays in memory.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = None if folder is None else folder / _FOLDER
        self._new: dict[int, Arrays] = {}  # not stored yet; without a folder, all there is

    def of(self, client: int) -> Arrays | None:
        """What a client kept last; None if that is nothing."""
        if client in self._new or self._folder is None:
            return self._new.get(client)
        numbers = _numbers(self._folder, client)
        return _read(_path(self._folder, client, numbers[-1])) if numbers else None

    def take(self, client: int, fitted: Fitted) -> None:
        """A client trained. A training that diverged leaves what was kept before."""
        kept = getattr(fitted, "kept", None)  # a task may return anything; the client refuses it
        if kept is not None and all(np.isfinite(array).all() for array in kept.values()):
            self._new[client] = kept

    def around(self, fit: Callable[[int, Arrays, FitWork], Fitted]) -> Callable[[int, Arrays, FitWork], Fitted]:
        """A task's `fit` that is handed what the client kept, and whose result is kept."""

        def keeping(client: int, model: Arrays, work: FitWork) -> Fitted:
            fitted = fit(client, model, work.keeping(self.of(client)))
            self.take(client, fitted)
            return fitted

        return keeping

    def store(self, number: int, client: int | None = None) -> None:
        """Write what was taken, of one client or of all, under the number of rounds that are done."""
        if self._folder is None:
            return
        for each in [each for each in self._new if client is None or each == client]:
            if not self._folder.is_dir():
                make_folder(self._folder)
            write_arrays(_path(self._folder, each, number), self._new.pop(each), {"round": str(number)})
            _remove(self._folder, each, _numbers(self._folder, each)[:-_STORED])

    def restore(self, number: int) -> None:
        """Take up what was kept after so many rounds: what was stored later belongs to a round that is done again."""
        self._new = {}
        if self._folder is None or not self._folder.is_dir():
            return
        named = [_NAME.fullmatch(path.name) for path in self._folder.iterdir()]
        for client in {int(found[1]) for found in named if found}:
            _remove(self._folder, client, [each for each in _numbers(self._folder, client) if each > number])


def kept_by(directory: str | Path, client: int) -> Arrays:
    """What a client kept, from the folder of a run or of the client: nothing if it kept nothing."""
    return KeptArrays(Path(directory)).of(client) or {}


def _numbers(folder: Path, client: int) -> list[int]:
    """After how many rounds what is stored of a client was kept, rising."""
    found = (_NAME.fullmatch(path.name) for path in folder.glob(f"client-{client}-*.safetensors"))
    return sorted(int(each[2]) for each in found if each)


def _path(folder: Path, client: int, number: int) -> Path:
    return folder / f"client-{client}-{number}.safetensors"


def _remove(folder: Path, client: int, numbers: Collection[int]) -> None:
    for number in numbers:
        _path(folder, client, number).unlink(missing_ok=True)


def _read(path: Path) -> Arrays:
    try:
        return read_arrays(path)[0]
    except Damaged as error:
        raise ConfigError(
            f"{error}: remove it, and this client resumes from what it kept before, or from the initial values"
        ) from None
