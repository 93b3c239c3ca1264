"""Whole columns from every sum of a training."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tacit.kinds.vertical_trees.attacks.training import deviations
from tacit.kinds.vertical_trees.attacks.whole_columns import (
    allowed,
    audit_columns,
    equations,
    frequencies,
    guess_column,
    solve,
)
from tests.kinds.vertical_trees.attacks.small_trees import recorded


def test_the_true_column_meets_every_equation():
    passive, _, record = recorded(120, 5)
    for feature in range(3):
        system = equations(record, feature, int(passive.bins[feature]))
        truth = np.eye(int(passive.bins[feature]))[passive.binned[:, feature]]
        assert system.count == 2 * len(record.opened)
        assert np.array_equal(system.weights @ truth, system.sums)


def test_partitions_leave_the_true_bin():
    passive, _, record = recorded(200, 10)
    left = allowed(record, 0, int(passive.bins[0]))
    assert left[np.arange(200), passive.binned[:, 0]].all()
    assert left.sum() < 0.7 * left.size


def test_the_first_node_tells_how_frequent_bins_are():
    passive, _, record = recorded(200, 1, bits=16)
    counted = np.bincount(passive.binned[:, 1], minlength=int(passive.bins[1])) / 200
    assert frequencies(record, 1, int(passive.bins[1])) == pytest.approx(counted, abs=1e-3)


@pytest.mark.parametrize("bits", [4, 8])
def test_many_trees_determine_a_column_at_any_precision(bits):
    passive, _, record = recorded(200, 30, bits=bits)
    guess = guess_column(record, 0, int(passive.bins[0]))
    frequency, partitions, sums = guess.right(passive.binned[:, 0])
    assert frequency < 0.1
    assert partitions < 0.7
    assert sums == 1


def test_few_sums_do_not_determine_a_column():
    passive, _, record = recorded(400, 1)
    frequency, _, sums = guess_column(record, 2, int(passive.bins[2])).right(passive.binned[:, 2])
    assert frequency < sums < 0.5


def test_noise_leaves_little_beyond_the_partitions():
    passive, _, record = recorded(200, 30, noise=5.0)
    guess = guess_column(record, 1, int(passive.bins[1]), noise=deviations(5.0, 8))
    _, partitions, sums = guess.right(passive.binned[:, 1])
    assert abs(sums - partitions) < 0.1


def test_least_squares_agree_with_a_general_solver():
    passive, _, record = recorded(40, 1, bins=4, least=8, depth=2)
    bins = int(passive.bins[0])
    system, possible = equations(record, 0, bins), allowed(record, 0, bins)
    noise = np.tile(np.array(deviations(1.0, 8)), system.count // 2)
    found = solve(system, possible, np.full(bins, 1 / bins), noise, steps=2000)
    dense = system.weights.toarray() / noise[:, None]

    def error(x):
        rest = dense @ x.reshape(40, bins) - system.sums / noise[:, None]
        return float(np.square(rest).sum()), 2 * (dense.T @ rest).ravel()

    start = np.where(possible, 1.0, 0.0)
    start /= start.sum(axis=1, keepdims=True)
    rows = np.kron(np.eye(40), np.ones(bins))
    general = minimize(
        error,
        start.ravel(),
        jac=True,
        method="SLSQP",
        bounds=[(0, float(each)) for each in possible.ravel()],
        constraints={"type": "eq", "fun": lambda x: rows @ x - 1, "jac": lambda x: rows},
        options={"maxiter": 300},
    )
    assert error(found.ravel())[0] <= general.fun + 1e-3
    assert found.sum(axis=1) == pytest.approx(1)
    assert found.min() >= 0
    assert not found[~possible].any()


def test_the_finding_names_cells_beside_frequency_and_partitions():
    passive, _, off = recorded(150, 25, bits=16, least=1)
    _, _, on = recorded(150, 2, least=64)
    found = audit_columns(off, on, passive.binned, passive.bins, "least: 64, two trees")
    assert found.off.value > 0.99
    assert found.on.value < 0.6
    assert found.off.baseline < 0.1
    partitions = found.also[0][1].value
    assert found.on.baseline <= partitions <= found.on.value
