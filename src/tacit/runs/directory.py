"""The folder `runs/<time>-<name>/` that a run leaves behind.

    config.yaml         the settings, every default filled in
    environment.json    versions and processors; nothing about who or where
    events.jsonl        what happened, one event a line with its time; only ever added to
    run.log             the same in words
    ledger.json         what the run cost in privacy
    model.safetensors   the model after the last whole round

Each file is whole at any moment: the last two are replaced in one step, and a line that was cut off is passed over.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from tacit import events
from tacit.events import Event, RoundFinished, RoundStarted, RunFinished, RunStarted
from tacit.runs.config import Settings, resolved
from tacit.runs.environment import environment
from tacit.runs.lines import line


class RunDirectory:
    """A run's folder, and the sink that writes its events.

    Used in a `with`, it makes sure that the events end with a `RunFinished`, however the run ended.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path = path
        self.begun = False  # whether a round was started
        self._clock = clock
        self._start = clock()
        self._rounds: int | None = None
        self._finished_rounds = 0
        self._ended = False
        self._events = _appending(path / "events.jsonl")
        self._log = _appending(path / "run.log")

    @classmethod
    def create(
        cls, root: str | Path, settings: Settings, now: float, *, clock: Callable[[], float] = time.time
    ) -> RunDirectory:
        """Make a new folder under `root`, named after the time (seconds since 1970) and the federation."""
        path = _new_folder(Path(root), f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{settings.name}")
        _replace(path / "config.yaml", resolved(settings).encode())
        _replace(path / "environment.json", _json_file(environment()))
        return cls(path, clock)

    def emit(self, event: Event) -> None:
        """Add an event to `events.jsonl` and `run.log`."""
        match event:
            case RunStarted():
                self._rounds = event.rounds
            case RoundStarted():
                self.begun = True
            case RoundFinished():
                self._finished_rounds += 1
            case RunFinished():
                self._ended = True
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        self._events.write(json.dumps({"time": at, **_plain(events.to_json(event))}, allow_nan=False) + "\n")
        self._log.write(line(event, self._rounds) + "\n")
        self._events.flush()
        self._log.flush()

    def save_model(self, arrays: Mapping[str, NDArray[Any]], round: int) -> None:
        """Replace the stored model by the one after `round` rounds."""
        whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        _replace(self.path / "model.safetensors", safetensors.numpy.save(whole, metadata={"round": str(round)}))

    def save_ledger(self, ledger: Mapping[str, Any]) -> None:
        """Replace the stored ledger."""
        _replace(self.path / "ledger.json", _json_file(ledger))

    def close(self) -> None:
        self._events.close()
        self._log.close()

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            status: Any = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
            # Only the error's name: its text may quote a record.
            text = type(error).__name__ if error is not None else ""
            self.emit(RunFinished(status, self._finished_rounds, self._clock() - self._start, text))
        self.close()


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
            except (ValueError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}:{count}: this line is no event: {error}") from error


def _new_folder(root: Path, name: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    count = 1
    while True:
        path = root / (name if count == 1 else f"{name}-{count}")
        try:
            path.mkdir()  # one of two runs that start together gets the name, the other the next
            return path
        except FileExistsError:
            count += 1


def _appending(path: Path) -> TextIO:
    return path.open("a", encoding="utf-8", newline="\n")


def _replace(path: Path, data: bytes) -> None:
    """Write a file in one step: a reader, or a machine that loses power, sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _json_file(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(_plain(data), indent=2, allow_nan=False) + "\n").encode()


def _plain(value: Any) -> Any:
    """What JSON can hold: numpy's numbers as Python's, and nothing where a number is infinite or none."""
    match value:
        case np.generic() | np.ndarray():
            return _plain(value.tolist())
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value
