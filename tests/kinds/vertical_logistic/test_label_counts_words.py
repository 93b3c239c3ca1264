"""What is said of counts of labels; that the messages are the listed ones is tested beside the protocol."""

import numpy as np

from tacit.boundary import CLEAR
from tacit.kinds.vertical_logistic import label_counts_words as words
from tacit.kinds.vertical_logistic.protocol.label_count_messages import CountRequest
from tacit.kinds.vertical_logistic.protocol.label_count_terms import Terms, refusal


def test_without_a_passive_that_asks_nothing_is_said():
    assert words.label_count_sentences("bank", []) == words.label_counts_open("bank", []) == []
    assert {release.message for release in words.label_count_releases(asked=False)} == {"CountRequest"}


def test_no_label_and_no_count_is_in_the_clear():
    clear = {(r.message, r.field) for r in words.label_count_releases() if r.protection == CLEAR}
    assert clear == {
        ("CountRequest", "groups"),
        ("CountRequest", "columns"),
        ("CountRequest", "rows"),
        ("CountRequest", "least"),
        ("CountsBegin", "refused"),
        ("CountsBegin", "key"),
        ("CountsBegin", "certificate"),
        ("Decrypted", "roots"),
    }


def test_sentences_name_the_parties_and_the_minimum():
    one, two = words.label_count_sentences("bank", ["shop"]), words.label_count_sentences("bank", ["shop", "garage"])
    assert one[0].startswith("shop sees how many labels of bank are positive")
    assert "50 rows or more, and 5 of either class" in one[0]
    assert two[0].startswith("Each of shop, garage sees")
    assert any("no epsilon" in text for text in words.label_counts_open("bank", ["shop"]))


def test_the_plan_says_bytes_and_time():
    (text,) = words.label_count_costs("bank", "shop", 24_000, 20, 200, 3072)
    assert "24,000 labels" in text
    assert "200 groups of 20 woe columns" in text
    assert "about 19,0" in text
    own, theirs = words.label_count_seconds(24_000, 20, 200, 3072)
    assert 10 < own < 30
    assert 8 < theirs < 30
    smaller = words.label_count_seconds(24_000, 20, 200, 2048)
    assert smaller[0] < own
    assert smaller[1] < theirs
    (long,) = words.label_count_costs("bank", "shop", 1_000_000, 20, 200, 3072)
    assert "minutes" in long


def test_the_plan_warns_of_exactly_what_the_active_refuses_for_its_sizes():
    for columns, groups, rows in ((20, 160, 400), (2, 16, 400), (10, 100, 1000), (30, 300, 600)):
        labels = np.arange(rows) % 2
        request = CountRequest(groups, columns, rows, 10, bytes(32))
        refused = refusal(request, "shop", labels, Terms(allowed=True, least=10)) is not None
        assert bool(words.label_count_warnings("bank", "shop", rows, columns, groups)) == refused
