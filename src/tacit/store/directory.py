"""The folder `runs/<time>-<name>/` that a run leaves behind.

    config.yaml         the settings, every default filled in
    environment.json    versions and processors; nothing about who or where
    party               whose folder it is, where the parties live on different machines
    events.jsonl        what happened, one event a line with its time, each tied to those before it (`chain`); only
                        ever added to
    run.log             the same in words
    ledger.json         what the run cost in privacy, with a copy in ledger.copy.json
    paused              of a coordinator that an operator paused, until the pause ends
    peers.json          over a network: the fingerprints of the parties that were met, with a copy in peers.copy.json
    account.json        over a network: under which id the site's ledger counts it, if there is one (`runs.policy`)
    model.safetensors   the model after the last whole round; the one before it in model.previous.safetensors. Of a
                        client over a network the last model that it was sent, unless share_model is false
    client-K.json       what a client over a network paid, and the counters behind it, with a copy
    state-N.safetensors what else is needed to resume after N rounds: the optimizer's moments, who was asked how often

Each file is whole at any moment: all but events and log are replaced in one step, and a line that was cut off is passed
over. The model says which state belongs to it, and is replaced after that: killed at any moment, the two fit. Models,
states and ledgers have checksums: see `files` and `party_folder`.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO

from tacit import events
from tacit.config.load import ConfigError, resolved
from tacit.errors import TacitError, comes_back, loggable
from tacit.events import (
    ROUNDS,
    Counted,
    EpochFinished,
    Event,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunStarted,
    Stepped,
)
from tacit.sections import Settings
from tacit.store import chain
from tacit.store.environment import environment
from tacit.store.files import Arrays, json_file, make_folder, plain, replace_file
from tacit.store.log_format import Format, event_line
from tacit.store.party_folder import Store, party_of

__all__ = ["RunDirectory", "Store", "party_of", "read_events", "read_model", "read_timed_events", "replace_file"]


_ATTEMPTS, _BETWEEN = 10, 0.02  # to have the folder alone, and seconds between them
_BEFORE_THE_START = frozenset({
    "config.yaml", "environment.json", "party", "events.jsonl", "run.log", "account.json", "account.copy.json"
})  # fmt: skip


class RunDirectory:
    """A run's folder, and the sink that writes its events.

    Used in a `with`, it makes sure that the events end with a `RunFinished`, however the run ended.
    """

    def __init__(self, path: Path, clock: Callable[[], float], fingerprint: str, counted: Counted) -> None:
        self.path = path
        self._counted = counted
        self.begun = False  # whether a round was started
        self.changed = False  # whether a resumed run has other settings than it stored
        self._clock = clock
        self._start = clock()
        self._rounds: int | None = None
        self._finished_rounds = 0
        self._ended = False
        self._made: Literal["folder", "files"] | None = None  # what this process made: all of it, or what lies in it
        self.log_format: Format = "plain"  # of `run.log`
        self.store = Store(path, fingerprint)
        self._events = _appending(path / "events.jsonl")
        if not _locked(self._events):
            self._events.close()
            raise ConfigError(f"{path}: another process is writing there: wait until it ends, or stop it")
        self._log = _appending(path / "run.log")
        self._chain: bytes | None = None  # of the events so far, once one is written
        self._writing = threading.Lock()  # parties in one process tell of events from their own threads

    @classmethod
    def create(
        cls,
        root: str | Path,
        settings: Settings,
        now: float,
        *,
        named: str | None = None,
        party: str | None = None,
        at: Path | None = None,
        fingerprint: str = "",
        counted: Counted = ROUNDS,
        clock: Callable[[], float] = time.time,
    ) -> RunDirectory:
        """Make a new folder under `root`, named after the time (seconds since 1970) and the federation.

        With `at`, make it there. The settings come last: a folder that has them can be resumed. `fingerprint`: of what
        a resumed run must not change in them. `counted`: the words of the kind.
        """
        name = named or settings.name
        there = at is not None and at.is_dir()
        if at is None:
            path = _new_folder(Path(root), f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{name}")
        else:
            path = at
            if not there:
                make_folder(path)
        directory = cls(
            path, clock, fingerprint, counted
        )  # of two that start here together, the second is refused, and has written nothing
        if (path / "config.yaml").exists():
            directory.close()
            raise ConfigError(f"{path}: another process has begun a run there: start again to resume it")
        directory._made = "files" if there else "folder"
        try:
            replace_file(path / "environment.json", json_file(environment()))
            if party is not None:
                replace_file(path / "party", f"{party}\n".encode())
            replace_file(path / "config.yaml", resolved(settings).encode())
        except BaseException:
            directory._remove_unused()
            directory.close()
            raise
        return directory

    @classmethod
    def reopen(
        cls,
        path: Path,
        *,
        fingerprint: str = "",
        counted: Counted = ROUNDS,
        clock: Callable[[], float] = time.time,
    ) -> RunDirectory:
        """Take up the folder of a run that stopped, and whatever a kill left half done in it."""
        for pattern in ("*", "*/*"):  # its own files first, then those of its parts
            for entry in path.glob(pattern):
                if entry.is_symlink():
                    raise ConfigError(f"{entry}: a run's files must not be links: put the file itself there")
        directory = cls(path, clock, fingerprint, counted)
        for name in ("events.jsonl", "run.log"):
            _cut_last_line(path / name)
        for pattern in (".*.tmp", "*/.*.tmp"):
            for left in path.glob(pattern):
                left.unlink()
        return directory

    def save_settings(self, settings: Settings) -> None:
        """Replace the stored settings, where a resumed run may change them."""
        new = resolved(settings).encode()
        self.changed = (self.path / "config.yaml").read_bytes() != new
        if self.changed:
            replace_file(self.path / "config.yaml", new)

    def emit(self, event: Event) -> None:
        """Add an event to `events.jsonl` and `run.log`."""
        match event:
            case RunStarted():
                self._rounds = event.rounds
            case RoundStarted() | Stepped():
                self.begun = True
            case RoundFinished() | EpochFinished():
                self.begun = True
                self._finished_rounds += 1
            case RunFinished():
                self._ended = True
        with self._writing:
            self._write(event)

    def _write(self, event: Event) -> None:
        now = self._clock()
        at = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
        if self._chain is None:
            self._chain = chain.end_of(self.path / "events.jsonl")
        told, self._chain = chain.chained({"time": at, **plain(events.to_json(event))}, self._chain)
        self._events.write(json.dumps(told, allow_nan=False) + "\n")
        if words := event_line(event, self._rounds, now, self.log_format, self._counted):
            self._log.write(words + "\n")
        self._events.flush()
        self._log.flush()

    def close(self) -> None:
        self._events.close()
        self._log.close()

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            status: Any = "stopped" if comes_back(error) else "failed"
            text = loggable(error) if error is not None else ""
            seconds = self._clock() - self._start
            self.emit(RunFinished(status, self._finished_rounds, seconds, text, self._counted.many))
        self.close()
        if self._made and not self.begun and isinstance(error, Exception) and not isinstance(error, TacitError):
            self._remove_unused()

    def _remove_unused(self) -> None:
        """Remove the folder of a run that never began, for want of a port, a package or a table. Never what is stored.

        It stays if another party is to blame or if it was stopped: its log tells why.
        """
        files = [path for path in self.path.rglob("*") if not path.is_dir()]
        if all(path.parent == self.path and path.name in _BEFORE_THE_START for path in files):
            with suppress(OSError):  # what cannot be removed stays: why the run failed matters more
                for path in files:
                    path.unlink()
                for folder in (*self.path.iterdir(), *([self.path] if self._made == "folder" else [])):
                    folder.rmdir()


def read_events(path: str | Path) -> Iterator[Event]:
    """The events of an `events.jsonl`. A last line that was cut off while it was written is passed over."""
    return (event for _, event in read_timed_events(path))


def read_timed_events(path: str | Path) -> Iterator[tuple[float, Event]]:
    """The same, each with its time in seconds since 1970; 0 where a line has none."""
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        for count, text in enumerate(file, 1):
            if not text.endswith("\n"):
                return
            try:
                data = json.loads(text)
                event = events.from_json(data)
                yield datetime.fromisoformat(data.get("time", "1970-01-01T00:00:00+00:00")).timestamp(), event
            except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                raise ValueError(f"{path}:{count}: this line is not an event: {error}") from error


def read_model(path: Path) -> Arrays:
    """The arrays of a stored `model.safetensors`."""
    return Store(path.parent).model()


def _locked(file: TextIO) -> bool:
    """Whether this process is now the only one that writes there.

    A reader that looks whether anybody writes (`tail.is_written`) holds the lock for an instant, which is waited out.
    """
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if attempt < _ATTEMPTS - 1:
                time.sleep(_BETWEEN)
    return False


def _new_folder(root: Path, name: str) -> Path:
    count = 1
    while True:
        path = root / (name if count == 1 else f"{name}-{count}")
        try:
            make_folder(path)  # one of two runs that start together gets the name, the other the next
            return path
        except FileExistsError:
            count += 1


def _cut_last_line(path: Path) -> None:
    """Take away what was written after the last end of a line."""
    with path.open("rb+") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)


def _appending(path: Path) -> TextIO:
    opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    return os.fdopen(opened, "a", encoding="utf-8", newline="\n")
