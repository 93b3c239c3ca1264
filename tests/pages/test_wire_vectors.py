"""The test vectors of the wire: what a client in another language is checked against."""

import importlib
import json
import struct
from pathlib import Path

import pytest

from pages.wire_vectors import stored, vectors
from tacit.errors import PeerError
from tacit.net.handshake import Refused
from tacit.net.link import Link
from tacit.wire import decode, encode

STORED = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "wire-vectors.json").read_text())


def unpacked(data):
    """A reader of MessagePack by its specification, without the library that the code uses: (value, the rest)."""
    first, rest = data[0], data[1:]
    if first <= 0x7F:
        return first, rest
    if first & 0xF0 == 0x90:
        return items(first & 0x0F, rest)
    if first & 0xE0 == 0xA0:
        return rest[: first & 0x1F].decode(), rest[first & 0x1F :]
    if first in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[first], rest
    if first == 0xC4:
        return rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
    if first == 0xCB:
        return struct.unpack(">d", rest[:8])[0], rest[8:]
    if first in (0xCC, 0xCD, 0xCE, 0xCF):
        width = 1 << (first - 0xCC)
        return int.from_bytes(rest[:width], "big"), rest[width:]
    raise AssertionError(f"{first:#x} is not in these vectors")


def items(count, data):
    found = []
    for _ in range(count):
        value, data = unpacked(data)
        found.append(value)
    return found, data


def given(value):
    """A value of the file as Python has it."""
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    return [given(each) for each in value] if isinstance(value, list) else value


def test_the_stored_vectors_are_what_this_version_sends():
    """If a message was changed on purpose, say so in the changelog and run python -m pages."""
    assert json.loads(stored()) == STORED
    assert vectors()["version"] == 1


@pytest.mark.parametrize("vector", STORED["messages"], ids=lambda vector: f"{vector['module']}.{vector['message']}")
def test_a_message_is_read_from_its_frame_and_written_as_it(vector):
    kind = getattr(importlib.import_module(f"tacit.{vector['module']}"), vector["message"])
    frame = bytes.fromhex(vector["frame"])
    message = decode(frame, kind, len(frame))
    read = {name: getattr(message, name) for name in kind.__struct_fields__}
    assert {k: list(v) if isinstance(v, tuple) else v for k, v in read.items()} == {
        name: given(value) for name, value in vector["fields"].items()
    }
    assert encode(message) == frame


@pytest.mark.parametrize("vector", STORED["messages"], ids=lambda vector: f"{vector['module']}.{vector['message']}")
def test_a_frame_is_a_version_and_a_messagepack_array_with_the_tag_first(vector):
    frame = bytes.fromhex(vector["frame"])
    values, rest = unpacked(frame[1:])
    assert (frame[0], rest) == (1, b"")
    assert values == [vector["tag"], *map(given, vector["fields"].values())]


@pytest.mark.parametrize("vector", STORED["refused"], ids=lambda vector: vector["why"])
def test_a_frame_that_is_none_is_refused(vector):
    with pytest.raises(PeerError):
        decode(bytes.fromhex(vector["frame"]), Refused, 1000)


@pytest.mark.parametrize("vector", STORED["pieces"], ids=lambda vector: str(vector["frames"]))
def test_pieces_are_as_the_page_says(vector):
    number = 0
    link = Link(1 << 20)
    left = list(vector["frames"])
    for piece in vector["pieces"]:
        head = bytes.fromhex(piece["head"])
        if head[:1] == b"F":
            assert (int.from_bytes(head[1:9], "big"), int.from_bytes(head[9:], "big")) == (number, left[number])
        else:
            assert (head[:1], int.from_bytes(head[1:9], "big")) == (b"C", number)
        number += len(link.receive(head + bytes(piece["bytes"] - len(head))))
    assert bytes.fromhex(vector["answer"]) == b"A" + len(left).to_bytes(8, "big")
    assert link.next() == bytes.fromhex(vector["answer"])
