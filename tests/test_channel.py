"""Channels in memory: what is sent arrives as it would over a network, and a party that fails ends the others."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.channel import CAPACITY, Failed, Recorded, Recorder, pair, run_parties, sentence
from tacit.errors import BudgetError, PeerError
from tacit.wire import Finite, Message
from tests.subprocesses import HANGS


class Number(Message, frozen=True, tag=90):
    value: int


class Letter(Message, frozen=True, tag=91):
    text: str
    body: bytes
    weight: Finite


letters = st.builds(
    Letter, st.text(max_size=50), st.binary(max_size=200), st.floats(allow_nan=False, allow_infinity=False)
)


@given(st.lists(letters | st.builds(Number, st.integers(-(2**63), 2**63 - 1)), max_size=CAPACITY))
def test_messages_arrive_once_and_in_order(messages):
    one, other = pair()
    for message in messages:
        one.send(message)
    assert [other.recv(type(message)) for message in messages] == messages
    one.close()
    with pytest.raises(PeerError, match="first left"):
        other.recv(Number)


def test_messages_cross_as_bytes():
    one, other = pair()
    sent = Letter("a", b"b", 1.0)
    one.send(sent)
    received = other.recv(Letter)
    assert received == sent
    assert received is not sent


def test_another_kind_than_the_expected_one_is_the_peers_fault():
    one, other = pair("active", "passive")
    one.send(Number(1))
    with pytest.raises(PeerError, match="active sent no Letter"):
        other.recv(Letter)


def test_one_of_several_kinds_may_be_expected():
    one, other = pair()
    one.send(Number(1))
    one.send(Letter("a", b"", 0.0))
    assert [other.recv(Number | Letter), other.recv(Number | Letter)] == [Number(1), Letter("a", b"", 0.0)]


def test_a_message_above_the_limit_is_refused():
    one, other = pair()
    one.send(Letter("a", bytes(1000), 0.0))
    with pytest.raises(PeerError, match="at most 100 are allowed"):
        other.recv(Letter, 100)


def test_the_peers_reason_is_raised_and_cannot_move_a_terminals_cursor():
    one, other = pair("active", "passive")
    one.send(Failed("the columns\x1b[2J differ"))
    with pytest.raises(PeerError, match=r"active: the columns \[2J differ"):
        other.recv(Number)


def test_the_words_of_another_party_are_printable_and_short():
    assert sentence("a\x00b\x1b[31mc\nd\u202ee\x9bf") == "a b [31mc d e f"
    assert sentence(10_000 * "é") == 300 * "é"


def test_what_was_sent_before_leaving_is_still_received():
    one, other = pair()
    one.send(Number(7))
    one.fail("the disk is full")
    assert other.recv(Number) == Number(7)
    for _ in range(2):
        with pytest.raises(PeerError, match="the disk is full"):
            other.recv(Number)
    with pytest.raises(PeerError, match="left"):
        other.send(Number(1))
    with pytest.raises(ValueError, match="closed"):
        one.recv(Number)


def test_closing_wakes_who_waits():
    one, other = pair(capacity=1)
    one.send(Number(0))
    threading.Timer(0.1, other.close).start()
    with pytest.raises(PeerError, match="second left"):
        one.send(Number(1))  # there is no room for it


def test_nobody_waits_longer_than_its_patience():
    one, _ = pair(capacity=1, patience=0.05)
    with pytest.raises(PeerError, match=r"waited 0.05 s for a Number of second"):
        one.recv(Number)
    one.send(Number(0))
    with pytest.raises(PeerError, match="second took no message"):
        one.send(Number(1))


def test_a_recorder_keeps_what_was_sent_and_seen():
    one, other = pair()
    recorder = Recorder(one)
    recorder.send(Number(1))
    other.send(Letter("a", b"", 0.0))
    recorder.recv(Letter)
    recorder.send(Number(2))
    with pytest.raises(PeerError):
        other.close() or recorder.recv(Number)
    assert recorder.log == [
        Recorded("sent", Number(1)),
        Recorded("seen", Letter("a", b"", 0.0)),
        Recorded("sent", Number(2)),
    ]
    assert recorder.sent == [Number(1), Number(2)]
    assert recorder.seen == [Letter("a", b"", 0.0)]
    recorder.close()


def ring(own, following, previous):
    def party(channels):
        channels[following].send(Number(own))
        return channels[previous].recv(Number).value

    return party


def test_three_parties_each_have_a_channel_to_the_others():
    parties = {"a": ring(0, "b", "c"), "b": ring(1, "c", "a"), "c": ring(2, "a", "b")}
    assert run_parties(parties, patience=HANGS) == {"a": 2, "b": 0, "c": 1}


def test_the_first_real_error_is_raised_and_the_others_hear_of_it_but_not_its_text():
    heard = {}

    def failing(channels):
        channels["b"].recv(Number)
        raise BudgetError("secret")

    def waiting(name):
        def party(channels):
            if name == "b":
                channels["a"].send(Number(1))
            try:
                channels["c" if name == "b" else "b"].recv(Number)
            except PeerError as error:
                heard[name] = str(error)
                raise

        return party

    with pytest.raises(BudgetError, match="secret") as caught:
        run_parties({"b": waiting("b"), "c": waiting("c"), "a": failing}, patience=HANGS)
    assert heard == {"b": "a failed (BudgetError)", "c": "a failed (BudgetError)"}
    assert caught.value.__notes__ == ["in the party a"]


def test_who_closes_before_raising_is_still_the_one_to_blame():
    def failing(channels):
        channels["b"].close()
        time.sleep(0.1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_parties({"a": failing, "b": lambda channels: channels["a"].recv(Number)}, patience=HANGS)


def test_who_leaves_early_ends_the_others():
    with pytest.raises(PeerError, match="a left"):
        run_parties({"a": lambda channels: None, "b": lambda channels: channels["a"].recv(Number)}, patience=HANGS)


def test_a_party_that_never_ends_is_left_behind():
    def failing(channels):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_parties({"a": lambda channels: threading.Event().wait(20), "b": failing}, patience=0.2)


def test_parties_that_wait_for_each_other_give_up():
    parties = {"a": lambda channels: channels["b"].recv(Number), "b": lambda channels: channels["a"].recv(Number)}
    with pytest.raises(PeerError, match=r"waited|failed"):
        run_parties(parties, patience=0.2)
