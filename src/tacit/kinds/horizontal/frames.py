"""The messages of a federation as frames for a network, and back.

Secure aggregation's messages are frames already (`secagg.messages`). A model or an update is its little-endian numbers
in the layout that both sides know from the task: whatever has another size is refused.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.errors import PeerError
from tacit.kinds.horizontal.messages import Inference, ToClient, ToCoordinator, Update, Work
from tacit.kinds.horizontal.vector import Flat, Layout
from tacit.secagg.messages import Abort, Advertise, Agreed, Agreements, Inbox, Masked, Reveal, Roster, Shares, Survivors
from tacit.wire import Finite, Message, decode, encode

Number = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Id = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class WorkFrame(Message, frozen=True, tag=20):
    round: Number
    clip: Finite | None
    model: bytes


class UpdateFrame(Message, frozen=True, tag=21):
    round: Number
    sender: Id
    vector: bytes
    samples: Number | None
    loss: float | None


class InferenceFrame(Message, frozen=True, tag=22):
    round: Number
    sender: Id
    vectors: bytes


_FromClient = UpdateFrame | InferenceFrame | Advertise | Shares | Masked | Agreed | Reveal | Abort
_FromCoordinator = WorkFrame | Roster | Inbox | Survivors | Agreements | Abort


def to_frame(message: ToClient | ToCoordinator) -> bytes:
    """The frame of a message."""
    match message:
        case Work():
            return encode(WorkFrame(message.round, message.clip, _bytes(message.model)))
        case Update():
            vector = _bytes(message.vector)
            return encode(UpdateFrame(message.round, message.sender, vector, message.samples, message.loss))
        case Inference():
            return encode(InferenceFrame(message.round, message.sender, _bytes(message.vectors)))
        case _:
            return encode(message)


def to_client(frame: bytes, layout: Layout, limit: int) -> ToClient:
    """The message that the coordinator sent."""
    message: Any = decode(frame, _FromCoordinator, limit)  # type: ignore[arg-type]
    if not isinstance(message, WorkFrame):
        return message  # type: ignore[no-any-return]
    model = _numbers(message.model, layout.dtype, layout.size, "a model")
    return Work(message.round, model, message.clip)


def to_coordinator(frame: bytes, layout: Layout, classes: int | None, limit: int) -> ToCoordinator:
    """The message that a client sent. Inference results have `classes` columns."""
    message: Any = decode(frame, _FromClient, limit)  # type: ignore[arg-type]
    match message:
        case UpdateFrame():
            vector = _numbers(message.vector, layout.dtype, layout.size, "an update")
            return Update(message.round, message.sender, vector, message.samples, message.loss)
        case InferenceFrame():
            width = classes or 1
            if len(message.vectors) % (8 * width):
                raise PeerError(f"inference results of {len(message.vectors)} bytes are not rows of {width} numbers")
            vectors = np.frombuffer(message.vectors, dtype="<f8").reshape(-1, width)
            return Inference(message.round, message.sender, vectors.astype(np.float64, copy=False))
        case _:
            return message  # type: ignore[no-any-return]


def _bytes(array: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()


def _numbers(data: bytes, dtype: str, count: int, what: str) -> Flat:
    kind = np.dtype(dtype).newbyteorder("<")
    if len(data) != count * kind.itemsize:
        raise PeerError(f"{what} of {len(data)} bytes, {count * kind.itemsize} are due")
    return np.frombuffer(data, dtype=kind).astype(dtype, copy=False)
