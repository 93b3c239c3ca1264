"""Which records each step takes, given the order of an epoch and its cut into batches."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tacit.lockstep.schedule import Schedule


def schedule_of(sizes, epochs, limit=None):
    """An epoch takes all records in a circle, from its own number on."""
    records, ends = sum(sizes), list(accumulate(sizes, initial=0))

    def order(epoch):
        return np.roll(np.arange(records), -epoch)

    return Schedule(records, epochs, len(sizes), order, lambda step: slice(ends[step], ends[step + 1]), limit)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
    st.integers(1, 4),
    st.none() | st.integers(1, 30),
    st.integers(0, 40),
)
def test_steps_follow_the_order_and_the_cut(sizes, epochs, limit, start):
    schedule = schedule_of(sizes, epochs, limit)
    steps = [batch.tolist() for epoch in range(epochs) for batch in schedule.batches(epoch)]
    whole = [(number, rows) for number, rows in enumerate(steps)][: limit or len(steps)]
    assert schedule.total == len(whole)
    assert [(step, rows.tolist()) for step, rows in schedule.from_step(start)] == whole[start:]
    assert [(step, len(rows)) for step, rows in schedule.sizes_from(start)] == [(s, len(r)) for s, r in whole[start:]]
    for epoch in range(epochs):
        assert np.concatenate(schedule.batches(epoch)).tolist() == schedule.order(epoch).tolist()
    visited = np.bincount([record for _, rows in whole for record in rows])
    assert schedule.visits == visited.max()


def test_evaluations_are_every_few_epochs_and_at_the_end():
    schedule = schedule_of([8] * 8 + [6], 5)
    assert [step for step in range(1, 46) if schedule.evaluates(step, 2)] == [18, 36, 45]
    assert schedule.evaluations(2) == 3
    assert [step for step in range(1, 46) if schedule.ends_epoch(step)] == [9, 18, 27, 36, 45]
    cut_short = schedule_of([8] * 8 + [6], 5, limit=20)
    assert [step for step in range(1, 21) if cut_short.ends_epoch(step)] == [9, 18, 20]
    assert cut_short.visits == 3
