"""What the coordinator of a horizontal federation sees: the messages of a real round, and what it makes of them.

Attacks on a federation take a `ServerView` and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from tacit.events import ClientRefused, Kept
from tacit.kinds.horizontal.alone import alone_of
from tacit.kinds.horizontal.download import download
from tacit.kinds.horizontal.masked import inside_of, secure_context
from tacit.kinds.horizontal.messages import ToCoordinator, Update
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Arrays, Task
from tacit.kinds.horizontal.vector import Flat, Layout
from tacit.secagg.messages import Masked
from tacit.secagg.packed_words import unpack


@dataclass(frozen=True, slots=True, eq=False)
class ServerView:
    """One round: the model that the coordinator sent, every message that came back, and the model it made of them."""

    settings: Settings
    layout: Layout
    model: Flat
    messages: tuple[tuple[int, ToCoordinator], ...]
    next_model: Flat

    @property
    def mean_update(self) -> Flat:
        """What the protection lets the coordinator compute: the mean of all updates, weighted where it is."""
        return np.asarray(self.next_model - self.model)

    def uploads(self) -> dict[int, Flat]:
        """Each client's update as its own upload shows it. A masked one is read as if it had no mask."""
        found: dict[int, Flat] = {}
        for sender, message in self.messages:
            match message:
                case Update():
                    found[sender] = alone_of(self.settings, self.layout.size).seen(message, self.model)
                case Masked():
                    found[sender] = self._unmasked(message)
                case _:
                    pass
        return found

    def _unmasked(self, message: Masked) -> Flat:
        inside = inside_of(self.settings, self.layout.size)
        words = unpack(message.words, *inside.ring)
        return inside.seen(words, secure_context(self.settings, self.layout, self._sent(), 0).digest())

    def _sent(self) -> Flat:
        return download(self.layout, self.model, self.settings.round.down).model

    def arrays(self, flat: Flat) -> Arrays:
        return self.layout.unflatten(flat)


def record(settings: Settings, task: Task) -> ServerView:
    """Run the first round of a federation and keep what its coordinator sees. ValueError if no client uploads."""
    if settings.rounds != 1:
        raise ValueError(f"one round is recorded, the settings have {settings.rounds}: set rounds to 1")
    messages: list[tuple[int, ToCoordinator]] = []
    told = Kept()
    engine = MemoryEngine(settings, task, told, watch=lambda sender, message: messages.append((sender, message)))
    before = task.model()
    layout = Layout.of(before)
    model = layout.flatten(before).copy()
    engine.run()
    if not any(isinstance(message, Update | Masked) for _, message in messages):
        reasons = {event.reason for event in told.events if isinstance(event, ClientRefused)}
        raise ValueError(nothing_to_attack("no client uploaded an update", reasons))
    return ServerView(settings, layout, model, tuple(messages), layout.flatten(engine.coordinator.model).copy())


def nothing_to_attack(what: str, reasons: Collection[str]) -> str:
    """Why a round shows an attacker nothing, where clients were refused for these reasons."""
    why = "; ".join(sorted(reasons)) or "no client was refused, and too few answered"
    return f"{what}, so that there is nothing to attack: {why}"
