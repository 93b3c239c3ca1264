"""What docs/trees.md says is not covered: an active that chooses its words reads all bins at once."""

import numpy as np

from tests.kinds.vertical_trees.protocol.remote import asked, random_table

ROWS, LEAST = 320, 64
BITS = np.uint64(1) << np.arange(64, dtype=np.uint64)


def test_a_bit_of_its_own_for_each_row_of_a_node_tells_every_bin_in_one_tree():
    table = random_table(ROWS, [9, 5])
    nodes = np.split(np.arange(ROWS), ROWS // LEAST)

    def ask(remote):
        remote.start(np.tile(BITS, ROWS // LEAST).view(np.int64))
        remote.histograms([np.arange(ROWS)])
        return remote.histograms(nodes[:-1]), remote.histograms(nodes[-1:])

    (sums, last), tally = asked(table, ask, least=LEAST)
    found = np.zeros_like(table.cells)
    for rows, node in zip(nodes, [*sums, *last], strict=True):
        for feature, bins in enumerate(node.view(np.uint64)):
            for bin_, bits in enumerate(bins):
                found[rows[(BITS & bits) > 0], feature] = bin_
    assert np.array_equal(found, table.cells)
    assert tally.values == 1
