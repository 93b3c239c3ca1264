"""The sigmoid by lookup: the index by exact fractions, the mean by interpolation, the receiver's word uniform."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from tacit.crypto.ot.one_of_many import hide_tables, index_bits, open_entries
from tacit.kinds.vertical_logistic.two_party.sigmoid import (
    Grid,
    index_down,
    index_up,
    mask_distance,
    mask_words,
    shares_of,
    sigmoid_table,
    tables,
)
from tacit.randomness import seeded_rng
from tests.crypto.ot.plain import SESSION, ends

GRID = Grid()
WORDS = st.integers(0, 2**64 - 1)


def looked_up(first, second, grid, width, seed=0):
    """Both parties' shares of the value, for shares of the score."""
    sender, receiver = ends(seed)
    indices, bits, rows = index_up(second, grid), grid.entries_bits, len(first)
    message, chosen = receiver.extend(index_bits(indices, bits))
    zeros, ones = (blocks.reshape(rows, bits, 2) for blocks in sender.extend(message, rows * bits))
    masks = mask_words(seeded_rng(seed), rows, grid, width)
    hidden = hide_tables(SESSION, zeros, ones, tables(first, masks, grid), width)
    return shares_of(masks), open_entries(SESSION, indices, chosen.reshape(rows, bits, 2), hidden, width)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=20), st.integers(1, 10), st.integers(0, 3))
def test_indices_add_up_to_the_score_rounded_to_a_neighbour(shares, entries_bits, step_bits):
    grid = Grid(entries_bits=entries_bits, step_bits=step_bits)
    first, second = (np.array(column, dtype=np.uint64) for column in zip(*shares, strict=True))
    got = (index_down(first, grid) + index_up(second, grid)) % 2**entries_bits
    for (one, other), index in zip(shares, got, strict=True):
        steps = Fraction((one + other) % 2**64, 2 ** (grid.score_bits - step_bits))
        assert index in {math.floor(steps) % 2**entries_bits, math.ceil(steps) % 2**entries_bits}


def test_the_table_is_the_sigmoid_at_its_steps():
    steps = np.arange(-128, 128)
    expected = special.expit(steps / 2) * 2**13
    assert np.abs(sigmoid_table(GRID)[steps % 256].astype(float) - expected).max() <= 0.5
    assert GRID.span == 64


@given(st.lists(st.floats(-63, 63), min_size=1, max_size=20), st.sampled_from([7, 8]), st.integers(0, 99))
def test_shares_of_the_value_add_up_to_the_entry_of_the_score(scores, width, seed):
    words = np.rint(np.array(scores) * 2**GRID.score_bits).astype(np.int64).view(np.uint64)
    first = np.random.default_rng(seed).integers(0, 2**64, len(words), dtype=np.uint64)
    mine, theirs = looked_up(first, words - first, GRID, width, seed)
    index = (index_down(first, GRID) + index_up(words - first, GRID)) % 256
    assert (mine + theirs == sigmoid_table(GRID)[index]).all()


def test_the_mean_of_the_value_is_the_interpolated_sigmoid():
    """Over uniform shares of one score, 20,000 times; within five standard errors."""
    for score in (-2.3, -0.1, 0.25, 1.7):
        word = np.array(np.rint(score * 2**GRID.score_bits)).astype(np.int64).view(np.uint64)
        first = np.random.default_rng(1).integers(0, 2**64, 20_000, dtype=np.uint64)
        index = (index_down(first, GRID) + index_up(word - first, GRID)) % 256
        values = sigmoid_table(GRID)[index].astype(float) / 2**13
        low, high = math.floor(score * 2) / 2, math.ceil(score * 2) / 2
        expected = np.interp(score, [low, high], special.expit([low, high]))
        assert abs(values.mean() - expected) < 5 * values.std() / math.sqrt(len(values)) + 2**-14
        assert set(np.round(values, 3)) == set(np.round(special.expit([low, high]), 3))


@pytest.mark.parametrize("width", [7, 8])
def test_the_receivers_words_are_uniform_for_one_and_the_same_score(width):
    word = np.full(2048, 3 << GRID.score_bits, dtype=np.uint64)
    first = np.random.default_rng(2).integers(0, 2**64, 2048, dtype=np.uint64)
    _, theirs = looked_up(first, word - first, GRID, width, seed=6)
    data = theirs.view(np.uint8).reshape(-1, 8)[:, :width]
    assert stats.chisquare(np.bincount(data.ravel(), minlength=256)).pvalue > 1e-4


def test_masks_leave_room_for_the_value_and_their_distance_is_told():
    masks = mask_words(seeded_rng(1), 100_000, GRID, 3)  # short, so that the edge is met
    assert int(masks.max()) + 2**13 < 2**24
    assert int(masks.max()) > 2**24 - 2**13 - 2000
    assert mask_distance(GRID, 8) == 0
    assert mask_distance(GRID, 7) == 2**-41
    for width in range(3, 8):
        top = 2 ** (8 * width) - 2**13 - 1
        uneven = Fraction(2**64 % top, 2**64)  # of the 64-bit words that give the masks, modulo `top`
        moved = Fraction(2**13, top)  # by the largest value
        assert uneven + moved <= mask_distance(GRID, width)


def test_wrong_grids_and_widths_are_refused():
    for wrong in ({"entries_bits": 0}, {"entries_bits": 17}, {"step_bits": 20}, {"score_bits": 49}, {"value_bits": 33}):
        with pytest.raises(ValueError, match=r"table has|values have"):
            Grid(**wrong)
    for width in (2, 9):
        with pytest.raises(ValueError, match="take more than"):
            mask_words(seeded_rng(1), 1, GRID, width)
