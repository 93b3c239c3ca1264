"""What several runs cost together, against what composition gives for their events."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.dp.accounting import Ledger
from tacit.dp.lifetime import at, covers, larger, together, within
from tacit.dp.release import GaussianEvent, PureEvent

DELTA = 1e-5


def stored(count, *, noise=2.0, unit="client", relation="replace-one", view="local", covers=("updates",), delta=DELTA):
    ledger = Ledger(unit, relation)
    if count:
        ledger.spend(GaussianEvent(noise, unit=unit, relation=relation), count)
    epsilon = ledger.epsilon(delta) if count else 0.0
    return {"view": view, "covers": list(covers), **ledger.to_json(), "epsilon": epsilon, "delta": delta}


def pure(epsilon, unit="label"):
    ledger = Ledger(unit, "replace-one")
    ledger.spend(PureEvent(epsilon, unit=unit, relation="replace-one"))
    return {"view": "local", "covers": ["labels"], **ledger.to_json(), "epsilon": epsilon, "delta": 0.0}


def promise(epsilon, delta=1e-6):
    return {**stored(0, unit="record", relation="add-remove", view="records"), "epsilon": epsilon, "delta": delta}


def test_runs_of_one_mechanism_cost_what_one_run_of_all_their_rounds_does():
    whole = Ledger("client", "replace-one")
    whole.spend(GaussianEvent(2.0, unit="client", relation="replace-one"), 12)
    assert together([[stored(5)], [stored(7)]], DELTA).epsilon == pytest.approx(whole.epsilon(DELTA, "rdp"))


def test_it_is_more_than_the_exact_price_and_less_than_the_sum_of_runs():
    runs = [[stored(4)] for _ in range(10)]
    whole = together(runs, DELTA).epsilon
    assert whole >= stored(40)["epsilon"]
    assert whole < 10 * stored(4)["epsilon"]


def test_pure_epsilons_of_labels_add_up_to_their_sum_at_most():
    assert together([[pure(0.5)], [pure(0.25)]], DELTA).epsilon <= 0.75


def test_units_part_the_delta_and_add_up():
    found = together([[stored(3)], [stored(3, unit="record")]], DELTA)
    alone = together([[stored(3)]], DELTA / 2).epsilon
    assert found.epsilon == pytest.approx(2 * alone)
    assert set(found.groups) == {("client", "replace-one"), ("record", "replace-one")}


def test_a_promise_counts_with_its_own_epsilon_and_delta():
    found = together([[promise(1.5)], [stored(3)]], DELTA)
    assert found.epsilon == pytest.approx(1.5 + together([[stored(3)]], DELTA - 1e-6).epsilon)
    assert math.isinf(together([[promise(1.5, 1e-4)]], DELTA).epsilon)
    assert math.isinf(together([[promise(1.0, DELTA)], [stored(1)]], DELTA).epsilon)


def test_what_promises_nothing_is_infinite():
    assert math.isinf(together([[{**stored(1), "epsilon": "infinite"}]], DELTA).epsilon)


def test_a_composed_view_holds_the_central_one_of_its_run_only():
    central = stored(3, relation="zero-out", view="central")
    composed = {**stored(5, relation="zero-out", view="composed")}
    assert together([[central, composed]], DELTA).epsilon == together([[composed]], DELTA).epsilon
    assert together([[central], [composed]], DELTA).epsilon > together([[composed]], DELTA).epsilon


@given(st.lists(st.integers(0, 30), max_size=5), st.integers(1, 30))
def test_another_run_never_makes_it_cheaper(counts, more):
    runs = [[stored(count)] for count in counts]
    assert together([*runs, [stored(more)]], DELTA).epsilon >= together(runs, DELTA).epsilon


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_the_larger_of_two_covers_both(first, second, third, fourth):
    one = [stored(first), stored(second, covers=("inference vectors",))]
    other = [stored(third), stored(fourth, noise=3.0)]
    both = larger(one, other)
    if any(each["lines"] for each in one):
        assert within(one, both)
    assert within(other, both)
    assert covers(both, other)


def test_a_stored_ledger_is_the_same_as_before_it_was_stored():
    before = [stored(5)]
    after = json.loads(json.dumps(before))
    assert within(before, after)
    assert within(after, before)
    assert not within([stored(6)], after)
    assert not within([stored(1, noise=3.0)], after)


def test_a_promise_covers_what_is_paid_under_it_and_nothing_else():
    paid = stored(3, unit="record", relation="add-remove", view="records")
    assert covers([promise(1.0)], [paid])
    assert not covers([promise(1.0)], [stored(3)])
    assert larger([promise(1.0)], [paid]) == [promise(1.0)]


def test_a_large_delta_does_not_make_a_run_look_cheap():
    careless = stored(4, delta=0.3)
    assert careless["epsilon"] < 0.5 * at(careless, DELTA)
    assert at(careless, DELTA) == pytest.approx(together([[stored(4)]], DELTA).epsilon)
    assert math.isinf(at(promise(0.1, 0.3), DELTA))
