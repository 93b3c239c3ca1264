"""Wrong sizes, other terms and stale numbers are the peer's fault; a mask is used once."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.channel import pair
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.shared.meeting import FEATURES, STEP, Meeting, check_cells, common_position, meet
from tacit.kinds.vertical_logistic.shared.messages import Deal, Greeting, Opening, Seeds
from tacit.kinds.vertical_logistic.shared.streams import Layout
from tests.kinds.vertical_logistic.shared.trainings import people, run, terms_of

LAYOUT = Layout({"a": (3,)}, {"b": (2,)}, {})
TERMS = terms_of(2, 100)


@pytest.fixture
def ends():
    """A meeting of the shop, and the other ends of its channels."""
    (bank, to_bank), (dealer, to_dealer) = pair("bank", "shop"), pair("dealer", "shop")
    meeting = Meeting(
        {"bank": to_bank, "dealer": to_dealer},
        TERMS,
        "shop",
        columns={"bank": 1, "shop": 2},
        position=0,
        seeds=Seeds(bytes(16), bytes(32)),
    )
    return meeting, bank, dealer


@pytest.mark.parametrize("serial", [1, 3, 0])
def test_a_deal_that_is_not_the_next_is_refused(ends, serial):
    meeting, _, dealer = ends
    dealer.send(Deal(1, STEP, bytes(16)))
    first = meeting.next_deal(LAYOUT, STEP)
    dealer.send(Deal(serial, STEP, bytes(16)))
    with pytest.raises(PeerError, match="masks are used once"):
        meeting.next_deal(LAYOUT, STEP)
    assert first.serial == 1


@pytest.mark.parametrize("words", [0, 8, 24, 1 << 20])
def test_a_deal_of_another_size_is_refused(ends, words):
    meeting, _, dealer = ends
    dealer.send(Deal(1, STEP, bytes(words)))
    with pytest.raises(PeerError, match=r"16 are due|allowed here"):
        meeting.next_deal(LAYOUT, STEP)


def test_a_deal_for_another_purpose_is_refused(ends):
    meeting, _, dealer = ends
    dealer.send(Deal(1, FEATURES, bytes(16)))
    with pytest.raises(PeerError, match="purpose"):
        meeting.next_deal(LAYOUT, STEP)


@pytest.mark.parametrize(("serial", "stage"), [(0, 1), (2, 1), (1, 2), (1, 0)])
def test_an_opening_of_another_deal_or_stage_is_refused(ends, serial, stage):
    meeting, bank, dealer = ends
    dealer.send(Deal(1, STEP, bytes(16)))
    meeting.next_deal(LAYOUT, STEP)
    bank.send(Opening(serial, stage, bytes(24)))
    with pytest.raises(PeerError, match="opening 1 of deal 1 is due"):
        meeting.open(np.zeros(3, dtype=np.uint64))


@pytest.mark.parametrize("words", [0, 16, 32, 1 << 20])
def test_an_opening_of_another_size_is_refused(ends, words):
    meeting, bank, dealer = ends
    dealer.send(Deal(1, STEP, bytes(16)))
    meeting.next_deal(LAYOUT, STEP)
    bank.send(Opening(1, 1, bytes(words)))
    with pytest.raises(PeerError, match=r"24 are due|allowed here"):
        meeting.open(np.zeros(3, dtype=np.uint64))


def test_an_opening_adds_up(ends):
    meeting, bank, dealer = ends
    dealer.send(Deal(1, STEP, bytes(16)))
    meeting.next_deal(LAYOUT, STEP)
    bank.send(Opening(1, 1, np.array([2**64 - 1, 5], dtype=np.uint64).tobytes()))
    assert meeting.open(np.array([3, 4], dtype=np.uint64)).tolist() == [2, 9]


def test_parties_with_other_terms_do_not_meet():
    (bank, to_bank), (_, to_dealer) = pair("bank", "shop"), pair("dealer", "shop")
    bank.send(Greeting(terms_of(2, 100, rate=0.25).agreed(), 3, (0,)))
    with pytest.raises(PeerError, match="other terms"):
        meet({"bank": to_bank, "dealer": to_dealer}, TERMS, "shop", 2)


def test_tables_beyond_any_machine_are_refused():
    with pytest.raises(PeerError, match="cells"):
        check_cells(terms_of(2, 2**31), {"bank": 1 << 20, "shop": 1})


def test_the_last_common_step_is_chosen():
    def greeting(*positions):
        return Greeting(bytes(32), 1, positions, b"s" * 16)

    assert common_position({"a": greeting(3, 4), "b": greeting(4, 5)}) == 4
    assert common_position({"a": greeting(4, 5), "b": greeting(4, 5)}) == 5
    with pytest.raises(PeerError, match="start all of them anew"):
        common_position({"a": greeting(1, 2), "b": greeting(3, 4)})


@pytest.mark.parametrize("fault", ["rows", "labels", "weights", "range"])
def test_a_table_that_does_not_fit_the_terms_is_the_users_mistake(fault):
    x, y = people(100, 4)
    terms = terms_of(2, 100)
    row_weights = np.ones(100) if fault == "weights" else None
    if fault == "rows":
        x = x[:99]
    elif fault == "labels":
        y = y[:50]
    elif fault == "range":
        y = y * 2
    with pytest.raises(ValueError, match=r"rows|labels|weights"):
        run(x, y, terms, row_weights=row_weights)
