"""Carrying out what a file says: each kind by its own module."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit.events import Sink
from tacit.runs import kinds
from tacit.runs.config import Settings, load
from tacit.runs.directory import RunDirectory
from tacit.runs.outcome import Outcome
from tacit.runs.resume import resumed


def run(
    path_or_dict: str | Path | dict[str, Any] | None = None,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    resume: str | Path | None = None,
    previous: bool = False,
) -> Outcome:
    """Run a file here, or a dict with the same keys. Leaves a run directory under `runs`.

    With `resume`, the run in that directory goes on instead, with the settings that it stored; a dict is needed only
    where its task's options are Python objects. `previous`: where what was stored last is damaged, it resumes from the
    last that is intact.
    """
    if resume is not None:
        if path_or_dict is not None and not isinstance(path_or_dict, dict):
            raise ValueError("a run is resumed with the settings that it stored: leave out the file")
        settings, directory = resumed(resume, path_or_dict, overrides, previous=previous)
    elif path_or_dict is None:
        raise ValueError("run needs a file or a dict, or the directory of a run to resume")
    else:
        settings = load(path_or_dict, overrides)
        directory = RunDirectory.create(Path(runs), settings, time.time())
    with directory:
        return execute(settings, sink=directory, directory=directory)


def execute(settings: Settings, *, sink: Sink, directory: RunDirectory | None) -> Outcome:
    """Carry out `settings`, every party in this process."""
    return kinds.of(settings).execute(settings, sink=sink, directory=directory)
