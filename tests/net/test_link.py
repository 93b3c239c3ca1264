"""The link without I/O: whatever breaks, frames arrive once and in order; whatever comes in, nothing but PeerError."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.net import link as module
from tacit.net.link import OVERHEAD_BYTES, PIECE_BYTES, Link
from tacit.wire import Message, decode, in_parts

LIMIT = 4 * PIECE_BYTES


def pieces_of(link: Link) -> list[bytes]:
    return list(iter(link.next, None))


def first(number: int, total: int, data: bytes = b"") -> bytes:
    return b"F" + number.to_bytes(8, "big") + total.to_bytes(8, "big") + data


def further(number: int, data: bytes) -> bytes:
    return b"C" + number.to_bytes(8, "big") + data


def confirms(count: int) -> bytes:
    return b"A" + count.to_bytes(8, "big")


class Pair:
    """Two ends and what is under way between them."""

    def __init__(self) -> None:
        self.ends = (Link(LIMIT), Link(LIMIT))
        self.wires: tuple[list[bytes], list[bytes]] = ([], [])  # from each end
        self.arrived: tuple[list[bytes], list[bytes]] = ([], [])  # at each end

    def write(self, end: int) -> None:
        if (piece := self.ends[end].next()) is not None:
            self.wires[end].append(piece)

    def deliver(self, end: int) -> None:
        """The oldest piece from `end` comes to the other one."""
        if self.wires[end]:
            other = 1 - end
            self.arrived[other].extend(self.ends[other].receive(self.wires[end].pop(0)))

    def cut(self) -> None:
        """What is under way is lost, and a new connection made."""
        for end in (0, 1):
            self.wires[end].clear()
            self.ends[end].disconnected()
        counts = [end.received for end in self.ends]
        for end in (0, 1):
            self.ends[end].reconnected(counts[1 - end])

    def settle(self) -> None:
        for _ in range(10_000):
            before = [len(wire) for wire in self.wires]
            for end in (0, 1):
                self.write(end)
            moved = any(self.wires)
            for end in (0, 1):
                self.deliver(end)
            if not moved and before == [0, 0]:
                return
        pytest.fail("the link never comes to rest")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 1), st.binary(max_size=40)),
        st.tuples(st.sampled_from(["write", "deliver"]), st.integers(0, 1)),
        st.tuples(st.just("cut")),
    ),
    max_size=80,
)


@given(steps=STEPS)
def test_frames_arrive_once_and_in_order_wherever_connections_break(steps):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "PIECE_BYTES", 7)
        pair, sent = Pair(), ([], [])
        for what, *where in steps:
            if what == "send":
                end, frame = where
                sent[end].append(frame)
                pair.ends[end].send(frame)
            else:
                getattr(pair, what)(*where)
            for end in (0, 1):
                assert pair.arrived[end] == sent[1 - end][: len(pair.arrived[end])]
        pair.settle()
    assert pair.arrived == (sent[1], sent[0])
    assert all(end.idle for end in pair.ends)


@pytest.mark.parametrize(
    ("size", "count"),
    [(0, 1), (1, 1), (PIECE_BYTES - 1, 1), (PIECE_BYTES, 1), (PIECE_BYTES + 1, 2), (2 * PIECE_BYTES, 2), (LIMIT, 4)],
)
def test_a_frame_is_cut_at_the_size_of_a_piece(size, count):
    frame = bytes(range(256)) * (size // 256 + 1)
    frame = frame[:size]
    sender, receiver = Link(LIMIT), Link(LIMIT)
    sender.send(frame)
    pieces = pieces_of(sender)
    assert len(pieces) == count
    assert max(map(len, pieces)) <= PIECE_BYTES + OVERHEAD_BYTES
    assert [got for piece in pieces for got in receiver.receive(piece)] == [frame]
    assert not sender.idle
    sender.receive(receiver.next())
    assert sender.idle


def test_a_huge_frame_is_refused_when_it_is_announced():
    receiver = Link(LIMIT)
    piece = first(0, 10 * 2**30, b"x")
    assert receiver.announced(piece) == 0
    tracemalloc.start()
    try:
        with pytest.raises(PeerError, match=f"10737418240 bytes is announced, at most {LIMIT} are allowed"):
            receiver.receive(piece)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_frame_inside_another_asks_for_no_memory():
    """A thread that waited for it while it holds that of the first would wait for itself."""
    receiver = Link(LIMIT)
    assert receiver.announced(first(0, 5, b"ab")) == 5
    receiver.receive(first(0, 5, b"ab"))
    assert receiver.announced(first(0, 5, b"ab")) == 0


def test_a_large_frame_takes_no_memory_before_it_comes():
    receiver = Link(1 << 40)
    tracemalloc.start()
    try:
        receiver.receive(first(0, 10 * 2**30, b"x"))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "pieces",
    [
        [b""],
        [b"F"],
        [b"X" + bytes(20)],
        [first(0, 5)[:12]],
        [first(1, 1, b"a")],
        [first(0, 2, b"abc")],
        [first(0, 5)],  # an empty piece of a frame that is not empty: it would never end
        [further(0, b"a")],
        [first(0, 5, b"ab"), first(0, 5, b"ab")],
        [first(0, 5, b"ab"), first(1, 1, b"a")],
        [first(0, 5, b"ab"), further(1, b"cde")],
        [first(0, 5, b"ab"), further(0, b"")],
        [first(0, 5, b"ab"), further(0, b"cdef")],
        [first(0, 1, b"a"), first(0, 1, b"a")],
        [first(0, LIMIT + 1, b"a")],
        [first(2**64 - 1, 1, b"a")],
        [confirms(1)],
        [confirms(2**64 - 1)],
        [bytes(PIECE_BYTES + OVERHEAD_BYTES + 1)],
    ],
)
def test_what_no_honest_side_sends_is_refused(pieces):
    receiver = Link(LIMIT)
    for piece in pieces[:-1]:
        receiver.receive(piece)
    with pytest.raises(PeerError):
        receiver.receive(pieces[-1])


numbers = st.one_of(st.integers(0, 4), st.integers(0, 2**64 - 1))
hostile = st.one_of(
    st.binary(max_size=40),
    st.builds(first, numbers, numbers, st.binary(max_size=8)),
    st.builds(further, numbers, st.binary(max_size=8)),
    st.builds(confirms, numbers),
)


@given(pieces=st.lists(hostile, max_size=30), frames=st.lists(st.binary(max_size=20), max_size=4))
def test_garbage_raises_nothing_but_peer_error(pieces, frames):
    """And a link that took it still sends nothing but pieces."""
    link = Link(LIMIT)
    for frame in frames:
        link.send(frame)
    for piece in pieces:
        try:
            assert 0 <= link.announced(piece) <= LIMIT
            link.receive(piece)
        except PeerError:
            pass
        if (out := link.next()) is not None:
            assert out[:1] in (b"A", b"F", b"C")


@given(count=st.integers(0, 2**62), frames=st.integers(0, 5))
def test_a_count_of_frames_that_were_never_sent_is_refused(count, frames):
    link = Link(LIMIT)
    for _ in range(frames):
        link.send(b"frame")
    if count <= frames:
        link.reconnected(count)
        assert len(pieces_of(link)) == frames - count
    else:
        with pytest.raises(PeerError, match="are said to have arrived"):
            link.reconnected(count)


def test_confirmed_frames_cannot_be_taken_back():
    link = Link(LIMIT)
    link.send(b"a")
    link.send(b"b")
    link.receive(confirms(2))
    with pytest.raises(PeerError):
        link.reconnected(1)


def numbers_in(frame):
    return np.frombuffer(decode(frame, Numbers, len(frame)).numbers, "<f8")


class Numbers(Message, frozen=True, tag=201):
    round: int
    numbers: memoryview
    after: int | None = None


@pytest.mark.parametrize("round", [0, 200, 70_000, 2**40])
def test_a_frame_is_put_together_where_its_numbers_are_aligned(round):
    numbers = np.arange(100_000, dtype="<f8")
    sender, receiver = Link(LIMIT), Link(LIMIT)
    sender.send(in_parts(Numbers(round, numbers.data)))
    (frame,) = [frame for piece in pieces_of(sender) for frame in receiver.receive(piece)]
    found = numbers_in(frame)
    assert found.flags.aligned
    assert not found.flags.writeable
    assert (found == numbers).all()


def test_links_share_a_frame_and_neither_end_copies_it():
    numbers = np.arange(1_000_000, dtype="<f8")
    frame = in_parts(Numbers(1, numbers.data))
    senders, receiver = [Link(2 * numbers.nbytes) for _ in range(10)], Link(2 * numbers.nbytes)
    tracemalloc.start()
    for sender in senders:
        sender.send(frame)
        assert sender.next() is not None
    shared = tracemalloc.get_traced_memory()[1]
    came = []
    senders[0].reconnected(0)
    while (piece := senders[0].next()) is not None:
        came += receiver.receive(piece)
    whole = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert shared < 4 * PIECE_BYTES
    assert whole < 1.2 * numbers.nbytes
    assert (numbers_in(came[0]) == numbers).all()
