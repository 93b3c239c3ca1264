"""Every row once in an epoch, in an order that all parties know and that never changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.kinds.vertical_logistic.protocol import batches
from tests.kinds.vertical_logistic.parties import deal


@given(rows=st.integers(2, 400), batch=st.integers(2, 100), epoch=st.integers(0, 1))
@pytest.mark.parametrize("order", ["epoch", "permuted", "hashed"])
def test_every_row_is_in_one_batch_of_an_epoch(order, rows, batch, epoch):
    settings = deal(train={"batch": batch, "batch_order": order})
    found = batches.schedule(rows, settings).batches(epoch)
    assert sorted(np.concatenate(found).tolist()) == list(range(rows))
    as_even = np.array_split(batches.order(rows, batches.epoch_seed(epoch, settings)), len(found))
    assert [part.tolist() for part in found] == [part.tolist() for part in as_even]
    sizes = {len(part) for part in found}
    assert max(sizes) == batches.largest(rows, batch) <= batch
    assert min(sizes) == batches.smallest(rows, batch) >= max(sizes) - 1


def test_orders_differ_from_epoch_to_epoch_and_from_one_another():
    seeds = {}
    for order in ("epoch", "permuted", "hashed"):
        settings = deal(seed=3, train={"epochs": 50, "batch_order": order})
        seeds[order] = [batches.epoch_seed(epoch, settings) for epoch in range(50)]
        assert len(set(seeds[order])) == 50
    assert seeds["epoch"] == list(range(50))
    assert sorted(seeds["permuted"]) == list(range(50))
    assert seeds["permuted"] != seeds["epoch"]
    other = deal(seed=4, train={"epochs": 50, "batch_order": "hashed"})
    assert batches.epoch_seed(0, other) != seeds["hashed"][0]


def test_orders_are_the_same_for_ever():
    """Parties with different releases must agree: another order is another protocol."""
    assert batches.order(8, 0).tolist() == [2, 1, 6, 4, 7, 5, 3, 0]
    assert batches.hold_out(10, 0.3, 7)[1].tolist() == [1, 2, 9]


@given(rows=st.integers(2, 300), fraction=st.floats(0, 0.99), seed=st.integers(0, 5))
def test_rows_are_held_out_or_trained_on(rows, fraction, seed):
    training, held_out = batches.hold_out(rows, fraction, seed)
    assert sorted([*training, *held_out]) == list(range(rows))
    assert len(training) >= 1
    assert (len(held_out) >= 1) == (fraction > 0)
