"""Whether a coordinator's rounds are paused, without I/O.

                 ask()                    rests
    RUNNING  ─────────►  ASKED  ─────────►  PAUSED        an operator asks, and the round under way ends
        ▲                  │                  │
        └──────────────────┴──────────────────┘  end()    an operator ends it, at any time

The operator's thread calls `ask` and `end`; the coordinator's looks at `asked` before each round, and says when it
`rests`. What was asked is stored before it holds: a coordinator that is killed and started again is paused as before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum


class State(Enum):
    RUNNING = "running"
    ASKED = "pausing"
    PAUSED = "paused"


class Pausing:
    """The pause of one run.

    Args:
        asked: whether an earlier process of this run was asked for one, which was not ended.
        store: keeps whether one is asked for.
    """

    def __init__(self, asked: bool = False, store: Callable[[bool], None] = lambda asked: None) -> None:
        self._state = State.ASKED if asked else State.RUNNING
        self._store = store
        self._lock = threading.Lock()

    @property
    def state(self) -> State:
        return self._state

    @property
    def paused(self) -> bool:
        """Whether the coordinator has noticed: its clients are told."""
        return self._state is State.PAUSED

    @property
    def asked(self) -> bool:
        """Whether no further round may begin."""
        return self._state is not State.RUNNING

    def ask(self) -> State:
        """Pause before the next round. Gives the state before: a second time changes nothing."""
        with self._lock:
            before = self._state
            if before is State.RUNNING:
                self._store(True)
                self._state = State.ASKED
            return before

    def end(self) -> State:
        """Let rounds begin again. Gives the state before."""
        with self._lock:
            before = self._state
            if before is not State.RUNNING:
                self._store(False)
                self._state = State.RUNNING
            return before

    def rests(self) -> bool:
        """The coordinator begins no round now. False if the pause has ended meanwhile."""
        with self._lock:
            if self._state is State.ASKED:
                self._state = State.PAUSED
            return self.asked
