"""A task for tests: digits, whose client 7 once waits to be killed with its process."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tacit.kinds.horizontal.tasks import load as tasks

STUMBLES = 7


class Stumbling:
    def __init__(self, clients: int, seed: int, marker: str) -> None:
        self._digits = tasks.make("digits", clients, seed, {})
        self._marker = Path(marker)

    def model(self):
        return self._digits.model()

    def fit(self, client, model, work):
        if client == STUMBLES and not self._marker.exists():
            made = self._marker.with_suffix(".part")
            made.write_text(str(os.getpid()))
            made.replace(self._marker)
            time.sleep(3600)
        return self._digits.fit(client, model, work)


def make_task(clients: int, seed: int, marker: str) -> Stumbling:
    return Stumbling(clients, seed, marker)
