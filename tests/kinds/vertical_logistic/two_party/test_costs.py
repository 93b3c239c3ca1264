"""Bytes before a training against those of the recorded messages; distances; scales that are refused."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from tacit.crypto import fixed_key
from tacit.crypto.ot import one_of_many
from tacit.kinds.vertical_logistic.two_party import unit_vectors
from tacit.kinds.vertical_logistic.two_party.costs import costs, distances
from tacit.wire import encode
from tests.kinds.vertical_logistic.shared.trainings import people, run, shared_out
from tests.kinds.vertical_logistic.two_party.sessions import terms_of


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"figures": "epoch", "held_out": 0.5},
        {"model": "linear", "figures": "end"},
        {"outputs": 3, "figures": "end"},
    ],
)
def test_bytes_are_those_of_the_messages(changes):
    x, y = people(200, 5)
    terms, recorders = terms_of(200, epochs=2, **changes), {}
    if terms.outputs == 3:
        y = np.eye(3)[np.argmax(x[:, :3], axis=1)]
    run(x, y, terms, recorders=recorders)
    sent = [len(encode(m)) for channels in recorders.values() for channel in channels.values() for m in channel.sent]
    columns = {name: part.shape[1] for name, part in shared_out(x, terms).items()}
    found = costs(terms, columns).total
    assert 0 <= sum(sent) - found.bytes < 30 * len(sent)


def test_a_step_of_512_rows_and_30_columns_sends_less_than_two_megabytes():
    found = costs(terms_of(512, batch=512, held_out=0.0), {"bank": 15, "shop": 15})
    assert found.step.bytes < 2_000_000
    assert found.step.exchanges == 3
    assert found.setup.bytes / (512 * 30) < 820


def test_distances_are_far_below_2_to_the_minus_40():
    terms = terms_of(30_000, batch=512, epochs=20)
    found = distances(terms, {"bank": 10, "shop": 13})
    assert 0 < sum(found.values()) < 2.0**-40
    assert found["residues"] == found["low bits dropped"] == 0
    more = distances(terms_of(30_000, batch=512, epochs=40), {"bank": 10, "shop": 13})
    assert sum(more.values()) > sum(found.values())


@pytest.mark.parametrize("changes", [{}, {"figures": "epoch", "held_out": 0.5}, {"outputs": 3}])
def test_all_blocks_that_hide_entries_are_counted_in_the_distance(monkeypatch, changes):
    """Few columns: then the tables of the lookups are most of what is hidden, and many of their entries are short."""
    hidden = []

    class Counting:
        def __init__(self, session, purpose):
            self.real = fixed_key.permutation(session, purpose)

        def keyed(self, keys, inputs):
            if threading.current_thread().name == "bank":  # it sends all tables
                hidden.append(keys.size // 2)
            return self.real.keyed(keys, inputs)

    for module in (one_of_many, unit_vectors):
        monkeypatch.setattr(module, "permutation", Counting)
    x, y = people(200, 2)
    terms = terms_of(200, epochs=4, **changes)
    if terms.outputs == 3:
        y = np.eye(3)[np.arange(200) % 3]
    run(x, y, terms)
    found = distances(terms, {"bank": 1, "shop": 1})["hashed blocks"]
    assert 0 < sum(hidden) < math.sqrt(found * 2.0**128) < 3 * sum(hidden)
