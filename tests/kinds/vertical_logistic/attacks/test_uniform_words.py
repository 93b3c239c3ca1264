"""Words under masks pass a test of uniformity, and bare ones do not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from tacit.kinds.vertical_logistic.attacks.uniform_words import LEAST, audit_words, guessed_bytes, p_value
from tacit.kinds.vertical_logistic.shared import streams
from tests.kinds.vertical_logistic.attacks.test_on_shares import case_of


def test_uniform_words_pass():
    words = np.random.default_rng(0).bytes(400_000)
    assert p_value(words) > 1e-3
    assert not guessed_bytes(words).informative


def test_the_p_value_is_that_of_scipy_for_one_place():
    rng = np.random.default_rng(1)
    column = rng.binomial(255, 0.5, 5000).astype(np.uint8)
    words = rng.integers(0, 256, (5000, 8)).astype(np.uint8)
    assert p_value(words.tobytes()) > LEAST
    words[:, 3] = column
    assert chisquare(np.bincount(column, minlength=256)).pvalue < LEAST
    assert p_value(words.tobytes()) < LEAST
    assert guessed_bytes(words.tobytes()).informative


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
