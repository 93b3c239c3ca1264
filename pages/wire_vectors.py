"""Test vectors of the wire: encoded messages with their fields, pieces, and frames that must be refused.

Byte strings are written as hexadecimal text: {"hex": "00ff"}. The values are made up from each field's bounds, twice:
once as small as they may be, once larger. They say how a message is encoded, not what a protocol would send.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from pages.wire import messages, tag
from tacit.net.link import PIECE_BYTES, Link
from tacit.wire import VERSION, Message, encode

_LONG = 40  # of byte strings and texts without a bound


def stored() -> str:
    """The file, as it stands in docs/reference."""
    return json.dumps(vectors(), indent=1, ensure_ascii=True) + "\n"


def vectors() -> dict[str, Any]:
    """All test vectors."""
    return {"version": VERSION, "messages": list(_messages()), "pieces": _pieces(), "refused": _refused()}


def _messages() -> Iterator[dict[str, Any]]:
    for module, kinds in messages().items():
        for kind in kinds:
            for large in (False, True):
                message = example(kind, large=large)
                fields = {name: plain(getattr(message, name)) for name in kind.__struct_fields__}
                named = {"module": module, "message": kind.__name__, "tag": tag(kind)}
                yield {**named, "fields": fields, "frame": encode(message).hex()}


def example(kind: type[Message], *, large: bool) -> Message:
    """A message whose fields are as small as their bounds allow, or larger."""
    described: Any = msgspec.inspect.type_info(kind)
    return kind(*(_value(field.type, large, position) for position, field in enumerate(described.fields, 1)))


def _value(type_: Any, large: bool, seed: int) -> Any:
    info = msgspec.inspect
    match type_:
        case info.Metadata(type=inner):
            return _value(inner, large, seed)
        case info.IntType(ge=ge, le=le):
            least = ge if ge is not None else 0
            return min(least + 1000 * seed + 7, le if le is not None else 2**62) if large else least
        case info.FloatType():
            return 0.25 * seed if large else 0.0
        case info.BytesType(min_length=least, max_length=most) | info.MemoryViewType(min_length=least, max_length=most):
            length = min(most if most is not None else _LONG, max(least or 0, _LONG)) if large else least or 0
            return bytes((seed + index) % 256 for index in range(length))
        case info.StrType(max_length=most):
            return ("party é" if seed % 2 else "reason")[: most or _LONG] if large else ""
        case info.ListType(item_type=item, min_length=least, max_length=most):
            return [_value(item, large, seed + index) for index in range(_length(least, most, large))]
        case info.VarTupleType(item_type=item, min_length=least, max_length=most):
            return tuple(_value(item, large, seed + index) for index in range(_length(least, most, large)))
        case info.TupleType(item_types=items):
            return tuple(_value(item, large, seed + index) for index, item in enumerate(items))
        case info.UnionType(types=types):
            nothing = any(isinstance(each, info.NoneType) for each in types)
            given = [each for each in types if not isinstance(each, info.NoneType)]
            return _value(given[0], large, seed) if large or not nothing else None
        case info.BoolType():
            return large
        case info.LiteralType(values=values):
            return values[-1 if large else 0]
    raise TypeError(f"no value for {type_}")


def _length(least: int | None, most: int | None, large: bool) -> int:
    return min(most if most is not None else 3, max(least or 0, 3)) if large else least or 0


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, bytes | memoryview):
        return {"hex": value.hex()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def _pieces() -> list[dict[str, Any]]:
    """Frames that one end sends, the pieces on the wire, and what the other end answers."""
    found = []
    for frames in ([b"\x01\x92\x2a\xa0"], [b"first", b""], [bytes(PIECE_BYTES + 3)]):
        ours, theirs = Link(1 << 20), Link(1 << 20)
        for frame in frames:
            ours.send(frame)
        pieces = []
        while (piece := ours.next()) is not None:
            pieces.append(piece)
            theirs.receive(piece)
        answer = theirs.next() or b""
        heads = [{"head": piece[: 17 if piece[:1] == b"F" else 9].hex(), "bytes": len(piece)} for piece in pieces]
        found.append({"frames": [len(frame) for frame in frames], "pieces": heads, "answer": answer.hex()})
    return found


def _refused() -> list[dict[str, str]]:
    """Frames of `Refused` (net.handshake) that are none."""
    good = bytes([VERSION]) + msgspec.msgpack.encode([42, "no"])
    return [
        {"why": "another version", "frame": (b"\x02" + good[1:]).hex()},
        {"why": "nothing behind the version", "frame": good[:1].hex()},
        {"why": "cut short", "frame": good[:-1].hex()},
        {"why": "something behind the array", "frame": (good + b"\x00").hex()},
        {"why": "another tag", "frame": (good[:1] + msgspec.msgpack.encode([43, "no"])).hex()},
        {"why": "a field too few", "frame": (good[:1] + msgspec.msgpack.encode([42])).hex()},
        {"why": "a field too many", "frame": (good[:1] + msgspec.msgpack.encode([42, "no", 1])).hex()},
        {"why": "a field of another type", "frame": (good[:1] + msgspec.msgpack.encode([42, 7])).hex()},
        {
            "why": "a text longer than 300 characters",
            "frame": (good[:1] + msgspec.msgpack.encode([42, "n" * 301])).hex(),
        },
        {"why": "a map instead of an array", "frame": (good[:1] + msgspec.msgpack.encode({"reason": "no"})).hex()},
    ]
