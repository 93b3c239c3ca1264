"""Joined byte strings can be taken apart in one way only."""

from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.byte_strings import frame, random_bytes
from tacit.randomness import seeded_rng

PARTS = st.lists(st.binary(max_size=20), max_size=5)


def taken_apart(data):
    parts = []
    while data:
        length = int.from_bytes(data[:8], "big")
        parts.append(data[8 : 8 + length])
        data = data[8 + length :]
    return parts


@given(PARTS)
def test_a_frame_can_be_taken_apart_again(parts):
    assert taken_apart(frame(*parts)) == parts


def test_neighbouring_parts_do_not_run_into_each_other():
    frames = {frame(b"ab", b"c"), frame(b"a", b"bc"), frame(b"abc"), frame(b"abc", b""), frame(b"", b"abc"), frame()}
    assert len(frames) == 6


@given(st.integers(0, 100))
def test_random_bytes_have_the_wanted_length(count):
    assert len(random_bytes(None, count)) == len(random_bytes(seeded_rng(1), count)) == count


def test_random_bytes_come_from_the_generator_that_was_given():
    assert random_bytes(seeded_rng(1), 32) == random_bytes(seeded_rng(1), 32)
    assert random_bytes(seeded_rng(1), 32) != random_bytes(seeded_rng(2), 32)
    assert random_bytes(None, 32) != random_bytes(None, 32)
