"""The decoder: strict, versioned, bounded; and a storm of random frames into it and into both state machines."""

from __future__ import annotations

import random
import resource
import tracemalloc

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import wire
from tacit.errors import PeerError
from tacit.secagg.messages import Abort, Advertise, Masked, ToClient, ToServer
from tacit.secagg.settings import Settings
from tacit.wire import Finite, Message, Text, bulk_at, decode, encode, in_parts
from tests.secagg.federation import federation

LIMIT = 1 << 20


class Sample(Message, frozen=True, tag=1):
    number: Finite
    text: Text
    data: bytes


class Other(Message, frozen=True, tag=2):
    count: int


Both = Sample | Other


@given(st.floats(-1.7e308, 1.7e308), st.text(max_size=50), st.binary(max_size=200))
def test_round_trip(number, text, data):
    message = Sample(number, text, data)
    assert decode(encode(message), Both, LIMIT) == message


class Bulky(Message, frozen=True, tag=200):
    """With bulk data in the middle, as an update has them."""

    round: int
    factor: float | None
    small: bytes
    bulk: memoryview
    after: int | None
    more: memoryview


BULKY = st.builds(
    Bulky,
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(allow_nan=False),
    st.binary(max_size=300),
    st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 70_000]).map(
        lambda size: memoryview(bytes(range(256)) * 300)[:size]
    ),
    st.none() | st.integers(0, 2**63 - 1),
    st.binary(max_size=300).map(memoryview),
)


@given(BULKY, st.integers(0, 80_000), st.integers(0, 80_000))
def test_a_frame_in_parts_is_the_frame(message, one, other):
    frame, parts = encode(message), in_parts(message)
    assert (len(parts), bytes(parts)) == (len(frame), frame)
    start, stop = sorted((one, other))
    assert b"".join(parts.between(start, stop)) == frame[start:stop]
    assert decode(frame, Both | Bulky, LIMIT) == message


@given(BULKY)
def test_the_place_of_bulk_data_is_found_in_the_head_of_a_frame(message):
    frame, at = encode(message), len(in_parts(message).parts[0])
    assert bulk_at(frame[:1000]) == (at if len(message.bulk) >= 65_536 else 0)


@given(st.binary(max_size=60))
def test_looking_for_bulk_data_in_anything_ends(head):
    assert 0 <= bulk_at(head) <= len(head) + 4


def test_bulk_data_are_neither_copied_into_a_frame_nor_out_of_it():
    numbers = np.arange(1_000_000, dtype="<f4")
    parts = in_parts(Bulky(1, None, b"", numbers.data, None, memoryview(b"")))
    assert any(np.shares_memory(np.frombuffer(part, np.uint8), numbers) for part in parts.parts if len(part))
    frame = bytes(parts)
    found = decode(frame, Bulky, len(frame)).bulk
    assert np.shares_memory(np.frombuffer(found, np.uint8), np.frombuffer(frame, np.uint8))
    assert found.readonly


def test_a_masked_vector_is_a_part_of_its_frame():
    words = bytes(1_000_000)
    assert any(part.obj is words for part in map(memoryview, in_parts(Masked(bytes(32), 1, memoryview(words))).parts))


def test_bulk_data_that_no_frame_holds_are_refused():
    with pytest.raises(ValueError, match="less than 4 GiB"):
        wire._bin_header(1 << 32)


@pytest.mark.parametrize(
    "message", [Advertise(7, bytes(32), bytes(32), b""), Masked(bytes(32), 1, b"12345678"), Abort("x")]
)
def test_secure_aggregation_messages_round_trip(message):
    assert decode(encode(message), ToServer, LIMIT) == message


def test_masked_vectors_are_packed_to_the_width_of_the_ring():
    for dtype, width in ((np.uint32, 4), (np.uint64, 8)):
        words = np.arange(10_000, dtype=dtype)
        assert len(encode(Masked(bytes(32), 1, words.tobytes()))) < 10_000 * width + 60


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "version nothing"),
        (b"\x01", "version 1"),
        (b"\x02" + encode(Other(1))[1:], "version 2, this side speaks 1"),
        (encode(Other(1)) + b"\x00", "trailing"),
        (encode(Other(1))[:-1], "truncated"),
        (b"\x01" + msgspec.msgpack.encode([3, 1]), "Invalid value 3"),
        (b"\x01" + msgspec.msgpack.encode([2]), "at least length"),
        (b"\x01" + msgspec.msgpack.encode([2, 1, 1]), "at most length"),
        (b"\x01" + msgspec.msgpack.encode([2, "1"]), "Expected `int`"),
        (b"\x01" + msgspec.msgpack.encode([2, 1.5]), "Expected `int`"),
        (b"\x01" + msgspec.msgpack.encode({"count": 1}), "Expected `array`"),
        (b"\x01" + msgspec.msgpack.encode([1, float("nan"), "", b""]), "float"),
        (b"\x01" + msgspec.msgpack.encode([1, float("inf"), "", b""]), "float"),
        (b"\x01" + msgspec.msgpack.encode([1, float("-inf"), "", b""]), "float"),
        (b"\x01" + msgspec.msgpack.encode([1, 0.0, "x" * 301, b""]), "length <= 300"),
        (b"\x01\x94\x01\xcb" + bytes(8) + b"\xa1\xff\xc4\x00", "utf-8|UTF-8|Invalid"),
        (b"\x01" + b"\x91" * 100_000, "array"),
    ],
)  # fmt: skip
def test_anything_else_is_the_peers_fault(frame, reason):
    with pytest.raises(PeerError, match=rf"(?s){reason}"):
        decode(frame, Both, LIMIT)


def test_a_frame_over_the_limit_is_not_looked_at():
    with pytest.raises(PeerError, match="1048577 bytes, at most 1048576"):
        decode(bytes(LIMIT + 1), Both, LIMIT)


@pytest.mark.parametrize(
    "frame",
    [
        b"\x01\xdd\xff\xff\xff\xff",
        b"\x01\x94\x01\xcb" + bytes(8) + b"\xa0\xc6\xff\xff\xff\xff",
        b"\x01\xdf\xff\xff\xff\xff",
    ],
)
def test_an_announced_size_is_not_allocated(frame):
    tracemalloc.start()
    with pytest.raises(PeerError):
        decode(frame, Both, LIMIT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def storm(frames: int, seed: int) -> None:
    """Random and mutated frames into the decoder, and what decodes into machines in every state."""
    config = Settings(5, 3, mode="semi_honest")
    recorded = federation(config)
    recorded.run()
    good = [encode(m) for _, m in recorded.seen] + [encode(m) for _, m in recorded.told]
    rng = random.Random(seed)
    machines = []
    decoded = 0
    for count in range(frames):
        if count % 200 == 0:
            fresh = federation(config, to_server=lambda s, m: m if rng.random() < 0.8 else None)
            fresh.server.start(0.0)
            fresh.run()
            other = federation(config)
            for identity, client in other.clients.items():
                other.server.receive(identity, client.start(0.0)[0], 0.0)
            machines = [fresh, other]
        frame = bytearray(rng.choice(good)) if rng.random() < 0.8 else bytearray(rng.randbytes(rng.randrange(200)))
        for _ in range(rng.randrange(4)):
            if frame:
                place = rng.randrange(len(frame))
                match rng.randrange(3):
                    case 0:
                        frame[place] = rng.randrange(256)
                    case 1:
                        del frame[place : place + rng.randrange(1, 9)]
                    case 2:
                        frame[place:place] = rng.randbytes(rng.randrange(1, 9))
        for union in (ToServer, ToClient):
            try:
                message = decode(bytes(frame), union, 1 << 16)
            except PeerError:
                continue
            decoded += 1
            fed = rng.choice(machines)
            party = rng.choice(list(fed.clients))
            try:
                if union is ToServer:
                    fed.server.receive(rng.choice([party, getattr(message, "sender", party)]), message, 1.0)
                else:
                    fed.clients[party].receive(message, 1.0)
            except PeerError:
                continue
    assert decoded > frames / 10


def test_ten_thousand_bad_frames_only_raise_peer_errors():
    storm(10_000, seed=1)


@pytest.mark.slow
def test_a_million_bad_frames_only_raise_peer_errors():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(100):
        storm(10_000, seed=seed)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
