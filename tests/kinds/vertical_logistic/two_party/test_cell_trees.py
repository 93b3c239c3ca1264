"""Products of tables with the other party's words against plain integers, from leaves that are kept or made again."""

import numpy as np
import pytest

from tacit import oblivious
from tacit.crypto import punctured
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.two_party import cell_trees, products
from tacit.kinds.vertical_logistic.two_party.cell_trees import hold, make
from tacit.kinds.vertical_logistic.two_party.messages import Product
from tacit.kinds.vertical_logistic.two_party.scales import DIGITS
from tests.kinds.vertical_logistic.two_party.sessions import both

ROWS, COLUMNS = 40, 3


def table(seed=0):
    return np.random.default_rng(seed).integers(-(2**19), 2**19, (ROWS, COLUMNS))


def words(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 2**64, shape, dtype=np.uint64)


def modulo(values, width):
    return [[int(value) % 2 ** (8 * width) for value in row] for row in values]


def exact(features, factors):
    return features.astype(object) @ factors.astype(object)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("width", [5, 8])
def test_scores_and_gradients_are_those_of_plain_integers(monkeypatch, kept, width):
    monkeypatch.setattr(cell_trees, "_KEPT_TREES", (1 << 19) * kept)
    monkeypatch.setattr(cell_trees, "_BLOCK_TREES", 7 * COLUMNS * DIGITS)  # several blocks
    features, weights = table(), words(COLUMNS, 2)
    rows = np.random.default_rng(3).permutation(ROWS)[:25]
    residues = words(len(rows), 2, seed=4)

    def first(channel, end):
        made = make(channel, end, ROWS, COLUMNS)
        assert (made.kept is not None) == kept
        return made.scores(rows, weights, width), made.gradient(rows, residues, width)

    def second(channel, end):
        held = hold(channel, end, features)
        return held.scores(rows, width, 2), held.gradient(rows, width, 2)

    (one, one_gradient), (other, other_gradient) = both(first, second)
    assert modulo(one + other, width) == modulo(exact(features[rows], weights), width)
    assert modulo(one_gradient + other_gradient, width) == modulo(exact(features[rows].T, residues), width)


def test_no_tweak_is_used_twice(monkeypatch):
    used = []
    real = punctured.word_sums

    def recorded(session, leaves, tweak, bits=64, holes=None):
        used.extend((holes is None, session, tweak, leaf.tobytes()) for leaf in leaves[0])
        return real(session, leaves, tweak, bits, holes)

    monkeypatch.setattr(products, "word_sums", recorded)
    rows = np.arange(ROWS)

    def first(channel, end):
        made = make(channel, end, ROWS, COLUMNS)
        for seed in range(3):
            made.scores(rows, words(COLUMNS, 2, seed=seed), 6)
            made.gradient(rows, words(ROWS, 2, seed=seed), 5)

    def second(channel, end):
        held = hold(channel, end, table())
        for _ in range(3):
            held.scores(rows, 6, 2)
            held.gradient(rows, 5, 2)

    both(first, second)
    makers = [entry for entry in used if entry[0]]
    assert len(makers) == ROWS * COLUMNS * DIGITS * 12
    assert len(set(makers)) == len(makers)


def test_the_same_factor_twice_is_sent_as_other_words():
    recorders, rows = {}, np.arange(ROWS)

    def first(channel, end):
        made = make(channel, end, ROWS, COLUMNS)
        for _ in range(2):
            made.scores(rows, words(COLUMNS, 1), 8)

    def second(channel, end):
        held = hold(channel, end, table())
        for _ in range(2):
            held.scores(rows, 8, 1)

    both(first, second, recorders)
    one, other = (np.frombuffer(m.words, dtype="<u8") for m in recorders["second"].seen if isinstance(m, Product))
    assert not set(one.tolist()) & set(other.tolist())


def test_a_party_without_columns_sends_and_receives_nothing():
    rows, recorders = np.arange(ROWS), {}
    one, other = both(
        lambda channel, end: make(channel, end, ROWS, 0).scores(rows, words(0, 2), 6),
        lambda channel, end: hold(channel, end, table()[:, :0]).scores(rows, 6, 2),
        recorders,
    )
    assert not one.any()
    assert not other.any()
    assert not [m for m in recorders["second"].seen if isinstance(m, Product)]


def test_words_of_a_wrong_length_are_refused():
    def first(channel, end):
        make(channel, end, ROWS, COLUMNS)
        channel.send(Product(bytes(10)))

    with pytest.raises(PeerError, match="the products of 40"):
        both(first, lambda channel, end: hold(channel, end, table()).scores(np.arange(ROWS), 6, 1))


@pytest.mark.parametrize("kept", [True, False])
def test_the_memory_of_trees_is_that_of_their_arrays(monkeypatch, kept):
    monkeypatch.setattr(cell_trees, "_KEPT_TREES", (1 << 19) * kept)
    made, held = both(
        lambda channel, end: make(channel, end, ROWS, COLUMNS), lambda channel, end: hold(channel, end, table())
    )
    arrays = [made.trees.seeds, held.trees.siblings, held.trees.holes, *([made.kept, held.kept] if kept else [])]
    assert cell_trees.memory(ROWS * COLUMNS, ROWS * COLUMNS) == sum(array.nbytes for array in arrays)


def test_a_number_of_columns_that_no_memory_holds_is_the_peers_fault():
    """A party that makes up its number of columns: 2^21 rows of them would take 351 TB."""
    with pytest.raises(PeerError, match=r"the other party has 1048576 columns: .*take 351,843\.7 GB"):
        both(lambda channel, end: make(channel, end, 1 << 21, 1 << 20), lambda channel, end: None)


def test_an_own_table_that_no_memory_holds_is_the_users_to_mend(monkeypatch):
    def none_left(*_):
        raise MemoryError

    monkeypatch.setattr(oblivious, "hold_trees", none_left)
    with pytest.raises(ValueError, match=r"this party has 3 columns: .*take fewer rows or columns, or a dealer"):
        both(lambda channel, end: None, lambda channel, end: hold(channel, end, table()))
