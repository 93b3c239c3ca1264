"""The last model that the clients of a process were sent, kept in their run's folder.

It is written in a thread of its own, after the answer: no round waits for a disk. Of models that arrive while one is
written, only the last is written next.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tacit.kinds.horizontal.vector import Flat, Layout
from tacit.store.party_folder import Store


class LastModel:
    """Keeps `model.safetensors` in a client's folder; `close` waits until it is written."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self._store = Store(folder)
        self._layout = layout
        self._thread = ThreadPoolExecutor(1, "model")
        self._lock = threading.Lock()
        self._newest = -1  # round: several clients of a process are sent the same model
        self._waiting: tuple[int, Flat] | None = None
        self._error = ""

    def keep(self, round: int, model: Flat) -> None:
        """Have the model of a round written, unless it was sent to another client already."""
        with self._lock:
            if round <= self._newest:
                return
            self._newest = round
            idle, self._waiting = self._waiting is None, (round, model)
        if idle:
            self._thread.submit(self._write)

    def _write(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        round, model = waiting
        try:
            self._store.save_model(self._layout.unflatten(model), round)
            self._error = ""
        except OSError as error:  # the run is worth more than its copy of the model
            self._error = f"{error.filename or self._store.path}: {error.strerror or error}"

    def close(self) -> str:
        """Wait until all is written; why the last model was not, if so."""
        self._thread.shutdown(wait=True)
        return self._error
