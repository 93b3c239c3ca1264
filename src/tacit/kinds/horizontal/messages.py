"""What the coordinator and a client send each other, in addition to the messages of secure aggregation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.horizontal.vector import Flat, largest
from tacit.secagg.messages import ToClient as SecureToClient
from tacit.secagg.messages import ToServer as SecureToServer

HEAD_BYTES = 32  # of a message beside its numbers, about


@dataclass(frozen=True, eq=False)
class Work:
    """Train this model. Read-only: all clients of a process may share it, and what one of them found out about it."""

    round: int  # begun before this one, whatever came of them: a client answers each number once, and only upwards
    model: Flat
    clip: float | None = None  # the norm to clip to, where the protection clips
    coded: bytes | memoryview | None = None  # the model as it travels, if its numbers are rounded: see `download`

    @cached_property
    def largest(self) -> np.floating[Any]:
        """The largest magnitude in the model, in its own type; NaN if any of its numbers is."""
        return largest(self.model)


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What a client learnt: its trained model in the clear, or the update to the model with noise."""

    round: int
    sender: int
    vector: Flat
    samples: int | None = None  # only in the clear
    loss: float | None = None  # only in the clear


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """What the received model says about some of a client's samples: rows of probabilities, with noise or without."""

    round: int
    sender: int
    vectors: NDArray[np.float64]


ToClient = Work | SecureToClient
ToCoordinator = Update | Inference | SecureToServer
Outgoing = list[tuple[int, ToClient]]  # what goes to which client
