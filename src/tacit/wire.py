"""Typed messages as bytes and back: versioned, strict, bounded; never pickle.

encode(message)                   a frame: the version byte, then MessagePack
decode(frame, union, limit)       one of the union's messages, or PeerError

A message is a frozen `Message` whose fields are integers, byte strings, short texts and finite floats; bulk data (ids,
keys, ring words) travel as one byte string each, so that a frame holds few objects. `limit` bounds a frame before it is
looked at; a decoder never allocates more than the frame's own size. Wrong lengths, unknown types, missing, surplus or
trailing data, and numbers that are not finite are the peer's fault.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Annotated, Any, TypeVar, cast

import msgspec

from tacit.errors import PeerError

VERSION = 1
T = TypeVar("T")


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message between parties. Subclasses give a `tag`, their number on the wire."""


Finite = Annotated[float, msgspec.Meta(ge=-1.7e308, le=1.7e308)]  # NaN meets no bound
Text = Annotated[str, msgspec.Meta(max_length=300)]


def encode(message: Message) -> bytes:
    """The frame of `message`."""
    return bytes([VERSION]) + msgspec.msgpack.encode(message)


def decode(frame: bytes | memoryview, union: type[T], limit: int) -> T:
    """The message of `frame`, which must be one of `union`."""
    if len(frame) > limit:
        raise PeerError(f"a frame of {len(frame)} bytes, at most {limit} are allowed here")
    if len(frame) < 2 or frame[0] != VERSION:
        got = frame[0] if len(frame) else "nothing"
        raise PeerError(f"a frame of version {got}, this side speaks {VERSION}: run the same release on both")
    try:
        message: T = _decoder(cast(Hashable, union)).decode(memoryview(frame)[1:])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise PeerError(f"a frame that is not a message: {error}") from None
    return message


@lru_cache(maxsize=64)
def _decoder(union: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(union, strict=True)
