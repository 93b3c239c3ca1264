"""The folder `runs/<time>-<name>/` that a run leaves behind.

    config.yaml         the settings, every default filled in
    environment.json    versions and processors; nothing about who or where
    party               whose folder it is, where the parties live on different machines
    events.jsonl        what happened, one event a line with its time; only ever added to
    run.log             the same in words
    ledger.json         what the run cost in privacy
    model.safetensors   the model after the last whole round
    state-N.safetensors what else is needed to go on after N rounds: the optimizer's moments, who was asked how often

Each file is whole at any moment: all but events and log are replaced in one step, and a line that was cut off is passed
over. The model says which state belongs to it, and is replaced after that: killed at any moment, the two fit.
"""

from __future__ import annotations

import fcntl
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
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from tacit import events
from tacit.events import EpochFinished, Event, RoundFinished, RoundStarted, RunFinished, RunStarted, Stepped
from tacit.runs.config import ConfigError, Settings, resolved
from tacit.runs.environment import environment
from tacit.runs.lines import line


class RunDirectory:
    """A run's folder, and the sink that writes its events.

    Used in a `with`, it makes sure that the events end with a `RunFinished`, however the run ended.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path = path
        self.begun = False  # whether a round was started
        self.changed = False  # whether a resumed run has other settings than it stored
        self._clock = clock
        self._start = clock()
        self._rounds: int | None = None
        self._finished_rounds = 0
        self._ended = False
        self.store = Store(path)
        self._events = _appending(path / "events.jsonl")
        try:
            fcntl.flock(self._events, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._events.close()
            raise ConfigError(f"{path}: another process is writing there: wait until it ends, or stop it") from None
        self._log = _appending(path / "run.log")

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
        clock: Callable[[], float] = time.time,
    ) -> RunDirectory:
        """Make a new folder under `root`, named after the time (seconds since 1970) and the federation.

        With `at`, make it there. The settings come last: a folder that has them can be resumed.
        """
        name = named or settings.name
        if at is None:
            path = _new_folder(Path(root), f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{name}")
        else:
            path = at
            path.mkdir(parents=True, exist_ok=True)
        replace_file(path / "environment.json", _json_file(environment()))
        if party is not None:
            replace_file(path / "party", f"{party}\n".encode())
        directory = cls(path, clock)  # of two that start here together, the second is refused
        try:
            replace_file(path / "config.yaml", resolved(settings).encode())
        except BaseException:
            directory.close()
            raise
        return directory

    @classmethod
    def reopen(cls, path: Path, *, clock: Callable[[], float] = time.time) -> RunDirectory:
        """Take up the folder of a run that stopped, and whatever a kill left half done in it."""
        for entry in path.iterdir():
            if entry.is_symlink():
                raise ConfigError(f"{entry}: a run's files are no links: put the file itself there")
        directory = cls(path, clock)
        for name in ("events.jsonl", "run.log"):
            _cut_last_line(path / name)
        for left in path.glob(".*.tmp"):
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
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        self._events.write(json.dumps({"time": at, **_plain(events.to_json(event))}, allow_nan=False) + "\n")
        self._log.write(line(event, self._rounds) + "\n")
        self._events.flush()
        self._log.flush()

    def save(self, model: Mapping[str, NDArray[Any]], state: Mapping[str, Any], ledger: Mapping[str, Any]) -> None:
        """Replace what is stored; see `Store.save`."""
        self.store.save(model, state, ledger)

    def stored(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """The state and the model to go on from; None where the run stopped before its first round."""
        return self.store.stored()

    def save_ledger(self, ledger: Mapping[str, Any]) -> None:
        """Replace the ledger alone: that of all parties in this process."""
        replace_file(self.path / "ledger.json", _json_file(ledger))

    def part(self, party: str) -> Store:
        """Where one of several parties in this process keeps what is its own."""
        path = self.path / party
        path.mkdir(exist_ok=True)
        return Store(path, keep=2)

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


class Store:
    """A model, the state to go on from and the ledger, as files of one folder.

    Parties in lock step may be killed between two of them saving: each keeps the last two states (`keep`), and they go
    on from the latest that all have.
    """

    def __init__(self, path: Path, keep: int = 1) -> None:
        self.path = path
        self._keep = keep
        self._stored_round: int | None = None  # of the model on disk

    def save(self, model: Mapping[str, NDArray[Any]], state: Mapping[str, Any], ledger: Mapping[str, Any]) -> None:
        """Replace what is stored. `state` holds arrays and plain numbers, among them the `round` that comes next.

        The state and the ledger come first: what was released is never more than they say. Only the first model of all,
        with which nothing was released, comes before them: whoever finds them without a model knows that it was lost.
        """
        number = int(state["round"])
        if self._stored_round is None:
            self._save_model(model, number)
        arrays = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
        plain = {key: value for key, value in state.items() if key not in arrays}
        replace_file(
            self.path / f"state-{number}.safetensors",
            safetensors.numpy.save(arrays, metadata={"state": json.dumps(plain, allow_nan=False)}),
        )
        replace_file(self.path / "ledger.json", _json_file(ledger))
        if self._stored_round != number:
            self._save_model(model, number)
        kept = [old for old in self.numbers() if old <= number][-self._keep :]
        for old in self.numbers():
            if old not in kept:
                (self.path / f"state-{old}.safetensors").unlink()

    def save_ledger(self, ledger: Mapping[str, Any]) -> None:
        """Replace the ledger alone: what is paid before it is released."""
        replace_file(self.path / "ledger.json", _json_file(ledger))

    def ledger(self) -> dict[str, Any] | None:
        """The ledger as it was stored last; None where there is none."""
        path = self.path / "ledger.json"
        if not path.exists():
            return None
        try:
            found: dict[str, Any] = json.loads(path.read_bytes())
        except ValueError as error:
            raise ConfigError(f"{path}: it cannot be read, the run cannot go on: {error}") from None
        return found

    def save_model(self, model: Mapping[str, NDArray[Any]]) -> None:
        """Replace the model alone: what a party has at the end of a training."""
        self._save_model(model, self._stored_round or 0)

    def numbers(self) -> list[int]:
        """The states that are stored, by how many rounds or epochs were done, rising."""
        names = (path.name.removeprefix("state-").removesuffix(".safetensors") for path in self._states())
        return sorted(int(name) for name in names if name.isdecimal())

    def _states(self) -> Iterator[Path]:
        return self.path.glob("state-*.safetensors")

    def state(self, number: int) -> dict[str, Any]:
        """One of the stored states."""
        arrays, about = _read_safetensors(self.path / f"state-{number}.safetensors")
        try:
            return {**arrays, **json.loads(about["state"])}
        except (KeyError, ValueError, TypeError) as error:
            raise ConfigError(f"{self.path}: its state cannot be read, the run cannot go on: {error}") from None

    def _save_model(self, model: Mapping[str, NDArray[Any]], number: int) -> None:
        whole = {name: np.asarray(array, order="C") for name, array in model.items()}
        replace_file(self.path / "model.safetensors", safetensors.numpy.save(whole, metadata={"round": str(number)}))
        self._stored_round = number

    def stored(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """The state and the model to go on from; None where the run stopped before its first round."""
        kept = (self.path / "ledger.json").exists() or any(self._states())
        if not (self.path / "model.safetensors").exists() and not kept:
            return None
        model, about = _read_safetensors(self.path / "model.safetensors")
        if not about.get("round", "").isdecimal():
            raise ConfigError(f"{self.path / 'model.safetensors'}: it does not say after how many rounds it was stored")
        number = int(about["round"])
        if number == 0 and not kept:
            return None
        state = self.state(number)
        self._stored_round = number
        return state, model


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


def party_of(folder: Path) -> str | None:
    """Whose run a folder holds; None where all parties were in one process."""
    path = folder / "party"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None


def read_model(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a stored model."""
    return _read_safetensors(path)[0]


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


def _read_safetensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays of a file and its metadata."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as error:
        raise ConfigError(f"{path}: this file is damaged or missing: {error}") from None


def _cut_last_line(path: Path) -> None:
    """Take away what was written after the last end of a line."""
    with path.open("rb+") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)


def _appending(path: Path) -> TextIO:
    opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    return os.fdopen(opened, "a", encoding="utf-8", newline="\n")


def replace_file(path: Path, data: bytes) -> None:
    """Write a file in one step: a reader, or a machine that loses power, sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    # Never through a link that somebody laid there.
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(opened, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
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
