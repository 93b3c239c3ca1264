"""Numbers that are used once: kept before they are given out, never given out again."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.counter import MOST, Counter

TAKES = st.lists(st.integers(0, 9), max_size=20)


@given(TAKES, st.integers(0, 100), st.integers(1, 8))
def test_numbers_are_kept_before_they_are_given_out(takes, first, reserve):
    kept = [first]
    counter = Counter(first, kept.append, reserve=reserve)
    expected = first
    for count in takes:
        numbers = counter.take(count)
        assert list(numbers) == list(range(expected, expected + count))
        assert kept[-1] >= numbers.stop
        expected += count
        assert counter.next == expected
    assert kept == sorted(kept)


@given(st.lists(TAKES, min_size=1, max_size=5), st.integers(1, 8))
def test_no_number_comes_again_after_restarts(lives, reserve):
    kept, used = [0], []
    for takes in lives:
        counter = Counter(kept[-1], kept.append, reserve=reserve)
        for count in takes:
            used += counter.take(count)
    assert len(set(used)) == len(used)


def test_a_reserve_spares_the_disk():
    kept = []
    counter = Counter(0, kept.append, reserve=10)
    for _ in range(25):
        counter.take()
    assert kept == [10, 20, 30]
    counter.take(40)
    assert kept == [10, 20, 30, 65]


def test_nothing_is_given_out_if_it_cannot_be_kept():
    def full(_):
        raise OSError("no space")

    counter = Counter(5, full)
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            counter.take(3)
        assert counter.next == 5
    with pytest.raises(OSError, match="no space"):
        counter.advance_to(9)
    assert counter.next == 5


def test_a_counter_advances_and_never_falls_back():
    kept = []
    counter = Counter(5, kept.append)
    counter.advance_to(9)
    assert kept == [9]
    assert list(counter.take(2)) == [9, 10]
    with pytest.raises(ValueError, match="only grows: it is at 11"):
        counter.advance_to(10)


def test_a_counter_ends():
    kept = []
    counter = Counter(MOST - 2, kept.append, reserve=100)
    counter.take(2)
    assert kept == [MOST]
    with pytest.raises(ValueError, match="make new trees"):
        counter.take(1)


@pytest.mark.parametrize(("first", "reserve"), [(-1, 1), (MOST + 1, 1), (0, 0)])
def test_wrong_beginnings_are_refused(first, reserve):
    with pytest.raises(ValueError, match="a counter"):
        Counter(first, print, reserve=reserve)
    with pytest.raises(ValueError, match="0 numbers or more"):
        Counter(0, print).take(-1)


@pytest.mark.parametrize("act", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_counter_is_not_copied(act):
    with pytest.raises(TypeError, match="the same numbers"):
        act(Counter(0, print))
