"""The cloud reads a text whose codes or gradients cross, and nothing where bits are noise and gradients are noised."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tacit.kinds.split.attacks.tokens import audit_tokens
from tacit.kinds.split.settings import EmbeddingProtection
from tests.kinds.split.attacks.split_scenes import settings_u, settings_v

RECORDS = 250
CODE, TEXT, BACK = (
    f"tokens recovered by {name}"
    for name in ("nearest code, first embedding", "nearest code, known text", "gradients that cross back")
)


def audited(eps, **changes):
    found = audit_tokens(settings_u(**changes), [EmbeddingProtection(eps=eps)], records=RECORDS)
    return {finding.attack: finding for finding in found}


def test_an_unprotected_text_is_read():
    found = audited(None)
    assert found[CODE].off.value == found[CODE].on.value == 1
    assert found[CODE].proved is None
    for attack in (TEXT, BACK):
        assert found[attack].off.low > 0.8 > found[attack].off.baseline + 0.2


def test_five_hides_nothing_of_a_token_and_one_hides_some():
    five, one = audited(5.0), audited(1.0)
    assert five[CODE].on.low > 0.98
    assert five[CODE].proved.epsilon == 2 * 16 * 48 * 2.5
    assert one[CODE].on.value < five[CODE].on.value
    assert one[TEXT].on.informative


def test_noise_tells_nothing_but_gradients_do():
    found = audited(0.0)
    for attack in (CODE, TEXT):
        assert not found[attack].on.informative
        assert found[attack].proved.epsilon == 0
    assert found[BACK].on.low > 0.8
    assert found[BACK].proved is None


def test_noised_gradients_tell_little():
    found = audited(0.0, gradients={"protection": "noised", "clip": 0.1, "epsilon": 1.0})
    assert found[BACK].off.low > 0.8
    assert not found[BACK].on.informative
    assert found[BACK].proved.epsilon == pytest.approx(1, abs=1e-6)
    assert "gradients noised" in found[BACK].protection


def test_an_audit_can_be_repeated():
    once, again = (audited(1.0) for _ in range(2))
    assert [(f.off, f.on) for f in once.values()] == [(f.off, f.on) for f in again.values()]


def test_what_is_no_text_is_refused():
    with pytest.raises(ValueError, match="topology U"):
        audit_tokens(settings_v())
