"""What leader and followers have in common."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.split.common_terms import saves, schedule_of
from tests.kinds.split.networks import settings_v


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 4), st.none() | st.integers(1, 30), st.integers(0, 99))
def test_every_epoch_takes_every_record_once_and_a_resumed_one_the_rest(records, batch, epochs, limit, start):
    schedule = schedule_of(settings_v(seed=5, train={"epochs": epochs, "batch": batch, "steps": limit}), records)
    taken = list(schedule.from_step(0))
    assert [step for step, _ in taken] == list(range(schedule.total))
    assert all(len(order) == schedule.size(step) for step, order in taken)
    assert all(schedule.size(step) == batch for step in range(schedule.steps - 1))
    for epoch in range(schedule.total // schedule.steps):
        within = np.concatenate([order for step, order in taken if step // schedule.steps == epoch])
        assert sorted(within.tolist()) == list(range(records))
    visits = np.bincount(np.concatenate([order for _, order in taken]), minlength=records)
    assert visits.max() == schedule.visits
    rest = list(schedule.from_step(start))
    assert [order.tolist() for _, order in rest] == [order.tolist() for _, order in taken[start:]]


def test_orders_are_the_same_for_ever():
    """Parties with different releases must agree: another order is another protocol."""
    schedule = schedule_of(settings_v(seed=5, train={"epochs": 2, "batch": 3}), 7)
    assert [batch.tolist() for batch in schedule.batches(1)] == [[0, 5, 4], [6, 2, 3], [1]]


def test_saves_are_at_the_ends_of_epochs_and_every_few_steps():
    settings = settings_v(train={"epochs": 5, "batch": 8, "save": 10})
    schedule = schedule_of(settings, 70)
    assert [s for s in range(1, 46) if saves(schedule, settings, s)] == [9, 10, 18, 20, 27, 30, 36, 40, 45]


def test_without_records_there_is_no_step():
    schedule = schedule_of(settings_v(), 0)
    assert (schedule.steps, schedule.total, schedule.visits) == (0, 0, 0)
    assert list(schedule.from_step(0)) == list(schedule.sizes_from(0)) == []
