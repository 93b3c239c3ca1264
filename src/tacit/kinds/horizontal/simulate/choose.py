"""The engine that a file asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.events import Sink
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Task

if TYPE_CHECKING:
    from tacit.kinds.horizontal.simulate.ray_engine import RayEngine


def engine_for(settings: Settings, task: Task, sink: Sink) -> MemoryEngine | RayEngine:
    """All parties here, in this process or on a Ray cluster; ValueError that names the extra where Ray is missing."""
    if settings.engine.kind == "ray":
        from tacit.kinds.horizontal.simulate.ray_engine import RayEngine

        return RayEngine(settings, task, sink)
    return MemoryEngine(settings, task, sink)
