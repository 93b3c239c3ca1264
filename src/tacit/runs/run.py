"""Carrying out what a file says, every party in this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit.config.task import look_beside, refuse_in_import
from tacit.events import Noted, Sink
from tacit.kind import fingerprint, kind_of
from tacit.runs.load import load
from tacit.runs.outcome import Outcome, carried_out
from tacit.runs.resume import holds_run, resumed, unlike
from tacit.sections import Settings
from tacit.store.directory import RunDirectory


def run(
    path_or_dict: str | Path | dict[str, Any] | None = None,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    resume: str | Path | None = None,
    state: str | Path | None = None,
    previous: bool = False,
) -> Outcome:
    """Run a file here, or a dict with the same keys. Leaves a run directory under `runs`.

    With `resume`, the run in that directory is resumed instead, with the settings that it stored; a file is needed only
    if the module of the task is in its folder, and a note says if it has other settings; a dict only if the task's
    options are Python objects. With `state`, the run is stored in that folder: it starts there if the folder is empty
    and is resumed if not. `previous`: if the newest state is damaged, it resumes from the last intact one. A run that
    is done already is concluded, and nothing is trained.
    """
    refuse_in_import()
    if state is not None and resume is not None:
        raise ValueError("state and resume both name a folder: give one of them")
    source = Path(path_or_dict) if isinstance(path_or_dict, str) else path_or_dict
    look_beside(source if isinstance(source, Path) else None)
    if resume is not None:
        words = unlike(resume, source if isinstance(source, Path) else None, overrides)
        settings, directory = resumed(
            resume, source if isinstance(source, dict) else None, overrides, previous=previous
        )
        if words is not None:
            directory.emit(Noted(words))
    elif source is None:
        raise ValueError("run needs a file or a dict, or the directory of a run to resume")
    else:
        settings, directory = opened(load(source, overrides), Path(runs), None if state is None else Path(state))
    with directory:
        return execute(settings, sink=directory, directory=directory)


def opened(settings: Settings, runs: Path, state: Path | None) -> tuple[Settings, RunDirectory]:
    """A new directory under `runs`; or the fixed one, `state`, resumed if it holds a run."""
    if state is not None and holds_run(state):
        return resumed(state, settings.model_dump())
    made = RunDirectory.create(
        runs, settings, time.time(), at=state, fingerprint=fingerprint(settings), counted=kind_of(settings).counted
    )
    return settings, made


def execute(settings: Settings, *, sink: Sink, directory: RunDirectory | None) -> Outcome:
    """Carry out `settings`, every party in this process."""
    return carried_out(settings, lambda kind, here: kind.execute(settings, here), sink=sink, directory=directory)
