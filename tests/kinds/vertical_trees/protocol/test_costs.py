"""Forecast bytes against those of recorded messages."""

import numpy as np
import pytest

from tacit.kinds.vertical_trees.protocol.costs import costs, memory
from tacit.kinds.vertical_trees.protocol.features import Chosen
from tacit.kinds.vertical_trees.protocol.messages import ShareSums
from tacit.wire import encode
from tests.kinds.vertical_trees.protocol.remote import asked, random_table

ROWS, DEPTH = 4000, 4


def whole_tree(table):
    """A tree that the passive splits at every node, by halves."""
    left = np.arange(int(table.bins[0])) < int(table.bins[0]) // 2

    def ask(remote):
        remote.start(np.arange(ROWS))
        level = nodes = [np.arange(ROWS)]
        for _ in range(DEPTH):
            remote.histograms(nodes)
            remote.divide([Chosen(rows, 0, left) for rows in level])
            halves = [np.array_split(rows, 2) for rows in level]
            level, nodes = [half for pair in halves for half in pair], [pair[0] for pair in halves]

    return ask


@pytest.mark.parametrize("hidden", [False, True])
def test_a_forecast_is_at_least_what_crosses_and_little_more(hidden):
    table, recorders = random_table(ROWS, [16, 5, 32]), {}
    _, tally = asked(table, whole_tree(table), hidden=hidden, recorders=recorders)
    crossed = [entry.message for entry in recorders["active"].log]
    sent = sum(len(encode(message)) for message in crossed)
    forecast = costs(ROWS, table.bins, DEPTH, hidden=hidden)
    assert sent <= forecast.tree + 64 * len(crossed)
    assert sent >= 0.9 * forecast.tree
    assert tally.sums == forecast.sums
    seen = recorders["active"].seen
    assert len(seen) == forecast.exchanges
    assert sum(len(m.words) for m in seen if isinstance(m, ShareSums)) == 8 * forecast.sums


def test_memory_counts_seeds_leaves_and_words_until_they_are_made_again():
    bins = np.array([32] * 50)
    assert memory(10_000, bins) == 500_000 * 32 + 16_000_000 * (16 + 8)
    assert memory(100_000, bins) == 5_000_000 * 32 + 160_000_000 * 8  # leaves are grown again
    assert memory(1_000_000, bins) == 50_000_000 * 32 + 2**28 * 8
