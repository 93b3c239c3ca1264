"""Going on with a run that was stopped or killed.

What it goes on with is in its directory: the settings, the model of the last whole round and the state that belongs to
it. A round that was under way is done again, with fresh noise and keys; what it released stays in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.runs.config import ConfigError, Settings, load
from tacit.runs.directory import RunDirectory

_MAY_CHANGE = {"rounds", "simulation.workers"}


def resumed(
    path: str | Path, source: str | Path | Mapping[str, Any] | None = None, overrides: Sequence[str] = ()
) -> tuple[Settings, RunDirectory]:
    """The settings and the reopened directory of a run.

    `source` is needed only where the task lies beside the file. Of its settings only the number of rounds may differ.
    """
    folder = Path(path)
    if not (folder / "config.yaml").is_file():
        raise ConfigError(f"{folder}: this is not the directory of a run, it has no config.yaml")
    stored = load(folder / "config.yaml")
    settings = load(source if source is not None else folder / "config.yaml", overrides)
    _check_same(folder, stored, settings)
    directory = RunDirectory.reopen(folder, settings)
    try:
        state = directory.stored()
        if state is not None and state[0]["round"] >= settings.rounds:
            raise ConfigError(
                f"{folder}: its {settings.rounds} rounds are done: to train on, give --set rounds={2 * settings.rounds}"
            )
    except BaseException:
        directory.close()
        raise
    return settings, directory


def _check_same(folder: Path, stored: Settings, given: Settings) -> None:
    before, now = (dict(_flat(settings.model_dump(mode="json"))) for settings in (stored, given))
    allowed = _MAY_CHANGE - ({"rounds"} if stored.encrypt.encrypt_type == "DDP_ENCRYPT" else set())
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key) and key not in allowed:
            reason = ", for which its noise was sized" if key == "rounds" else ""
            raise ConfigError(
                f"{folder}: {key} was {before.get(key)!r} when the run began{reason}, and is {now.get(key)!r} now: "
                "leave it as it was, or start a new run"
            )


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
