"""The runs of a folder, read again at a request if something changed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tacit.store.run_summary import Following, Summary, holds_run, runs_in

_AT_MOST = 300  # runs in an answer
_PAUSE = 0.5  # seconds between two looks at the folder
_SHARE = 10  # a look that takes a second is followed by ten without one
_SPAN = 0.5  # seconds of reading, after which an answer is given though runs are unread


@dataclass(frozen=True, slots=True)
class Changes:
    """What is new since a number that an earlier answer gave."""

    number: int  # to ask with the next time
    runs: tuple[tuple[str, Summary], ...]  # with their ids
    gone: tuple[str, ...]
    more: bool  # whether to ask again at once
    unread: int  # runs that were not read yet


def id_of(name: str) -> str:
    """A folder's name as a part of an address."""
    return quote(os.fsencode(name), safe="")


class Runs:
    """The runs that are directly in `root`. Any thread may ask."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._following: dict[str, Following] = {}  # by id
        self._found: dict[str, tuple[int, Summary]] = {}  # the number of its last change, and the run
        self._gone: dict[str, int] = {}
        self._unread: list[str] = []
        self._number = 0
        self._next_look = -1.0

    def changes(self, after: int) -> Changes:
        """What changed after a number; all if it is 0, or is none that was given."""
        with self._lock:
            self._look()
            after = after if after <= self._number else 0
            fresh = sorted((number, each) for each, (number, _) in self._found.items() if number > after)
            shown, more = fresh[:_AT_MOST], len(fresh) > _AT_MOST
            number = shown[-1][0] if more else self._number
            gone = tuple(each for each, when in self._gone.items() if after < when <= number)
            runs = tuple((each, self._found[each][1]) for _, each in shown)
            return Changes(number, runs, gone, more or bool(self._unread), len(self._unread))

    def folder(self, run: str) -> Path | None:
        """The folder of a run that is listed; None if there is none of this id."""
        with self._lock:
            followed = self._following.get(run)
            if followed is None or not holds_run(followed.path):
                self._look(again=True)
                followed = self._following.get(run)
            return None if followed is None or followed.path.is_symlink() else followed.path

    def summary(self, run: str) -> Summary | None:
        """One run as it is now."""
        with self._lock:
            followed = self._following.get(run)
            return None if followed is None else self._noted(run, followed.refreshed())

    def _look(self, again: bool = False) -> None:
        now = self._clock()
        if now >= self._next_look or (again and not self._unread):
            self._list()
            self._unread = list(self._following)
        elif not self._unread:
            return
        begun = self._clock()
        while self._unread and self._clock() - begun < _SPAN:
            run = self._unread.pop(0)
            if run in self._following:
                self._noted(run, self._following[run].refreshed())
        end = self._clock()
        self._next_look = end + max(_PAUSE, _SHARE * (end - now))

    def _list(self) -> None:
        try:
            there = {id_of(name): name for name in runs_in(self.root)}
        except OSError:
            there = {}  # the folder was taken away
        for run in self._following.keys() - there.keys():
            del self._following[run]
            self._number += 1
            self._gone[run] = self._number
            self._found.pop(run, None)
        for run, name in there.items():
            if run not in self._following:
                self._following[run] = Following(self.root / name)
                self._gone.pop(run, None)

    def _noted(self, run: str, summary: Summary) -> Summary:
        known = self._found.get(run)
        if known is None or known[1] != summary:
            self._number += 1
            self._found[run] = (self._number, summary)
        return summary
