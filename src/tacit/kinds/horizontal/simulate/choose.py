"""The engine that a file asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tacit.events import Sink
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Keeps, Task

if TYPE_CHECKING:
    from tacit.kinds.horizontal.simulate.ray_engine import RayEngine


def engine_for(settings: Settings, task: Task, sink: Sink, folder: Path | None = None) -> MemoryEngine | RayEngine:
    """All parties here, in this process or on a Ray cluster; ValueError that names the extra where Ray is missing.

    `folder`: of the run, for what clients keep from round to round.
    """
    if settings.engine.kind == "ray":
        if isinstance(task, Keeps) and task.keeps:
            raise ValueError(
                "engine.kind is ray, and the task keeps parameters or buffers at each client, which workers on Ray do "
                "not store: take engine.kind: memory, with simulation.workers for more processes"
            )
        from tacit.kinds.horizontal.simulate.ray_engine import RayEngine

        return RayEngine(settings, task, sink)
    return MemoryEngine(settings, task, sink, folder=folder)
