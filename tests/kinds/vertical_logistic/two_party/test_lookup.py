"""Lookups of a shared score: indices by exact fractions, entries at any score, means by interpolation."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import chisquare

from tacit.kinds.vertical_logistic.two_party import lookup
from tacit.kinds.vertical_logistic.two_party.lookup import (
    LARGEST,
    SCORE,
    Grid,
    added,
    index,
    interpolated,
    look_up_first,
    look_up_second,
)
from tacit.randomness import seeded_rng
from tests.kinds.vertical_logistic.two_party.sessions import both

WORD = st.integers(0, 2**64 - 1)
GRIDS = [Grid(), Grid(10, 2)]


def shares_of(scores, seed=0):
    values = np.rint(np.asarray(scores) * 2.0**SCORE).astype(np.int64).view(np.uint64)
    first = np.random.default_rng(seed).integers(0, 2**64, len(values), dtype=np.uint64)
    return first, values - first


def looked_up(scores, grid, entries, width=8, seed=0):
    """Both parties' shares of `entries`, which are those of the grid."""
    first, second = shares_of(scores, seed)
    rng = seeded_rng(seed)
    return both(
        lambda channel, end: look_up_first(channel, end, first, grid, lambda _, at: entries[at], width, rng),
        lambda channel, end: look_up_second(channel, end, second, grid, width),
    )


@given(WORD, WORD, st.integers(0, 40), st.integers(1, 8))
def test_indices_add_up_to_the_score_rounded_to_a_neighbour(one, other, places, bits):
    first = index(np.array([one], dtype=np.uint64), places, bits, second=False)
    second = index(np.array([other], dtype=np.uint64), places, bits, second=True)
    steps = Fraction((one + other) % 2**64, 2**places)
    assert int(first[0] + second[0]) % 2**bits in {math.floor(steps) % 2**bits, math.ceil(steps) % 2**bits}


@pytest.mark.parametrize("grid", GRIDS)
def test_a_score_finds_its_own_entry_or_one_of_its_side(grid):
    scores = np.concatenate([np.linspace(-LARGEST, LARGEST, 3001), np.linspace(-100, 100, 3001), [0.0]])
    entries = np.arange(1 << grid.entries_bits, dtype=np.uint64)
    first, second = looked_up(scores, grid, entries)
    found = grid.scores[(first + second).astype(np.int64)]
    within = np.abs(scores) <= grid.reach
    assert np.abs(found - scores)[within].max() < 2.0**-grid.step_bits
    assert (np.sign(found) == np.sign(scores))[~within].all()
    assert np.abs(found[~within]).min() >= grid.saturated
    assert np.abs(found).max() < -grid.scores.min()


def test_a_score_beyond_the_cells_is_taken_for_another_one():
    """So `LARGEST` is the bound."""
    grid = GRIDS[0]
    entries = np.arange(256, dtype=np.uint64)
    first, second = looked_up([LARGEST + 100, 2 * LARGEST + 33], grid, entries)
    found = grid.scores[(first + second).astype(np.int64)]
    assert found[0] < 0
    assert abs(found[1] - 1) < 0.5


@settings(max_examples=5)
@given(st.integers(0, 10**6))
def test_the_mean_of_the_sigmoid_is_right(seed):
    grid, score = Grid(), np.random.default_rng(seed).uniform(-6, 6)
    entries = np.rint(interpolated(expit, grid) * 2.0**15).astype(np.int64).astype(np.uint64)
    first, second = looked_up(np.full(4000, score), grid, entries, width=5, seed=seed)
    values = ((first + second) & np.uint64(2**40 - 1)) / 2.0**15
    assert abs(values.mean() - expit(score)) < 0.002 + 5 * values.std() / math.sqrt(4000)


def test_interpolation_is_right_on_average_where_the_curve_bends():
    grid = Grid()
    order = np.argsort(grid.scores)
    fine = np.linspace(-8, 8, 16 * 64, endpoint=False)
    off = [
        np.interp(fine, grid.scores[order], entries[order]) - expit(fine)
        for entries in (expit(grid.scores), interpolated(expit, grid))
    ]
    means = [np.abs(each.reshape(-1, 32).mean(axis=1)).max() for each in off]  # over each step of 1/2
    assert means[0] > 0.001
    assert means[1] < means[0] / 10


@pytest.mark.parametrize("masked", [True, False])
def test_the_receiver_finds_uniform_words(monkeypatch, masked):
    """And not without the sender's masks."""
    if not masked:
        monkeypatch.setattr(lookup, "random_words", lambda rng, count: np.zeros(count, dtype=np.uint64))
    entries = np.rint(interpolated(expit, Grid()) * 2.0**15).astype(np.uint64)
    _, second = looked_up(np.linspace(-4, 4, 4000), Grid(), entries, width=5)
    counts = np.bincount(second.view(np.uint8).reshape(-1, 8)[:, :5].reshape(-1), minlength=256)
    assert (chisquare(counts).pvalue > 1e-6) == masked


@given(WORD, WORD, st.integers(1, 63))
def test_two_numbers_in_a_word_are_added_apart(one, other, split):
    found = int(added(np.array([one], dtype=np.uint64), np.array([other], dtype=np.uint64), split)[0])
    assert found % 2**split == (one + other) % 2**split
    assert found >> split == ((one >> split) + (other >> split)) % 2 ** (64 - split)


def test_two_numbers_of_an_entry_are_shared_apart():
    grid = Grid()
    first, second = shares_of(np.linspace(-5, 5, 500))
    entries = (np.arange(256, dtype=np.uint64) << np.uint64(48)) + np.uint64(2**48 - 1)
    one, other = both(
        lambda channel, end: look_up_first(
            channel, end, first, grid, lambda _, at: entries[at], 8, seeded_rng(0), split=48
        ),
        lambda channel, end: look_up_second(channel, end, second, grid, 8),
    )
    total = added(one, other, 48)
    assert (total & np.uint64(2**48 - 1) == np.uint64(2**48 - 1)).all()
    assert np.abs(grid.scores[(total >> np.uint64(48)).astype(int)] - np.linspace(-5, 5, 500)).max() < 0.5


def test_tables_that_reach_no_cell_are_refused():
    with pytest.raises(ValueError, match="reaches from 32"):
        Grid(entries_bits=8, step_bits=3)
