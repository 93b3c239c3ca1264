"""Reports and comparisons of runs: `tacit report` in a process of its own, whose page is handed on.

A run's figures may be made so that pricing them takes for ever: the process is ended after a time, and only a few work
at once. What it reads are plain files of a bounded size.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_AT_ONCE = 2
_SECONDS = 120.0
_WAIT = 20.0  # for others, before a page is refused
_LARGEST = 1 << 28  # bytes of a file that goes into a report
_FILES = ("config.yaml", "events.jsonl", "ledger.json", "ledger.copy.json", "environment.json", "party")


class NotMade(Exception):
    """There is no page, for the reason that it gives."""


class Reports:
    """Makes reports. `close()` ends those under way."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._working: set[subprocess.Popen[str]] = set()
        self._closed = False

    def page(self, runs: Sequence[Path]) -> bytes:
        """The report of a run, or the comparison of several."""
        for run in runs:
            _check(run)
        if not self._places.acquire(timeout=_WAIT):
            raise NotMade("Too many reports are being made: wait until they are done, and load the page again.")
        try:
            with tempfile.TemporaryDirectory(prefix="tacit-board-") as folder:
                return self._made(runs, Path(folder) / "page.html")
        finally:
            self._places.release()

    def _made(self, runs: Sequence[Path], page: Path) -> bytes:
        command = [sys.executable, "-P", "-m", "tacit", "report", "--output", str(page), "--", *map(str, runs)]
        with self._lock:
            if self._closed:
                raise NotMade("The board was closed.")
            work = subprocess.Popen(  # noqa: S603 -- our own command
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                errors="replace", cwd=page.parent, start_new_session=True,
            )  # fmt: skip
            self._working.add(work)
        try:
            said = work.communicate(timeout=_SECONDS)[1]
        except subprocess.TimeoutExpired:
            raise NotMade(f"The report was not done after {_SECONDS:.0f} s: make it with tacit report.") from None
        finally:
            with self._lock:
                self._working.discard(work)
            with suppress(ProcessLookupError):
                work.kill()
            work.communicate()
        if work.returncode != 0:
            raise NotMade(said.strip().splitlines()[-1] if said.strip() else "The report could not be made.")
        return page.read_bytes()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for work in self._working:
                work.kill()


def _check(run: Path) -> None:
    """Refuse what is no plain file, or is longer than a report should read."""
    for name in (*_FILES, *(path.name for path in run.glob("client-*.json"))):
        path = run / name
        if path.is_symlink():
            raise NotMade(f"{path.name} is a link: put the file itself there.")
        if os.path.lexists(path) and not path.is_file():
            raise NotMade(f"{path.name} is no plain file.")
        if path.is_file() and path.stat().st_size > _LARGEST:
            raise NotMade(f"{path.name} is longer than a page here can show: make it with tacit report.")
