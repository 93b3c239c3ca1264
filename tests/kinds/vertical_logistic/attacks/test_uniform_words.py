"""Words under masks pass a test of uniformity, and bare ones do not."""

from __future__ import annotations

import pytest

from tacit.kinds.vertical_logistic.attacks.uniform_words import audit_words
from tacit.kinds.vertical_logistic.shared import streams
from tests.kinds.vertical_logistic.attacks.test_on_shares import case_of


@pytest.mark.parametrize("passives", [1, 2])
def test_words_that_parties_receive_are_uniform(passives):
    case = case_of(passives, "categories", 120)
    finding = audit_words(case.record(), case.tables)
    assert finding.watched == passives + 2
    assert not finding.broken
    assert finding.off.informative
    assert not finding.on.informative


def test_a_mask_that_is_missing_is_named(monkeypatch):
    cut = streams._cut

    def bare(words, shapes):
        parts = cut(words, shapes)
        if "u" in parts:
            parts["u"][...] = 0
        return parts

    monkeypatch.setattr(streams, "_cut", bare)
    case = case_of(1, "categories", 120)
    finding = audit_words(case.record(), case.tables)
    assert any("are not uniform" in text for text in finding.broken)
