"""Going on with a run that was stopped or killed.

What it goes on with is in its directory: the settings, the model of the last whole round and the state that belongs to
it. A round that was under way is done again, with fresh noise and keys; what it released stays in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
        raise ConfigError(f"{error}: the run cannot go on") from None
    found = store.stored()
    if found is None:
        return
    state, _ = found
    if state.get("settings") != fingerprint(stored):
        raise ConfigError(
            f"{directory.path / 'config.yaml'}: it was changed since the run began, and what was spent so far was "
            "spent under the old settings: put them back, or start a new run"
        )
    kind: Any = kinds.of(settings)
    if not hasattr(kind, "finished"):
        kind.check_unfinished(settings, state, str(directory.path))
    elif (why := kind.finished(settings, state)) is not None:
        raise ConfigError(f"{directory.path}: {why}")
