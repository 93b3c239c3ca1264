"""Resuming a run that was stopped or killed.

All that it needs is in its directory: the settings, the model of the last whole round and the state that belongs to it.
A round that was under way is done again, with fresh noise and keys; what it released stays in the ledger.

    resumed(path, ...)              the settings and the reopened directory
    finished(settings, directory)   why there is nothing left to do, if so
    concluded(directory)            whether its events and its page say so too
    holds_run(folder)               whether the folder of `--state` holds a run already
    unfinished(root, settings)      the last run of a party that was interrupted, to resume instead of a new one
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.events import RunFinished, RunStarted, TrainingStarted
from tacit.runs import kinds
from tacit.runs.config import ConfigError, Settings, changeable, fingerprint, flat, load
from tacit.runs.directory import RunDirectory, Store, party_of, read_events


def resumed(
    path: str | Path,
    source: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    party: str | None = None,
) -> tuple[Settings, RunDirectory]:
    """The settings and the reopened directory of a run.

    The settings are those that the run stored; `source` is needed only where they hold Python objects. Of all of them
    only the number of rounds may change. Nothing is written before everything was checked. `party` is who went on a
    network with this directory, None where all parties were in one process.
    """
    folder = Path(path)
    if not (folder / "config.yaml").is_file():
        raise ConfigError(f"{folder}: this is not the directory of a run, it has no config.yaml")
    whose = party_of(folder)
    if whose != party:
        names = [name or "all parties in one process" for name in (whose, party)]
        raise ConfigError(f"{folder}: this is the run of {names[0]}, and not of {names[1]}: name the right one")
    stored = load(folder / "config.yaml")
    settings = load(source if source is not None else folder / "config.yaml", overrides)
    _check_same(folder, stored, settings)
    directory = RunDirectory.reopen(folder)
    try:
        _check_stored(directory, _store(directory, settings, party), stored, settings)
        directory.save_settings(settings)
    except BaseException:
        directory.close()
        raise
    return settings, directory


def finished(settings: Settings, directory: RunDirectory, party: str | None = None) -> str | None:
    """Why a stored run has nothing left to do, as a sentence; None if it has."""
    if party is not None and party.startswith("client-"):  # it has no model, and was told the end
        last = _last_end(directory.path)
        over = last is not None and last.status == "done" and not directory.changed
        return "the coordinator said that the run is done" if over else None
    found = _store(directory, settings, party).stored()
    return None if found is None else kinds.of(settings).finished(settings, found[0])


def concluded(directory: RunDirectory) -> bool:
    """Whether the events end with the end of a whole run, and the page was written after it."""
    last = _last_end(directory.path)
    return last is not None and last.status == "done" and (directory.path / "report.html").exists()


def holds_run(folder: Path) -> bool:
    """Whether a folder holds a run to resume. False if it is missing or empty, ConfigError if it holds other files."""
    if (folder / "config.yaml").is_file():
        return True
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: this is a file: --state needs a folder")
    strange = [entry.name for entry in folder.iterdir() if not _left_by_start(entry.name)] if folder.exists() else []
    if strange:
        raise ConfigError(f"{folder}: it holds {strange[0]} and no run: name an empty folder, or that of a run")
    return False


def unfinished(root: Path, settings: Settings, party: str) -> Path | None:
    """The newest run of this party and file under `root` that was interrupted after it had begun; None if none was."""
    for folder in sorted(root.glob(f"*-{settings.name}-{party}*"), reverse=True):
        if not (folder / "config.yaml").is_file() or party_of(folder) != party:
            continue
        try:
            same = fingerprint(load(folder / "config.yaml")) == fingerprint(settings)
            last = _last_end(folder)
        except ValueError:
            continue
        if same and Store(folder).numbers() and (last is None or last.status == "stopped"):
            return folder
    return None


def _last_end(folder: Path) -> RunFinished | None:
    """How the last process in a run's folder ended; None if it was killed."""
    last = None
    for event in read_events(folder / "events.jsonl"):
        if isinstance(event, RunFinished):
            last = event
        elif isinstance(event, RunStarted | TrainingStarted):
            last = None
    return last


def _left_by_start(name: str) -> bool:
    """Whether a start that was killed may have left this file."""
    return name in ("environment.json", "party", "events.jsonl", "run.log") or name.endswith(".tmp")


def _check_same(folder: Path, stored: Settings, given: Settings) -> None:
    before, now = dict(flat(stored)), dict(flat(given))
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key) and not changeable(key, stored):
            reason = ", for which its noise was sized" if key in ("rounds", "train.epochs") else ""
            raise ConfigError(
                f"{folder}: {key} was {before.get(key)!r} when the run began{reason}, and is {now.get(key)!r} now: "
                "leave it as it was, or start a new run"
            )


def _store(directory: RunDirectory, settings: Settings, party: str | None) -> Store:
    """Where the state lies that says how far the run came: of parties in one process, that of the one shown."""
    lead: str | None = getattr(settings, "lead", None)
    return directory.store if party is not None or lead is None else directory.part(lead)


def _check_stored(directory: RunDirectory, store: Store, stored: Settings, settings: Settings) -> None:
    try:
        for _ in read_events(directory.path / "events.jsonl"):
            pass
    except ValueError as error:
        raise ConfigError(f"{error}: the run cannot be resumed") from None
    found = store.stored()
    if found is None:
        return
    state, _ = found
    if state.get("settings") != fingerprint(stored):
        raise ConfigError(
            f"{directory.path / 'config.yaml'}: it was changed since the run began, and what was spent so far was "
            "spent under the old settings: put them back, or start a new run"
        )
    kind = kinds.of(settings)
    if (done := kind.finished(settings, state)) is not None and kind.finished(stored, state) is None:
        raise ConfigError(f"{directory.path}: {done}, and fewer cannot be asked for afterwards")
