"""Going on with a run that was stopped or killed.

What it goes on with is in its directory: the settings, the model of the last whole round and the state that belongs to
it. A round that was under way is done again, with fresh noise and keys; what it released stays in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tacit.events import Noted
from tacit.runs import kinds
from tacit.runs.config import ConfigError, Settings, changeable, fingerprint, flat, load
from tacit.runs.directory import RunDirectory, Store, party_of, read_events
from tacit.runs.store import check_copies, copy_repairs


def resumed(
    path: str | Path,
    source: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    party: str | None = None,
    previous: bool = False,
) -> tuple[Settings, RunDirectory]:
    """The settings and the reopened directory of a run.

    The settings are those that the run stored; `source` is needed only where they hold Python objects. Of all of them
    only the number of rounds may change. Nothing is written before everything was checked. `party` is who went on a
    network with this directory, None where all parties were in one process. `previous`: where what was stored last is
    damaged, take the last that is intact.
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
        if previous:
            _repair(directory, settings, party)
        _check_stored(directory, _stores(directory, settings, party), stored, settings)
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


def _stores(directory: RunDirectory, settings: Settings, party: str | None) -> list[Store]:
    """What the parties stored: each of several in one process its own part."""
    if party is not None or not hasattr(settings, "lead"):
        return [directory.store]
    return [directory.part(name) for name in settings.parties]  # type: ignore[union-attr]


def _repair(directory: RunDirectory, settings: Settings, party: str | None) -> None:
    """Put the last intact files in the place of damaged ones. The ledger stays the last: what was spent is spent."""
    caught_up = partial(kinds.of(settings).caught_up, settings)
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
        raise ConfigError(f"{error}: the run cannot go on") from None
    found = [store.stored() for store in stores]
    check_copies(directory.path)
    states = [each[0] for each in found if each is not None]
    if any(state.get("settings") != fingerprint(stored) for state in states):
        raise ConfigError(
            f"{directory.path / 'config.yaml'}: it was changed since the run began, and what was spent so far was "
            "spent under the old settings: put them back, or start a new run"
        )
    if len(states) == len(stores):
        state = min(states, key=lambda state: int(state["round"]))  # the run is as far as its last party
        kinds.of(settings).check_unfinished(settings, state, str(directory.path))
