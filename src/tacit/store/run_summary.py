"""A run in a few words, for lists of runs: whatever its kind, and while it runs.

    Following(path)     one run's folder, followed; `refreshed()` reads what is new and gives its `Summary`
    runs_in(root)       the folders of runs that are directly in a folder

Of a long file of events only the first and the last part are read. A folder that cannot be read says so in its summary.

States: what the last event says (`done`, `failed`, `stopped`, `budget reached`); if the events go on after it or have
no end, `running` or `paused` while a process holds the folder's lock, and `killed` if none does; `damaged` if a file is
unreadable.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from tacit.events import (
    Answered,
    EpochFinished,
    Evaluated,
    Paused,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunResumed,
    RunStarted,
    Stepped,
    TrainingResumed,
    TrainingStarted,
    Unpaused,
)
from tacit.store.files import Damaged, plain_of
from tacit.store.party_folder import LEDGER
from tacit.store.reading import accounts
from tacit.store.tail import UNREADABLE, Told, is_written, read_piece, read_small

State = Literal["running", "paused", "done", "budget reached", "stopped", "failed", "killed", "damaged"]

_HEAD, _TAIL, _LONG_TAIL = 1 << 13, 1 << 14, 1 << 20  # bytes of a long file of events
_MOST_AT_ONCE = 1 << 20  # of what was added since: a file that grows faster is read from its end again
_PIECE = 1 << 18
_SMALL = 1 << 22  # bytes of a ledger; one of 30 rounds has some 1,000
_CONFIG = 1 << 16
_TOP_LEVEL = re.compile(rb"^(kind|name): ([A-Za-z0-9_.:-]{1,80})$", re.MULTILINE)
_LENGTH = {  # of a run in its config.yaml: more than the events say if it was resumed with more
    "rounds": re.compile(rb"^rounds: ([0-9]{1,9})$", re.MULTILINE),
    "epochs": re.compile(rb"^train:\n(?:  .*\n)*?  epochs: ([0-9]{1,9})$", re.MULTILINE),
}
_TREES = re.compile(rb"^train:\n(?:  .*\n)*?  trees: ([0-9]{1,9})$", re.MULTILINE)  # rounds, told as epochs
_UNDER_WAY = ("running", "paused")
_AT_WORK = (RunStarted, RunResumed, RoundStarted, RoundFinished, Answered, Unpaused)  # no pause is under way
_BEST_KNOWN = ("accuracy", "auc", "r2", "rmse")  # what stands for a model if it has several metrics


class Spent(NamedTuple):
    """What a run cost in privacy so far."""

    of: str  # what it covers: "updates", "model"
    epsilon: float
    delta: float


class Measured(NamedTuple):
    """The figure that stands for how well a run went."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A run as its folder tells it."""

    folder: str  # its name
    name: str = ""  # of the federation
    kind: str = ""
    party: str = ""  # whose folder it is; empty if all parties were in one process
    protection: str = ""
    state: State = "killed"
    unit: str = "rounds"  # or epochs
    done: int = 0
    part: float = 0.0  # of the unit under way
    total: int = 0
    spent: tuple[Spent, ...] = ()
    measured: Measured | None = None
    began: float = 0.0  # seconds since 1970
    last: float = 0.0  # the same, of the last event
    reason: str = ""  # for its end
    damage: str = ""  # what cannot be read, as a sentence


class _Signature(NamedTuple):
    """What changes if a file does."""

    inode: int = 0
    size: int = 0
    written: int = 0


class Following:
    """One run's folder, followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._events = path / "events.jsonl"
        self._forget()

    def _forget(self) -> None:
        self._told = Summary(self.path.name)  # as its events tell it
        self._ended: RunFinished | None = None
        self._after = False  # whether something was told after that
        self._paused = False  # by what was told last of pauses
        self._read = _Signature()
        self._ledger_read = _Signature()
        self._ledger: tuple[Spent, ...] = ()
        self._ledger_damage = ""
        self._offset = 0
        self._damaged = 0
        self._progress = False
        self._config = b""  # as it was when the run began or was resumed last

    def refreshed(self) -> Summary:
        """The run as it is now."""
        try:
            self._read_events()
            self._read_ledger()
            return self._concluded()
        except FileNotFoundError:
            return replace(self._told, state="damaged", damage=f"{self._events.name} is missing")
        except OSError as error:
            damage = f"{Path(error.filename or self._events).name} cannot be read: {error.strerror or error}"
            return replace(self._told, state="damaged", damage=damage)

    # --- the events

    def _read_events(self) -> None:
        now = _signature(self._events)
        if now == self._read:
            return
        if now.inode != self._read.inode or now.size < self._offset:
            self._forget()
            self._begin(now.size)
        elif now.size - self._offset > _MOST_AT_ONCE:
            self._offset = now.size - _TAIL
        self._read_to(now.size)
        self._read = now

    def _begin(self, size: int) -> None:
        """The first part, and where to go on."""
        self._config = _beginning(self.path / "config.yaml")
        named = dict(_TOP_LEVEL.findall(self._config))
        kind, name = (named.get(key, b"").decode() for key in (b"kind", b"name"))
        self._told = replace(self._told, kind=kind, name=name, party=_party(self.path / "party"))
        if size <= _HEAD + _TAIL:
            return
        self._read_to(_HEAD)
        damaged, self._progress = self._damaged, False
        self._offset = size - _TAIL
        self._read_to(size)
        if not self._progress:  # long lines only, such as curves
            self._damaged = damaged
            self._offset = max(_HEAD, size - _LONG_TAIL)

    def _read_to(self, end: int) -> None:
        """All whole lines up to `end`, and the one in which it lies."""
        while self._offset < end:
            piece = read_piece(self._events, self._offset, _PIECE if end > _HEAD else _HEAD)
            for told in piece.told:
                self._tell(told)
            self._damaged += piece.damaged
            if piece.end <= self._offset:
                return
            self._offset = piece.end

    def _tell(self, told: Told) -> None:
        event = told.event
        self._progress |= isinstance(event, RoundFinished | EpochFinished | Stepped | Answered)
        if isinstance(event, RunFinished):
            self._ended, self._after = event, False
        elif isinstance(event, RunStarted | RunResumed | TrainingStarted | TrainingResumed):
            self._ended = None
            self._config = _beginning(self.path / "config.yaml")
        else:
            self._after = True
        if isinstance(event, Paused):
            self._paused = True
        elif isinstance(event, _AT_WORK):
            self._paused = False
        try:
            self._told = folded(self._told, told)
        except UNREADABLE:
            self._damaged += 1

    # --- the rest

    def _read_ledger(self) -> None:
        path = self.path / "ledger.json"
        try:
            now = _signature(path)
            if now == self._ledger_read:
                return
            self._ledger, self._ledger_damage, self._ledger_read = (), "", now
            found = accounts(plain_of(path, read_small(path, _SMALL), LEDGER), path)
            self._ledger = tuple(Spent(" and ".join(each.covers), each.epsilon, each.delta) for each in found)
        except FileNotFoundError:
            self._ledger, self._ledger_damage, self._ledger_read = (), "", _Signature()
        except (Damaged, *UNREADABLE) as error:
            self._ledger_damage = f"{path.name}: {str(error).removeprefix(str(path)).lstrip(':1 ')}"

    def _concluded(self) -> Summary:
        """What the events and the ledger tell, with the state."""
        damage = self._ledger_damage
        if self._damaged:
            count = "a line is not an event" if self._damaged == 1 else f"{self._damaged:,} lines are not events"
            damage = f"events.jsonl: {count}"
        state: State
        if self._ended is not None and not self._after:
            state = self._ended.status
        elif is_written(self._events):
            state = "paused" if self._paused else "running"
        else:
            state = "killed" if self._ended is None else self._ended.status
        under_way = state in _UNDER_WAY
        if not under_way and not damage and not (self.path / "config.yaml").is_file():
            damage = "config.yaml is missing"
        unit, total = self._length()
        return replace(
            self._told,
            began=self._told.began or self._read.written / 1e9,  # nothing was told yet
            unit=unit,
            total=total,
            state="damaged" if damage and not under_way else state,
            spent=self._ledger or self._told.spent,
            reason=self._ended.text if self._ended is not None and state == self._ended.status else "",
            damage=damage,
        )

    def _length(self) -> tuple[str, int]:
        """Rounds or epochs, and how many there are: a run that is resumed may have more than it began with."""
        unit, total, trees = self._told.unit, self._told.total, _TREES.search(self._config)
        found = trees or _LENGTH[unit].search(self._config)
        return "rounds" if trees else unit, max(total, int(found[1])) if total and found else total


def folded(summary: Summary, told: Told) -> Summary:
    """The summary after one more event. Raises one of UNREADABLE if a value of it is none that a run has."""
    summary = replace(summary, began=summary.began or told.at, last=max(summary.last, told.at))
    match event := told.event:
        case RunStarted():
            return replace(_named(summary, event), unit="rounds", total=event.rounds)
        case TrainingStarted():
            return replace(_named(summary, event), unit="epochs", total=event.epochs)
        case RunResumed():
            return replace(summary, done=event.round, part=0.0)
        case TrainingResumed():
            return replace(summary, done=event.epoch, part=0.0)
        case RoundFinished():
            spent = _spent(costs_of_round(event)) or summary.spent
            measured = _headline(event.metrics) or summary.measured
            return replace(summary, done=event.round + 1, spent=spent, measured=measured)
        case RoundAborted():
            return replace(summary, done=event.round + 1)
        case Evaluated() if event.score is not None and (summary.measured is None or _is_score(summary.measured)):
            name = event.eval_type.removesuffix("_SCORE").lower().replace("_", " ")
            return replace(summary, measured=_headline({f"{name} score": event.score}) or summary.measured)
        case Stepped():
            whole = event.epoch + event.step / max(1, event.steps)
            return replace(summary, done=math.floor(whole), part=whole - math.floor(whole))
        case EpochFinished():
            spent = _spent({"model": (event.epsilon, event.delta)}) or summary.spent
            measured = _headline(event.metrics) or _headline(event.local) or summary.measured
            return replace(summary, done=event.epoch + 1, part=0.0, spent=spent, measured=measured)
        case Answered():
            before = {each.of: (each.epsilon, each.delta) for each in summary.spent}
            now = {of: (value, event.deltas.get(of)) for of, value in event.epsilons.items()}
            most = {of: each for of, each in now.items() if of not in before or (each[0] or 0) >= before[of][0]}
            return replace(summary, done=max(summary.done, event.round + 1), spent=_spent({**before, **most}))
        case RunFinished():
            return replace(summary, unit="epochs" if event.unit == "epochs" else "rounds", part=0.0)
        case _:
            return summary


def _named(summary: Summary, event: RunStarted | TrainingStarted) -> Summary:
    return replace(summary, name=event.name, kind=event.kind, protection=event.protection)


def costs_of_round(event: RoundFinished) -> dict[str, tuple[float | None, float | None]]:
    """ε and δ of the rounds so far, by what they cover; None where it is not protected."""
    return {
        event.epsilon_of: (event.epsilon, event.delta),
        "inference vectors": (event.evaluation_epsilon, 0.0),
        "updates and inference vectors": (event.composed_epsilon, event.composed_delta),
    }


def _spent(found: Mapping[str, tuple[float | None, float | None]]) -> tuple[Spent, ...]:
    return tuple(
        Spent(of, float(epsilon), float(delta or 0.0)) for of, (epsilon, delta) in found.items() if epsilon is not None
    )


def _headline(metrics: Mapping[str, float | None]) -> Measured | None:
    found = {name: float(value) for name, value in metrics.items() if value is not None}
    if not found:
        return None
    name = next((name for name in _BEST_KNOWN if name in found), next(iter(found)))
    return Measured(name, found[name])


def _is_score(measured: Measured) -> bool:
    return measured.name.endswith(" score")


# --- the folder


def runs_in(root: Path) -> list[str]:
    """The names of the folders directly in `root` that hold a run, or what is left of one. No link is followed."""
    found = []
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and holds_run(Path(entry.path)):
                found.append(entry.name)
    return sorted(found, reverse=True)


def holds_run(path: Path) -> bool:
    """Whether there is a run in a folder, or what is left of one."""
    return any(os.path.lexists(path / name) for name in ("events.jsonl", "config.yaml"))


def _signature(path: Path) -> _Signature:
    found = path.lstat()
    return _Signature(found.st_ino, found.st_size, found.st_mtime_ns)


def _beginning(path: Path) -> bytes:
    try:
        return read_small(path, _CONFIG)
    except OSError:
        return b""


def _party(path: Path) -> str:
    """Whose folder it is, as far as the file says it."""
    try:
        return read_small(path, 100).decode("utf-8", "replace").strip()
    except OSError:
        return ""
