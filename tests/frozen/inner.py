"""What the frozen tests need of the inner tree: the only file to change when modules move."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tacit.config.load import resolved
from tacit.events import Nowhere
from tacit.kind import fingerprint
from tacit.kinds.horizontal.frames import common, to_frame
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Fitted
from tacit.kinds.horizontal.tasks.load import make
from tacit.lockstep.run import common_settings
from tacit.net.handshake import shared
from tacit.runs.load import load

__all__ = ["Fitted", "fingerprint", "frames_of", "load", "resolved", "shared_bytes"]


def shared_bytes(settings: Any) -> bytes | None:
    """What parties compare in their handshake; None for a kind with one party."""
    if settings.kind == "horizontal":
        return shared(common(settings))
    if settings.kind == "private_training":
        return None
    kind = import_module(f"tacit.kinds.{settings.kind}.party").LOCKSTEP
    return shared(common_settings(kind, settings))


def frames_of(data: dict[str, Any]) -> list[tuple[str, str, bytes]]:
    """All messages of a federation in memory, as they would travel: which way, what, and its frame."""
    settings: Any = load(data)
    seen: list[tuple[str, str, bytes]] = []

    class Recording(MemoryEngine):
        def _answer(self, identity: int, message: Any, fate: Any) -> Any:
            seen.append((f"to {identity}", type(message).__name__, to_frame(message)))
            answers = super()._answer(identity, message, fate)
            seen.extend((f"from {identity}", type(answer).__name__, to_frame(answer)) for answer in answers)
            return answers

    Recording(settings, make(settings.task, settings.clients, settings.seed, settings.task_options), Nowhere()).run()
    return seen
