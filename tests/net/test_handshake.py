"""What parties of other releases say and are told."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.net.handshake import (
    LEAST_RELEASE,
    Hello,
    Refused,
    Welcome,
    answer_to,
    as_of_0_2,
    check_hello,
    check_version,
    difference,
    differing_version,
    shared,
    speaks_0_2,
    too_old,
)
from tacit.sections import Added, Section
from tacit.version import __version__
from tacit.wire import Message, decode, encode


class OldHello(Message, frozen=True, tag=40):
    """As 0.2.0 has it."""

    party: str
    session: bytes
    epoch: bytes
    received: int
    settings: bytes
    signing_key: bytes
    answered: int = 0


class OldWelcome(Message, frozen=True, tag=41):
    epoch: bytes
    received: int
    resumed: bool


class LaterHello(Message, frozen=True, tag=40):
    """As a release after this one may have it."""

    party: str
    session: bytes
    epoch: bytes
    received: int
    settings: bytes
    signing_key: bytes
    answered: int
    version: str
    capabilities: tuple[str, ...]
    nonce: bytes
    more: dict[str, Any]


OURS = Hello("client-1", bytes(16), b"", 3, b"{}", b"k", 2, __version__, ("x",))


def test_a_reader_of_0_2_refuses_our_hello_and_reads_the_older_form():
    with pytest.raises(PeerError) as refusal:
        decode(encode(OURS), OldHello, 1000)
    assert speaks_0_2(Refused(str(refusal.value)[:300]))
    assert decode(as_of_0_2(OURS), OldHello, 1000) == OldHello("client-1", bytes(16), b"", 3, b"{}", b"k", 2)


def test_other_refusals_are_final():
    assert not speaks_0_2(Refused("client-1 is not a party of this federation"))


def test_a_client_of_0_2_is_answered_in_its_form_and_another_is_told_our_version():
    old = decode(encode(OldHello("client-1", bytes(16), b"", 0, b"{}", b"")), Hello, 1000)
    assert (old.version, old.capabilities) == ("", ())
    assert decode(answer_to(old, bytes(16), 5, True), OldWelcome, 1000) == OldWelcome(bytes(16), 5, True)
    assert decode(answer_to(OURS, bytes(16), 5, True), Welcome, 1000).version == __version__


def test_a_later_release_may_say_more():
    later = LaterHello("client-1", bytes(16), b"", 0, b"{}", b"", 0, "0.4.0", ("wait",), b"", {"a": 1})
    read = decode(encode(later), Hello, 1000)
    assert (read.version, read.capabilities) == ("0.4.0", ("wait",))


@pytest.mark.parametrize("capabilities", [["x"] * 65, ["x" * 41]])
def test_what_is_said_is_bounded(capabilities):
    frame = bytes([1]) + msgspec.msgpack.encode([40, "a", bytes(16), b"", 0, b"{}", b"", 0, "0.3.0", capabilities])
    with pytest.raises(PeerError, match="not a message"):
        decode(frame, Hello, 10_000)


@example(3, 5, 0, 0, "")  # one too many, in both directions
@example(5, 3, 0, 0, "")
@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 2), st.integers(0, 2), st.sampled_from(["", ".7", "rc1"]))
def test_neighbours_are_one_minor_version_apart(ours, theirs, here, there, tail):
    both = (f"{there}.{theirs}{tail}", f"{here}.{ours}.0")
    if here == there and abs(ours - theirs) <= 1:
        check_version("client-1", *both)
    else:
        with pytest.raises(PeerError, match=r"neighbouring minor versions.*Install the same release"):
            check_version("client-1", *both)


@pytest.mark.parametrize("version", ["0", "0.3\nround 9", "0.x", "٠.٣", "-1.2", "0.3 \x1b[31m"])
def test_a_version_that_is_none_is_not_repeated(version):
    with pytest.raises(PeerError) as refusal:
        check_version("client-1", version)
    assert str(refusal.value) == "client-1 says a version that is none"


def test_a_party_of_a_far_release_is_refused_before_its_file_is_compared():
    far = Hello("client-1", bytes(16), b"", 0, b"[", b"", 0, "9.9.0")
    with pytest.raises(PeerError, match=r"client-1 runs Tacit 9\.9\.0"):
        check_hello(far, None, lambda name: True, b"{}")


def test_only_another_minor_version_is_worth_a_word():
    assert differing_version(__version__) is None
    assert differing_version("") == "0.2"
    assert differing_version("0.4.1") == "0.4.1"


# --- one file, read by two releases


class Older(Section):
    rate: float = 0.1


class Newer(Section):
    rate: float = 0.1
    extra: Annotated[int | None, Added("9.0.0")] = None


class Faster(Newer):
    manner: Annotated[str, Added("9.0.0", changes=True)] = "fast"


def told(ours: Section, theirs: Section) -> str | None:
    return difference(*(shared(each.model_dump(mode="json")) for each in (ours, theirs)))


def test_a_key_that_changes_nothing_is_not_there_for_either_side():
    assert shared(Newer().model_dump(mode="json")) == shared(Older().model_dump(mode="json"))
    assert Newer.model_validate(Newer(extra=3).model_dump()) == Newer(extra=3)


def test_a_key_that_changes_something_is_a_difference_from_both_sides():
    assert told(Older(), Newer(extra=3)) == (
        "the files differ: extra is null at the coordinator and 3 here. Give all parties one file"
    )
    assert "extra is 3 at the coordinator" in told(Newer(extra=3), Older())


def test_a_new_key_whose_default_changes_what_is_done_is_a_difference():
    assert 'manner is null at the coordinator and "fast" here' in told(Older(), Faster())


def test_a_federation_whose_messages_a_neighbour_does_not_know_needs_this_release():
    """Whatever else differs, that comes first: no key that the user changes would help."""
    plain, ours = Older().model_dump(mode="json"), Newer(extra=3).model_dump(mode="json") | {LEAST_RELEASE: "9.0"}
    for said in (difference(shared(plain), shared(ours)), difference(shared(ours), shared(plain))):
        assert said == (
            "the messages of such a federation have changed: Tacit 9.0 or newer is needed. Install the same release at "
            "all parties"
        )
    assert difference(shared(ours), shared(ours)) is None
    assert too_old(shared(plain)) is None
    for hostile in ("9.0\nround 9", "\x1b[31m", 3, ["x"], "9" * 5000):
        theirs = shared(plain | {LEAST_RELEASE: hostile})
        assert ": another release is needed. " in difference(shared(plain), theirs)


def test_two_that_know_the_key_compare_its_values():
    assert told(Newer(extra=3), Newer(extra=3)) is None
    assert "extra is 3 at the coordinator and 4 here" in told(Newer(extra=3), Newer(extra=4))


def test_a_default_that_another_release_changed_is_a_difference():
    class Changed(Section):
        rate: float = 0.2

    assert "rate is 0.1 at the coordinator and 0.2 here" in told(Older(), Changed())
