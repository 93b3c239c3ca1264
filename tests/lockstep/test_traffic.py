"""Bytes and seconds of a party."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.channel import Failed, pair
from tacit.errors import PeerError
from tacit.lockstep.traffic import Meter, Metered, frame_bytes
from tacit.wire import Message, encode


class Bulk(Message, frozen=True, tag=230):
    step: int
    first: bytes
    second: Annotated[bytes, msgspec.Meta(min_length=1)]
    by_name: dict[str, bytes]


SIZES = st.sampled_from([0, 1, 255, 256, 65535, 65536]) | st.integers(0, 300)


@given(st.integers(0, 1 << 40), SIZES, SIZES, SIZES)
def test_bytes_are_those_of_the_frame(step, first, second, third):
    message = Bulk(step, bytes(first), bytes(second), {"a": bytes(third)})
    assert frame_bytes(message) == len(encode(message))


def test_a_channel_counts_what_it_sends_and_receives():
    here, there = (Metered(end) for end in pair())
    messages = [Bulk(1, b"x" * 700, b"y", {}), Failed("why")]
    here.send(messages[0])
    assert there.recv(Bulk) == messages[0]
    assert here.sent == there.received == len(encode(messages[0]))
    assert here.received == there.sent == 0


def test_a_meter_counts_since_it_was_made():
    here, there = (Metered(end) for end in pair())
    here.send(Failed("before"))
    ticks = iter(range(100))
    meter = Meter([here, there], lambda: float(next(ticks)))
    message = Bulk(1, b"", b"y", {})
    there.send(message)
    here.recv(Bulk)
    assert meter.bytes == (len(encode(message)),) * 2
    for _ in range(2):
        with meter.stage("waiting"):
            pass
    assert meter.stages == {"waiting": 2.0}
    assert meter.seconds == 5.0


@pytest.mark.parametrize("unread", [None, Bulk])
def test_what_the_other_said_before_it_left_is_told_if_messages_are_named(unread):
    first, second = pair("here", "there")
    second.send(Bulk(1, b"", b"y", {}))
    second.send(Failed("it does not fit"))
    second.close()
    with pytest.raises(PeerError) as error:
        Metered(first, unread).send(Bulk(2, b"", b"y", {}))
    assert str(error.value) == ("there left" if unread is None else "there: it does not fit")
