"""What a client has answered, on its own disk: nothing is answered twice, even if Flower loses the client's context.

Flower stores a context after the answer is sent. A process that dies in between would leave the old one, from which the
same stage could be answered again, and otherwise. So what is about to be answered is written down first: the round,
digests of the states from which its stages were answered, and what the client had answered by then (`Client.state`).
Nothing of it is secret.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tacit.errors import PeerError
from tacit.store.directory import replace_file


class Once:
    """The record of one client in one run; without a path nothing is kept, and nothing refused."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def work(self, number: int) -> None:
        """A model is about to be answered: PeerError unless its round is later than all before."""
        answered, _, kept = self._read()
        if self._path is not None and number <= answered:
            raise PeerError(f"work for round {number}, and round {answered} was answered before")
        self._write(number, [], kept)

    def stage(self, state: bytes) -> None:
        """A message is about to be answered from this state: PeerError if one was already."""
        answered, used, kept = self._read()
        digest = hashlib.sha256(state).hexdigest()
        if digest in used:
            raise PeerError("this stage was answered before")
        self._write(answered, [*used, digest], kept)

    def keep(self, kept: dict[str, Any]) -> None:
        """An answer is about to leave, after which the client's state is this."""
        answered, used, _ = self._read()
        self._write(answered, used, kept)

    def kept(self) -> dict[str, Any] | None:
        """The client's state after its last answer; None if there was none."""
        return self._read()[2]

    def _read(self) -> tuple[int, list[str], dict[str, Any] | None]:
        if self._path is None or not self._path.exists():
            return -1, [], None
        try:
            data = json.loads(self._path.read_text())
            return int(data["attempt"]), [str(each) for each in data["used"]], data.get("state")
        except (ValueError, KeyError, TypeError):
            raise PeerError("what was answered before cannot be read, so nothing is answered") from None

    def _write(self, number: int, used: list[str], kept: dict[str, Any] | None) -> None:
        if self._path is not None:
            replace_file(self._path, json.dumps({"attempt": number, "used": used, "state": kept}).encode())
