"""How much counts can tell is bounded above by what they do tell; requests are stored by training and passive."""

import numpy as np
import pytest
from scipy.stats import binom, entropy

from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.protocol.journal import InMemory
from tacit.kinds.vertical_logistic.protocol.label_count_messages import CountRequest, Given
from tacit.kinds.vertical_logistic.protocol.label_count_terms import Terms, kept, once, refusal, told_bits

REQUEST = CountRequest(10, 2, 400, 50, bytes(32))


def test_counts_of_one_column_tell_no_more_than_is_said():
    """Of fair coins the counts of disjoint groups are independent: their exact entropy adds up."""
    for size, groups in ((50, 1), (50, 8), (500, 10)):
        exact = groups * entropy(binom(size, 0.5).pmf(np.arange(size + 1)), base=2)
        told = told_bits(size * groups, 1, groups)
        assert exact <= told <= 1.01 * exact


def test_labels_that_are_not_fair_coins_have_counts_that_tell_less():
    for rate in (0.02, 0.2, 0.9):
        assert 8 * entropy(binom(50, rate).pmf(np.arange(51)), base=2) <= told_bits(400, 1, 8)


def test_of_further_columns_one_count_follows_from_the_others():
    one = told_bits(1000, 1, 10)
    assert told_bits(1000, 2, 20) == pytest.approx(1.9 * one)


def test_the_share_of_bits_is_a_term_of_the_active():
    labels, request = np.arange(400) % 2, CountRequest(160, 20, 400, 50, bytes(32))
    assert "take fewer woe columns or bins" in refusal(request, "shop", labels, Terms(allowed=True))[0]
    assert refusal(request, "shop", labels, Terms(allowed=True, share=2.0)) is None


def test_words_for_the_passive_fit_a_message_and_tell_no_number_of_labels():
    large = CountRequest(1 << 40, 1 << 40, 1 << 40, 1 << 40, bytes(32))
    labels = (np.arange(400) < 137).astype(int)
    few = (np.arange(400) < 3).astype(int)
    records = InMemory()
    found = [
        refusal(REQUEST, "shop", labels, Terms(allowed=False)),
        refusal(large, "shop", labels, Terms(allowed=True)),
        refusal(REQUEST, "shop", few, Terms(allowed=True)),
        refusal(REQUEST, "shop", labels * 3, Terms(allowed=True)),
        once(REQUEST, "shop", b"", records, Terms(allowed=True, repeats=1)),
        once(REQUEST, "shop", b"", records, Terms(allowed=True, repeats=1)),
        once(large, "shop", b"", records, Terms(allowed=True)),
    ]
    assert [each is None for each in found] == [False] * 4 + [True] + [False] * 2
    for told, own, _ in (each for each in found if each is not None):
        assert len(told) <= 300
        assert own != told
        assert "137" not in told
        assert " 3 " not in told


def test_a_record_belongs_to_one_training():
    records = InMemory()
    once(REQUEST, "shop", b"first", records, Terms(allowed=True))
    (name,) = records.kept
    assert kept(records, b"first", name, Given).times == 1
    assert kept(records, b"second", name, Given) is None
    assert "/" not in name
    assert once(REQUEST, "../shop/\0", b"first", records, Terms(allowed=True)) is None
    assert all(name.startswith("label-counts-") and name.count("/") == 0 for name in records.kept)


def test_trainings_that_begin_anew_in_one_run_do_not_give_counts_without_end():
    """A passive that leaves before the first step begins a training anew, with other groups if it likes."""
    records, terms = InMemory(), Terms(allowed=True, repeats=3)
    for number in range(3):
        asked = CountRequest(10, 2, 400, 50, bytes([number]) * 32)
        assert once(asked, "shop", bytes([number]) * 16, records, terms) is None
    told, own, error = once(REQUEST, "shop", b"another training", records, terms)
    assert error is PeerError
    assert "gives no others: start all parties anew" in told
    assert "tell more each time" in own
    assert once(REQUEST, "shop2", b"another training", records, terms) is None
