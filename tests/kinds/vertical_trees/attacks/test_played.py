"""Words that a passive receives pass a test of uniformity; words of leaves that are missing do not."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.kinds.vertical_trees.attacks.played import audit_wire, audit_words, short
from tacit.kinds.vertical_trees.protocol import shares
from tests.kinds.vertical_trees.attacks.test_audit_steps import case


@pytest.mark.parametrize("hidden", [False, True])
def test_words_that_a_passive_receives_are_uniform(hidden):
    finding = audit_words(short(case(hidden=hidden), 200, 4))
    assert not finding.broken
    assert not finding.on.informative
    assert finding.off.informative


def test_words_without_those_of_leaves_are_named(monkeypatch):
    parts = shares.Words.parts
    none = lambda words, value: ((part, np.zeros_like(own)) for part, own in parts(words, value))  # noqa: E731
    monkeypatch.setattr(shares.Words, "parts", none)
    finding = audit_words(short(case(), 200, 4))
    assert any("are not uniform" in text for text in finding.broken)
    assert finding.on.informative


def test_messages_are_read_off_a_wire_without_tls_only():
    finding = audit_wire(short(case(), 60, 1))
    assert finding.off.value == 1
    assert finding.on.value == 0
