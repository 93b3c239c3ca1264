"""A model, the state to resume from and the ledger, as files of one folder.

    model.safetensors           the model, with the number of the state that belongs to it
    model.previous.safetensors  the model before it
    state-N.safetensors         what else is needed to resume after N rounds, epochs or steps; the last two are kept
    ledger.json                 what was spent, and the counters that must never fall
    ledger.copy.json            the same again
    peers.json                  over a network: the fingerprints of the parties that were met, and a copy

What was stored last may turn out to be damaged. Then the state before it takes its place (`Store.repairs`), but never
an earlier ledger: what was released since stays paid for.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.config.source import ConfigError
from tacit.store.files import (
    Arrays,
    Damaged,
    Repair,
    copy_of,
    make_folder,
    read_arrays,
    read_plain,
    read_twice,
    repair_from_copy,
    replace_file,
    sync_folder,
    write_arrays,
    write_twice,
)

State = dict[str, Any]
CaughtUp = Callable[[State, dict[str, Any]], State]
LEDGER = frozenset({"version", "ledgers"})  # the keys of a ledger.json without a checksum
CLIENT = frozenset({"state", "ledger"})  # and of a client's counters
PEERS = frozenset({"peers"})  # and of the fingerprints of those whom a party met
PEERS_FILE = "peers.json"
PAUSED_FILE = "paused"
REVOKED = frozenset({"list"})  # and of the newest revocation list that it has seen
REVOKED_FILE = "revoked.json"
_KEPT = 2


class Store:
    """What one party keeps.

    Parties in lock step may be killed between two of them saving: each keeps the last two states, and they resume from
    the latest that all have.
    """

    def __init__(self, path: Path, fingerprint: str = "") -> None:
        self.path = path
        self._fingerprint = fingerprint  # of the settings, which a resumed run must have too; without one none is kept
        self._model = path / "model.safetensors"
        self._previous = path / "model.previous.safetensors"
        self._ledger = path / "ledger.json"
        self._stored_round: int | None = None  # of the model on disk

    def part(self, party: str) -> Store:
        """Where one of several parties in this process keeps what is its own."""
        path = self.path / party
        if not path.is_dir():
            make_folder(path)
        return Store(path, self._fingerprint)

    # --- saving

    def save(self, model: Mapping[str, NDArray[Any]], state: Mapping[str, Any], ledger: Mapping[str, Any]) -> None:
        """Replace what is stored. `state` holds arrays and plain numbers, among them the `round` that comes next.

        The fingerprint of the settings is added to it.

        The state and the ledger come first: what was released is never more than they say. Only the first model of all,
        with which nothing was released, comes before them: if they are found without a model, it was lost.
        """
        number = int(state["round"])
        state = {**state, "settings": self._fingerprint} if self._fingerprint else state
        if self._round_on_disk() is None:
            self.save_model(model, number)
        self._save_state(number, state)
        self.save_ledger(ledger)
        if self._stored_round != number:
            self._keep_previous()
            self.save_model(model, number)
        kept = [old for old in self.numbers() if old <= number][-_KEPT:]
        self._remove_states(kept)

    def save_ledger(self, ledger: Mapping[str, Any]) -> None:
        """Replace the ledger alone: what is paid before it is released."""
        write_twice(self._ledger, ledger)

    def save_model(self, model: Mapping[str, NDArray[Any]], number: int) -> None:
        """Replace the model alone, that of `number` rounds: all that a client keeps of it."""
        write_arrays(self._model, {name: np.asarray(array) for name, array in model.items()}, {"round": str(number)})
        self._stored_round = number

    def _save_state(self, number: int, state: Mapping[str, Any]) -> None:
        arrays = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
        plain = {key: value for key, value in state.items() if key not in arrays}
        write_arrays(self._state_path(number), arrays, {"state": json.dumps(plain, allow_nan=False)})

    def _keep_previous(self) -> None:
        """Give the model a second name, before another takes its own. Killed in between, none is kept."""
        self._previous.unlink(missing_ok=True)
        try:
            os.link(self._model, self._previous)
        except OSError:  # a file system without links
            replace_file(self._previous, self._model.read_bytes())
        else:
            sync_folder(self.path)

    def _remove_states(self, kept: list[int]) -> None:
        for old in self.numbers():
            if old not in kept:
                self._state_path(old).unlink()

    def _round_on_disk(self) -> int | None:
        if self._stored_round is None and self._model.exists():
            self._stored_round = self._read_model(self._model)[1]
        return self._stored_round

    # --- reading

    def stored(self) -> tuple[State, Arrays] | None:
        """The state and the model to resume from; None if the run stopped before its first round.

        Where one of them or the ledger is damaged, ConfigError says what is left.
        """
        try:
            return self._stored()
        except Damaged as error:
            raise self._offered(error) from None

    def _stored(self) -> tuple[State, Arrays] | None:
        found = self._resumable()
        self.ledger()
        return found

    def _resumable(self) -> tuple[State, Arrays] | None:
        kept = self._ledger.exists() or bool(self.numbers())
        if not self._model.exists() and not kept:
            return None
        model, number = self._read_model(self._model)
        if number == 0 and not kept:
            return None
        state = self.state(number)
        self._stored_round = number
        return state, model

    def model(self) -> Arrays:
        """The model alone. Where it is damaged, ConfigError says what is left."""
        try:
            return read_arrays(self._model)[0]
        except Damaged as error:
            if not self.numbers():
                raise ConfigError(f"{error}: a client keeps only the last model that it was sent") from None
            raise self._offered(error) from None

    def model_round(self) -> int | None:
        """How many rounds made the stored model; None if there is none. Raises Damaged."""
        return self._read_model(self._model)[1] if self._model.exists() else None

    def intact_ledger(self) -> dict[str, Any] | None:
        """The ledger alone. Where it is damaged, ConfigError says what is left."""
        return read_intact(self._ledger, LEDGER)

    def ledger(self) -> dict[str, Any] | None:
        """The ledger as it was stored last; None if there is none. Raises Damaged."""
        return read_twice(self._ledger, LEDGER)

    def numbers(self) -> list[int]:
        """The states that are stored, by how many rounds, epochs or steps were done, rising."""
        found = self.path.glob("state-*.safetensors")
        names = (path.name.removeprefix("state-").removesuffix(".safetensors") for path in found)
        return sorted(int(name) for name in names if name.isdecimal())

    def states(self) -> list[State]:
        """The stored states that are intact."""
        found = []
        for number in self.numbers():
            try:
                found.append(self.state(number))
            except Damaged:
                continue
        return found

    def state(self, number: int) -> State:
        """One of the stored states. Raises Damaged."""
        path = self._state_path(number)
        arrays, about = read_arrays(path)
        try:
            return {**arrays, **json.loads(about["state"])}
        except (KeyError, ValueError, TypeError) as error:
            raise Damaged(f"{path}: this file is damaged or missing: it holds no state: {error}") from None

    def _state_path(self, number: int) -> Path:
        return self.path / f"state-{number}.safetensors"

    def _read_model(self, path: Path) -> tuple[Arrays, int]:
        model, about = read_arrays(path)
        if not about.get("round", "").isdecimal():
            raise Damaged(f"{path}: this file is damaged or missing: it does not name the state that belongs to it")
        return model, int(about["round"])

    # --- the state before the last

    def repairs(self, caught_up: CaughtUp) -> list[Repair]:
        """What puts intact files in the place of damaged ones; nothing if none is damaged. Nothing is written yet.

        `caught_up` makes of an earlier state and the last ledger a state in which all is counted that was spent since.
        Raises ConfigError where that cannot be, or where nothing intact is left. Killed between any two writes of a
        repair, it can be made again.
        """
        try:
            found = repair_from_copy(self._ledger, LEDGER)
            try:
                self._resumable()
            except Damaged:
                ledger = read_plain(copy_of(self._ledger), LEDGER) if found else self.ledger()
                found.append(self._step_back(caught_up, ledger or {}))
        except Damaged as error:
            raise ConfigError(f"{error}, and nothing earlier that is intact: start a new run") from None
        return found

    def _step_back(self, caught_up: CaughtUp, ledger: dict[str, Any]) -> Repair:
        model, number = self._read_model(self._previous)
        earlier = self.state(number)
        try:
            state = caught_up(earlier, ledger)
        except (KeyError, TypeError, ValueError):
            raise ConfigError(
                f"{self._ledger}: it does not say what was spent after the state before the damaged one: start a new "
                "run"
            ) from None

        def step_back() -> None:
            self._save_state(number, state)
            self.save_model(model, number)
            self._remove_states([old for old in self.numbers() if old <= number])

        return step_back

    def _offered(self, error: Damaged) -> ConfigError:
        return _offered(error, self.path, lambda: self.repairs(lambda state, ledger: state))


def read_intact(path: Path, known: frozenset[str]) -> dict[str, Any] | None:
    """A ledger, or a client's counters, stored twice. If it is damaged, ConfigError says what is left."""
    try:
        return read_twice(path, known)
    except Damaged as error:
        raise _offered(error, path.parent, lambda: repair_from_copy(path, known)) from None


def check_copies(folder: Path) -> None:
    """ConfigError if the ledger, or the counters of a client, in a run's folder are damaged."""
    for path, known in _stored_twice(folder):
        read_intact(path, known)


def copy_repairs(folder: Path) -> list[Repair]:
    """What puts the copies in the place of a damaged ledger or damaged counters in a run's folder."""
    try:
        return [repair for path, known in _stored_twice(folder) for repair in repair_from_copy(path, known)]
    except Damaged as error:
        raise ConfigError(f"{error}, and the file that it is a copy of too: start a new run") from None


def _stored_twice(folder: Path) -> list[tuple[Path, frozenset[str]]]:
    clients = sorted({path.name.replace(".copy.json", ".json") for path in folder.glob("client-*.json")})
    return [
        (folder / "ledger.json", LEDGER),
        (folder / PEERS_FILE, PEERS),
        (folder / REVOKED_FILE, REVOKED),
        *((folder / name, CLIENT) for name in clients),
    ]


def _offered(error: Damaged, folder: Path, repairs: Callable[[], list[Repair]]) -> ConfigError:
    """The error with what can be done about it."""
    try:
        repairs()
    except ConfigError:
        return ConfigError(f"{error}: nothing stored before it is intact: start a new run")
    return ConfigError(f"{error}: to resume from the last that is intact: {_command(folder)}")


def _command(folder: Path) -> str:
    """The command that resumes a run from the last that is intact, of a run's folder or one in it."""
    run = folder if (folder / "config.yaml").is_file() else folder.parent
    whose = party_of(run)
    if whose is None:
        return f"tacit run --resume {run} --previous"
    client = re.fullmatch(r"client-(\d+)(?: to (\d+))?", whose)
    name = f"client --id {'-'.join(filter(None, client.groups()))}" if client else whose
    return f"tacit join FILE --party {name} --resume {run} --previous"


def party_of(folder: Path) -> str | None:
    """Whose run a folder holds; None where all parties were in one process."""
    path = folder / "party"
    if not path.is_file():
        return None
    name = path.read_text(encoding="utf-8", errors="replace").strip()
    if not re.fullmatch(r"[A-Za-z0-9_. -]{1,80}", name):
        raise ConfigError(f"{path}: this file is damaged: write into it whose run this is")
    return name
