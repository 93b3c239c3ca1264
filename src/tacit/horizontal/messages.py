"""What the coordinator and a client send each other, besides the messages of secure aggregation."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.horizontal.vector import Flat
from tacit.secagg.messages import ToClient as SecureToClient
from tacit.secagg.messages import ToServer as SecureToServer


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Train this model. Read-only: all clients of a process may share it."""

    round: int
    model: Flat
    clip: float | None = None  # the norm to clip to, where the protection clips


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What a client learnt: its trained model in the clear, or the update to the model with noise."""

    round: int
    sender: int
    vector: Flat
    samples: int | None = None  # only in the clear
    loss: float | None = None  # only in the clear


ToClient = Work | SecureToClient
ToCoordinator = Update | SecureToServer
