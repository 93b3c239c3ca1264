"""What a client has answered, on its own disk: nothing is answered twice, even if Flower loses the client's context.

Flower stores a context after the answer is sent. A process that dies in between would leave the old one, from which the
same stage could be answered again, and otherwise. So what is about to be answered is written down first: the round's
attempt, and digests of the states from which its stages were answered. Nothing of it is secret.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tacit.errors import PeerError
from tacit.runs.directory import replace_file


class Once:
    """The record of one client in one run; without a path nothing is kept, and nothing refused."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def work(self, attempt: int) -> None:
        """A model is about to be answered: PeerError unless its attempt is later than all before."""
        answered, _ = self._read()
        if self._path is not None and attempt <= answered:
            raise PeerError(f"work for attempt {attempt}, and attempt {answered} was answered before")
        self._write(attempt, [])

    def stage(self, state: bytes) -> None:
        """A message is about to be answered from this state: PeerError if one was already."""
        answered, used = self._read()
        digest = hashlib.sha256(state).hexdigest()
        if digest in used:
            raise PeerError("this stage was answered before")
        self._write(answered, [*used, digest])

    def _read(self) -> tuple[int, list[str]]:
        if self._path is None or not self._path.exists():
            return -1, []
        try:
            data = json.loads(self._path.read_text())
            return int(data["attempt"]), [str(each) for each in data["used"]]
        except (ValueError, KeyError, TypeError):
            raise PeerError("what was answered before cannot be read, so nothing is answered") from None

    def _write(self, attempt: int, used: list[str]) -> None:
        if self._path is not None:
            replace_file(self._path, json.dumps({"attempt": attempt, "used": used}).encode())
