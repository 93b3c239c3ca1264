"""Small tables of two parties, drawn from a seed, for attacks on their training."""

import numpy as np

from tacit.kinds.vertical_trees.attacks.training import Table, train
from tacit.kinds.vertical_trees.protocol.boosting import Terms
from tacit.kinds.vertical_trees.protocol.growth import Options


def drawn(rows, seed=0, bins=16):
    """The active's table, the passive's, and labels of which both know a part; positives are fewer."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 6))
    score = 1.5 * x[:, 0] + x[:, 3] - 0.7 * x[:, 4] - 1
    labels = (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(float)
    return Table.of_numbers(x[:, :3], bins), Table.of_numbers(x[:, 3:], bins), labels


def recorded(rows, trees, *, depth=4, bits=8, least=16, noise=0.0, seed=0, bins=16):
    """The passive's table, the labels, and the record of a training."""
    active, passive, labels = drawn(rows, seed, bins)
    terms = Terms(trees, 0.1, seed=seed, growth=Options(depth, bits=bits, least=least))
    _, record = train([active, passive], labels, terms, noise=noise)
    return passive, labels, record
