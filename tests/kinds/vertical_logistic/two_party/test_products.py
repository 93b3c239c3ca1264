"""Products from punctured trees: plain integers are the oracle, and the owner sees uniform words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.crypto.ot.words import add, total
from tacit.crypto.punctured import answer, finish, request
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.two_party import products
from tacit.kinds.vertical_logistic.two_party.products import Layout, digits_of, give, take
from tests.crypto.ot.plain import SESSION, ends, numbers


def trees_of(holes, depth):
    sender, receiver = ends()
    asked, chosen = request(receiver, holes, depth)
    _, made, reply = answer(sender, asked, len(holes), depth)
    return made, finish(SESSION, holes, depth, chosen, reply)[1]


def integers(words, bits):
    return words.astype(object) if bits == 64 else np.array(numbers(words), dtype=object).reshape(words.shape[:-1])


LAYOUTS = st.builds(
    Layout,
    rows=st.integers(1, 4),
    columns=st.integers(1, 4),
    digits=st.integers(1, 4),
    digit_bits=st.integers(1, 5),
    bits=st.sampled_from([64, 128]),
)


@given(LAYOUTS, st.integers(0, 2**32), st.integers(0, 2**62))
@settings(max_examples=60)
def test_shares_add_up_to_the_product_in_every_cell(layout, seed, tweak):
    draw, half = np.random.default_rng(seed), 1 << (layout.feature_bits - 1)
    features = draw.integers(-half, half, (layout.rows, layout.columns))
    factors = draw.integers(0, 2**64, layout.shape, dtype=np.uint64)
    holes = digits_of(features, layout)
    made, held = trees_of(holes, layout.digit_bits)
    message, mine = give(SESSION, made, tweak, factors, layout)
    assert len(message) == layout.message_bytes
    shares = take(SESSION, held, holes, tweak, message, layout)
    exact = features.astype(object) * integers(factors, layout.bits)
    assert (integers(add(mine, shares, layout.bits), layout.bits) == exact % 2**layout.bits).all()
    for axis in (0, 1):
        opened = add(total(mine, layout.bits, axis), total(shares, layout.bits, axis), layout.bits)
        assert (integers(opened, layout.bits) == exact.sum(axis=axis) % 2**layout.bits).all()


@pytest.mark.parametrize("width", [1, 5, 8])
def test_words_that_are_cut_give_shares_of_a_smaller_ring(width):
    layout = Layout(rows=2, columns=3, width=width)
    draw = np.random.default_rng(width)
    features, factors = draw.integers(-2048, 2048, (2, 3)), draw.integers(0, 2**64, (2, 3), dtype=np.uint64)
    holes = digits_of(features, layout)
    made, held = trees_of(holes, layout.digit_bits)
    message, mine = give(SESSION, made, 9, factors, layout)
    assert len(message) == layout.message_bytes == layout.trees * width
    opened = (mine + take(SESSION, held, holes, 9, message, layout)).astype(object)
    assert (opened % 256**width == features.astype(object) * factors.astype(object) % 256**width).all()
    with pytest.raises(ValueError, match="1 to 8 bytes"):
        Layout(rows=2, columns=3, bits=128, width=width)


def test_trees_are_worked_through_in_parts_without_a_seam(monkeypatch):
    layout = Layout(rows=5, columns=3)
    features = np.arange(15).reshape(5, 3) * 100 - 700
    holes = digits_of(features, layout)
    made, held = trees_of(holes, 4)
    factors = np.arange(15, dtype=np.uint64).reshape(5, 3)
    message, mine = give(SESSION, made, 1, factors, layout)
    whole = take(SESSION, held, holes, 1, message, layout)
    monkeypatch.setattr(products, "_AT_ONCE", 7)
    assert give(SESSION, made, 1, factors, layout)[0] == message
    assert (give(SESSION, made, 1, factors, layout)[1] == mine).all()
    assert (take(SESSION, held, holes, 1, message, layout) == whole).all()


def test_the_owner_sees_uniform_words_for_equal_factors():
    layout = Layout(rows=50, columns=20)
    holes = digits_of(np.full((50, 20), 3), layout)
    made, held = trees_of(holes, 4)
    message, mine = give(SESSION, made, 5, np.full((50, 20), 12345, dtype=np.uint64), layout)
    shares = take(SESSION, held, holes, 5, message, layout)
    for words in (np.frombuffer(message, dtype=np.uint64), shares.ravel(), mine.ravel()):
        assert stats.chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > 1e-4


def test_the_edges_of_the_features_are_held_and_what_is_beyond_is_refused():
    layout = Layout(rows=1, columns=2)
    assert digits_of(np.array([[-2048, 2047]]), layout).tolist() == [0, 0, 0, 15, 15, 15]
    for wrong in (-2049, 2048):
        with pytest.raises(ValueError, match="from -2048 to 2047"):
            digits_of(np.array([[0, wrong]]), layout)
    for wrong in (np.array([[0, 1, 2]]), np.array([[0.0, 1.0]])):
        with pytest.raises(ValueError, match=r"integers of shape \(1, 2\)"):
            digits_of(wrong, layout)


@given(st.integers(-30, 30).filter(bool))
def test_a_message_of_a_wrong_length_is_refused(change):
    layout = Layout(rows=1, columns=2)
    holes = digits_of(np.array([[1, 2]]), layout)
    made, held = trees_of(holes, 4)
    message, _ = give(SESSION, made, 0, np.ones((1, 2), dtype=np.uint64), layout)
    with pytest.raises(PeerError, match="has 48 bytes, got"):
        take(SESSION, held, holes, 0, message + bytes(change) if change > 0 else message[:change], layout)


def test_wrong_layouts_and_factors_are_refused():
    with pytest.raises(ValueError, match="at most 32 bits, got 9 digits of 4"):
        Layout(1, 1, digits=9)
    with pytest.raises(ValueError, match="at least one"):
        Layout(0, 1)
    with pytest.raises(ValueError, match="64 or 128"):
        Layout(1, 1, bits=32)
    with pytest.raises(ValueError, match=r"factors have shape \(2, 3\)"):
        give(SESSION, np.zeros((16, 18, 2), np.uint64), 0, np.zeros((3, 2), np.uint64), Layout(2, 3))
