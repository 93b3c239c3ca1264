"""Resuming a run that was stopped or killed.

All that it needs is in its directory: the settings, the model of the last whole round and the state that belongs to it.
A round that was under way is done again, with fresh noise and keys; what it released stays in the ledger.

    resumed(path, ...)              the settings and the reopened directory
    unlike(path, file)              what a file says otherwise than the run that is resumed with it
    finished(settings, directory)   why there is nothing left to do, if so
    concluded(directory)            whether its events and its page say so too; conclude(directory): make them so
    holds_run(folder)               whether the folder of `--state` holds a run already
    unfinished(root, settings)      the last run of a party that was interrupted, to resume instead of a new one
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tacit.config.load import flat
from tacit.config.source import ConfigError
from tacit.events import EndHeard, Noted, RunFinished, RunStarted, TrainingStarted
from tacit.kind import changeable, fingerprint, kind_of
from tacit.runs.load import load
from tacit.runs.outcome import finished as finished_of
from tacit.runs.report import report_run
from tacit.sections import Settings
from tacit.store.directory import RunDirectory, Store, party_of, read_events
from tacit.store.party_folder import check_copies, copy_repairs


def resumed(
    path: str | Path,
    source: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    party: str | None = None,
    previous: bool = False,
) -> tuple[Settings, RunDirectory]:
    """The settings and the reopened directory of a run.

    The settings are those that the run stored; `source` is needed only if they hold Python objects. Only the number of
    rounds or epochs may change. Nothing is written before everything was checked. `party` is who joined a network with
    this directory, None if all parties were in one process. `previous`: if what was stored last is damaged, take the
    last state that is intact.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder: give the folder of a run, such as runs/<time>-<name>")
    if not (folder / "config.yaml").is_file():
        raise ConfigError(f"{folder}: this is not the folder of a run, it has no config.yaml: `tacit run` makes one")
    whose = party_of(folder)
    if whose != party:
        names = [name or "all parties in one process" for name in (whose, party)]
        raise ConfigError(f"{folder}: this is the run of {names[0]}, and not of {names[1]}: name the right one")
    stored = load(folder / "config.yaml")
    settings = load(source if source is not None else folder / "config.yaml", overrides)
    _check_same(folder, stored, settings)
    counted = kind_of(settings).counted
    directory = RunDirectory.reopen(folder, fingerprint=fingerprint(settings), counted=counted)
    try:
        if previous:
            _repair(directory, settings, party)
        _check_stored(directory, _stores(directory, settings, party), stored, settings)
        directory.save_settings(settings)
    except BaseException:
        directory.close()
        raise
    return settings, directory


def unlike(path: str | Path, file: Path | None, overrides: Sequence[str] = ()) -> str | None:
    """What the file that a run is resumed with says otherwise than the run stored, as a sentence; None if nothing."""
    stored = Path(path) / "config.yaml"
    if file is None or not stored.is_file():
        return None
    for key, was, now in _different(load(stored), load(file, overrides)):
        return (
            f"{file} is not the file of this run: {key} was {was!r} when it began, and is {now!r} there; the run keeps "
            "its own settings"
        )
    return None


def finished(settings: Settings, directory: RunDirectory, party: str | None = None) -> str | None:
    """Why a stored run has nothing left to do, as a sentence; None if it has."""
    if _stateless(settings, party):
        over = _heard_end(directory.path) and not directory.changed
        return "the coordinator said that the run is done" if over else None
    found = [store.stored() for store in _stores(directory, settings, party)]
    states = [each[0] for each in found if each is not None]
    if len(states) < len(found):
        return None
    return kind_of(settings).resume.finished(settings, _furthest_behind(states))


def concluded(directory: RunDirectory) -> bool:
    """Whether the events end with the end of a whole run, and the page was written after it."""
    last = _last_end(directory.path)
    return last is not None and last.status == "done" and (directory.path / "report.html").exists()


def conclude(directory: RunDirectory, settings: Settings, party: str) -> None:
    """Write what is missing of a party's run that has nothing left to do, and close its folder.

    It may have been killed between its last state, or the words of the coordinator, and its final event.
    """
    last = _last_end(directory.path)
    if last is None or last.status != "done":
        kind = kind_of(settings)
        answered = finished_of(list(read_events(directory.path / "events.jsonl")))
        count = answered if _stateless(settings, party) else dict(flat(settings))[kind.resume.length]
        directory.emit(RunFinished("done", count, 0.0, "", kind.counted.many))
    if not (directory.path / "report.html").exists():
        report_run(directory.path)
    directory.close()


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
        if not (folder / "config.yaml").is_file():
            continue
        try:
            if party_of(folder) != party:
                continue
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


def _heard_end(folder: Path) -> bool:
    """Whether the last process in a client's folder was told that the run is done."""
    heard = False
    for event in read_events(folder / "events.jsonl"):
        match event:
            case RunStarted():
                heard = False
            case EndHeard() | RunFinished():
                heard = event.status == "done"
    return heard


def _left_by_start(name: str) -> bool:
    """Whether a start that was killed may have left this file."""
    return name in ("environment.json", "party", "events.jsonl", "run.log") or name.endswith(".tmp")


def _check_same(folder: Path, stored: Settings, given: Settings) -> None:
    for key, was, now in _different(stored, given):
        reason = f", for which {kind_of(stored).resume.sized}" if key == kind_of(stored).resume.length else ""
        raise ConfigError(
            f"{folder}: {key} was {was!r} when the run began{reason}, and is {now!r} now: leave it as it was, or start "
            "a new run"
        )


def _different(stored: Settings, given: Settings) -> Iterator[tuple[str, Any, Any]]:
    """Each key in which settings differ although a resumed run may not change it, and both values."""
    before, now = dict(flat(stored)), dict(flat(given))
    keys = list(before | now)  # in their order in a file: the kind and the protocol before what depends on them
    empty = {
        key for key in keys if any(other.startswith(f"{key}.") for other in keys)
    }  # a section that one of them lacks
    for key in sorted(keys, key=lambda key: key in empty):  # a key of a section says more than the section
        if before.get(key) != now.get(key) and not changeable(key, stored):
            yield key, before.get(key), now.get(key)


def _stores(directory: RunDirectory, settings: Settings, party: str | None) -> list[Store]:
    """What the parties stored: each of several in one process its own part; a client has no state but its counters."""
    if _stateless(settings, party):
        return []
    parts = kind_of(settings).resume.parts(settings) if party is None else ()
    return [directory.store.part(name) for name in parts] or [directory.store]


def _stateless(settings: Settings, party: str | None) -> bool:
    return party is not None and kind_of(settings).resume.stateless(party)


def _shorter(stored: Settings, given: Settings) -> bool:
    """Whether fewer rounds or epochs are asked for than when the run was stored."""
    key = kind_of(given).resume.length
    return bool(dict(flat(given))[key] < dict(flat(stored))[key])


def _furthest_behind(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Of what several parties stored, the state that says how far the run is."""
    return min(states, key=lambda state: (int(state["round"]), bool(state.get("confirmed"))))


def _repair(directory: RunDirectory, settings: Settings, party: str | None) -> None:
    """Put the last intact files in the place of damaged ones. The ledger stays the last: what was spent is spent."""
    caught_up = partial(kind_of(settings).resume.caught_up, settings)
    found = copy_repairs(directory.path)
    found += [repair for store in _stores(directory, settings, party) for repair in store.repairs(caught_up)]
    if not found:
        raise ConfigError(f"{directory.path}: nothing that is stored there is damaged: leave out --previous")
    for repair in found:
        repair()
    directory.emit(
        Noted("what was stored last was damaged: the last that was intact is taken, the ledger is not reset")
    )


def _check_stored(directory: RunDirectory, stores: list[Store], stored: Settings, settings: Settings) -> None:
    try:
        for _ in read_events(directory.path / "events.jsonl"):
            pass
    except ValueError as error:
        raise ConfigError(f"{error}: remove this line to resume the run, which needs no events") from None
    found = [store.stored() for store in stores]
    check_copies(directory.path)
    states = [each[0] for each in found if each is not None]
    if any(state.get("settings") != fingerprint(stored) for state in states):
        raise ConfigError(
            f"{directory.path / 'config.yaml'}: it was changed since the run began, and what was spent so far was "
            "spent under the old settings: put them back, or start a new run"
        )
    if states and len(states) == len(stores):
        state = _furthest_behind(states)
        if (done := kind_of(settings).resume.finished(settings, state)) is not None and _shorter(stored, settings):
            raise ConfigError(f"{directory.path}: {done}, and fewer cannot be asked for afterwards")
