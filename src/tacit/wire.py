"""Typed messages as bytes and back: versioned, strict, bounded; never pickle.

encode(message)                   a frame: the version byte, then MessagePack
in_parts(message)                 the same frame, whose bulk data stay where they are until they are sent
decode(frame, union, limit)       one of the union's messages, or PeerError

A message is a frozen `Message` whose fields are integers, byte strings, short texts and finite floats; bulk data (ids,
keys, ring words) travel as one byte string each, so that a frame holds few objects. `limit` bounds a frame before it is
looked at; a decoder never allocates more than the frame's own size. Wrong lengths, unknown types, missing, surplus or
trailing data, and numbers that are not finite are the peer's fault.

A field of the type `memoryview` is bulk data that is not copied: what is decoded is a view of the frame, which stays in
memory as long as the view, and what `in_parts` is given must not change until the frame has arrived.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Annotated, Any, TypeVar, cast

import msgspec

from tacit.errors import PeerError

VERSION = 1
# Of MessagePack: byte strings by the bytes of their length, numbers by their own bytes.
_FIXARRAY, _MOST_FIELDS = 0x90, 15
_BIN = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_NUMBERS = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
T = TypeVar("T")


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message between parties. Subclasses give a `tag`, their number on the wire."""


Finite = Annotated[float, msgspec.Meta(ge=-1.7e308, le=1.7e308)]  # NaN meets no bound
Text = Annotated[str, msgspec.Meta(max_length=300)]


def encode(message: Message) -> bytes:
    """The frame of `message`."""
    return bytes([VERSION]) + msgspec.msgpack.encode(message)


@dataclass(frozen=True, slots=True, eq=False)
class Parted:
    """A frame in parts, which are put together piece by piece. Several receivers may share it."""

    parts: tuple[bytes | memoryview, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)

    def between(self, start: int, stop: int) -> list[memoryview]:
        """What of its parts lies from `start` to `stop`."""
        begins = accumulate(map(len, self.parts), initial=0)
        found = (memoryview(part)[max(0, start - at) : max(0, stop - at)] for part, at in zip(self.parts, begins))  # noqa: B905
        return [view for view in found if len(view)]


AnyFrame = bytes | memoryview | Parted  # that goes out


def in_parts(message: Message) -> Parted:
    """The frame of `message`, with views of its bulk data in it."""
    fields = [getattr(message, name) for name in message.__struct_fields__]
    tag = message.__struct_config__.tag
    head = bytes([VERSION, _FIXARRAY | len(fields) + 1]) + msgspec.msgpack.encode(tag)
    if len(fields) + 1 > _MOST_FIELDS:
        raise ValueError(f"a message of {len(fields)} fields, at most {_MOST_FIELDS - 1} can be in parts")
    parts: list[bytes | memoryview] = []
    for value in fields:
        if isinstance(value, memoryview):
            bulk = value.cast("B") if value.nbytes else memoryview(b"")
            parts += [head + _bin_header(len(bulk)), bulk]
            head = b""
        else:
            head += msgspec.msgpack.encode(value)
    return Parted((*parts, head) if head else tuple(parts))


def _bin_header(size: int) -> bytes:
    for kind, width in _BIN.items():
        if size < 1 << 8 * width:
            return bytes([kind]) + size.to_bytes(width, "big")
    raise ValueError(f"bulk data of {size} bytes: a frame holds less than 4 GiB")


def bulk_at(head: bytes | memoryview) -> int:
    """Where the first long byte string of a frame begins, if that is in its `head`; 0 if not.

    A receiver that puts it at an aligned address need not copy its numbers. It is a hint: `decode` judges the frame.
    """
    at = 2
    while at < len(head):
        kind = head[at]
        if kind in _BIN:
            width = _BIN[kind]
            size = int.from_bytes(head[at + 1 : at + 1 + width], "big")
            if width == 4:
                return at + 1 + width
            at += 1 + width + size
        elif kind in _NUMBERS:
            at += 1 + _NUMBERS[kind]
        elif kind < 0x80 or kind >= 0xE0 or kind == 0xC0:  # a small integer, or nothing
            at += 1
        else:
            return 0
    return 0


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
