"""Activations are inverted where nothing protects them, and not where nothing of them is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from tacit.audit.attacks.decoders import Effort
from tacit.kinds.split.attacks.embeddings import ATTACKS, Inverted, audit_embeddings
from tacit.kinds.split.settings import EmbeddingProtection
from tests.kinds.split.attacks.split_scenes import convolutions_only, settings_v

SMALL = Effort(
    decoder_steps=150, hidden=128, inversion_steps=60, unsplit_rounds=3, unsplit_starts=4, targets=20, records=600
)
KNOWN, COPY, WHITE_BOX, FIRST, UNSPLIT = ATTACKS
LEVELS = [EmbeddingProtection(eps=eps) for eps in (None, 5.0, 0.0)]


@pytest.fixture(scope="module")
def findings():
    found = audit_embeddings(settings_v(), LEVELS, attacks=[KNOWN, COPY, WHITE_BOX, FIRST], effort=SMALL)
    return {(finding.attack.removeprefix("activations inverted by "), finding.protection): finding for finding in found}


def of(findings, attack, words):
    return next(found for (name, protection), found in findings.items() if name == attack.name and words in protection)


@pytest.mark.parametrize("attack", [KNOWN, COPY, WHITE_BOX, FIRST])
def test_unprotected_activations_are_inverted(findings, attack):
    found = of(findings, attack, "without noise")
    assert found.off.value > 0.8 > found.off.baseline + 0.3
    assert found.on.informative
    assert found.proved is None
    assert found.pictures.originals.shape == found.pictures.off.shape == found.pictures.on.shape == (16, 8, 8)


@pytest.mark.parametrize("attack", [KNOWN, COPY, WHITE_BOX, FIRST])
def test_noise_alone_is_not_inverted(findings, attack):
    found = of(findings, attack, "eps 0")
    assert not found.on.informative
    assert found.on.value < found.on.baseline + 0.03
    assert found.proved.epsilon == 0


def test_five_hides_little_of_a_digit_from_a_trained_decoder(findings):
    for attack in (KNOWN, COPY):
        found = of(findings, attack, "eps 5")
        assert found.on.low > 0.6
        assert found.on.value < found.off.value
        assert (found.cost.metric, found.cost.off > 0.8) == ("accuracy", True)


def test_the_price_is_that_of_all_bits_that_cross(findings):
    assert of(findings, KNOWN, "eps 5").proved.epsilon == 3 * 64 * 2.5
    assert of(findings, COPY, "eps 5").proved.epsilon == 64 * 2.5
    assert of(findings, COPY, "eps 5").proved.unit == "record"


@pytest.mark.slow  # 3 s
def test_an_audit_can_be_repeated():
    once, again = (audit_embeddings(settings_v(), LEVELS[1:2], attacks=[FIRST], effort=SMALL)[0] for _ in range(2))
    assert (once.off, once.on) == (again.off, again.on)


@pytest.mark.slow  # 5 s
def test_unsplit_inverts_a_convolution_and_no_layer_that_mixes_all_pixels():
    (convolution,) = audit_embeddings(settings_v(), LEVELS[2:], attacks=[UNSPLIT], effort=SMALL, make=convolutions_only)
    assert convolution.off.value > 0.85 > convolution.off.baseline + 0.3
    assert not convolution.on.informative
    brief = replace(SMALL, unsplit_starts=1, records=200)
    (mixed,) = audit_embeddings(settings_v(), LEVELS[:1], attacks=[UNSPLIT], effort=brief)
    assert not mixed.off.informative


def test_columns_of_a_table_are_scored_by_their_variance():
    settings = settings_v("split_cancer", ("east", "west"), embedding_dp={"eps": 0.0})
    (found,) = audit_embeddings(settings, attacks=[COPY], follower="west", effort=SMALL)
    assert found.off.metric == "part of the variance explained"
    assert found.off.low > 0.7
    assert not found.on.informative
    assert found.pictures is None


def test_the_best_affine_map_is_granted_to_the_guess_as_well():
    rng = np.random.default_rng(0)
    originals, public = rng.random((50, 64)), rng.random((50, 64))
    exact = Inverted(originals, 1 - originals / 2, public, (8, 8), fitted=True)
    assert exact.scores()[0].value == pytest.approx(1)
    nothing = Inverted(originals, rng.random((50, 64)), public, (8, 8), fitted=True)
    assert not nothing.scores()[0].informative
    assert Inverted(originals, 1 - originals / 2, public, (8, 8)).scores()[0].value < 0


def test_what_cannot_be_attacked_is_refused():
    with pytest.raises(ValueError, match="not a follower"):
        audit_embeddings(settings_v(), follower="north")
    with pytest.raises(ValueError, match="topology V"):
        audit_embeddings(settings_v(topology="U", task="text"))
