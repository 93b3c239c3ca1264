"""The journal of a party as files: secrets of a run that is under way, which only their owner may read.

    RUN/journal/step-N, opened-N    see `tacit.kinds.vertical_logistic.protocol.journal`
    RUN/journal/aligned             see `tacit.kinds.vertical_logistic.kept_rows`
    RUN/journal/label-counts-*      see `label_count_messages` next to the journal
    RUN/journal/key                 the active's private key, which old answers need
    RUN/journal/cells-*, tweaks-*   see `tacit.kinds.vertical_trees.kept_cells`

They are removed once all parties have said that they are done.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tacit.errors import NotResumed

FOLDER = "journal"
_KEY = "key"
_DIGEST_BYTES = 32


def clear(run: Path) -> None:
    """Remove the journal of a run, and the key."""
    if (run / FOLDER).is_dir():
        for path in (run / FOLDER).iterdir():
            path.unlink()
        (run / FOLDER).rmdir()


def make(run: Path) -> Path:
    """The journal's folder, of mode 0700."""
    path = run / FOLDER
    path.mkdir(mode=0o700, exist_ok=True)
    return path


class RecordFiles:
    """Records in a folder of mode 0700. Each is replaced in one step, and on disk when `write` returns."""

    def __init__(self, run: Path) -> None:
        self._path = make(run)

    def read(self) -> dict[str, bytes]:
        return {name: self._read(name) for name in self._names() if name != _KEY}

    def write(self, name: str, data: bytes) -> None:
        temporary = self._path / f".{name}.tmp"
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(hashlib.sha256(data).digest())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path / name)
        folder = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)

    def key(self) -> bytes | None:
        """The private key, if one is kept."""
        return self._read(_KEY) if _KEY in self._names() else None

    def write_key(self, data: bytes) -> None:
        self.write(_KEY, data)

    def _names(self) -> list[str]:
        return sorted(path.name for path in self._path.iterdir() if not path.name.startswith("."))

    def _read(self, name: str) -> bytes:
        data = (self._path / name).read_bytes()
        if hashlib.sha256(data[_DIGEST_BYTES:]).digest() != data[:_DIGEST_BYTES]:
            raise NotResumed(
                f"{self._path / name}: this file is damaged: put it back, or remove the folder {self._path}, and the "
                "step that was under way may count once more (checks.restarts)"
            )
        return data[_DIGEST_BYTES:]
