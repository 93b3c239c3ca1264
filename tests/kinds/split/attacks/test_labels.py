"""Labels are read from gradients, unless they or the gradients are randomized."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from tacit.kinds.split.attacks.labels import Guard, audit_labels, cosine_scores, follow, norm_scores, score_of
from tacit.kinds.split.label_dp import LabelDP
from tacit.kinds.split.settings import Gradients, LabelProtection
from tacit.kinds.split.tasks.load import make_part
from tests.kinds.split.attacks.split_scenes import settings_u, settings_v

LENGTH, DIRECTION = (f"labels inferred from the {name} of gradients" for name in ("length", "direction"))
CANCER = settings_v("split_cancer")


def audited(*guards, settings=CANCER, **options):
    found = audit_labels(settings, guards or None, **options)
    return {(finding.attack, finding.protection): finding for finding in found}


def label(eps):
    return Guard(LabelProtection(eps=eps))


def noised(epsilon):
    return Guard(gradients=Gradients(protection="noised", clip=0.1, epsilon=epsilon))


def rare(settings, name):
    """Few records of one class."""
    part, labels = make_part(settings, name), make_part(settings, settings.leader).train.labels
    kept = np.concatenate([np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)[:40]])
    return replace(part, train=part.train.take(np.sort(kept)))


def test_labels_are_read_from_plain_gradients_and_bounded_by_label_dp():
    found = audited(label(1.0), label(0.0))
    one, none = found[DIRECTION, str(label(1.0))], found[DIRECTION, str(label(0.0))]
    assert one.off.value > 0.99
    assert one.also[0][0].value > 0.99
    assert 0.3 < one.audited.epsilon <= one.proved.epsilon == 1
    assert one.proved.unit == "label"
    assert one.also[0][1].low < math.e / (1 + math.e)  # the most that epsilon 1 allows
    assert not none.on.informative
    assert not none.also[0][1].informative
    assert none.audited.epsilon == 0
    assert not any(finding.refuted for finding in found.values())


def test_the_rarer_class_has_the_longer_gradients():
    longer = settings_v("split_cancer", train={"epochs": 4, "batch": 16, "learning_rate": 0.003})
    found = audited(label(0.0), settings=longer, make=rare)[LENGTH, str(label(0.0))]
    assert found.off.low > 0.75
    assert not found.also[0][1].informative
    # With labels by lot no label reaches a gradient: what is named right of the true ones, features tell by themselves.
    lot = follow(label(0.0), longer, "east", 1000, rare, coins=True)
    true = follow(label(0.0), longer, "east", 1000, rare, coins=False)
    control = score_of("length", replace(lot, labels=true.labels))
    assert control.low <= found.on.value <= control.high


def test_noise_on_gradients_hides_labels():
    found = audited(noised(1.0))[DIRECTION, str(noised(1.0))]
    assert not found.also[0][1].informative
    assert found.proved.epsilon == pytest.approx(1, abs=1e-6)
    assert (found.proved.unit, found.proved.delta, found.audited.delta) == ("record", 1e-5, 1e-5)


def test_too_little_noise_is_caught(monkeypatch):
    """Sabotage: labels that are said to be randomized and are not."""
    release = LabelDP.release

    def unchanged(self, labels, classes=None, rng=None):
        return replace(release(self, labels, classes, rng), value=labels)

    monkeypatch.setattr(LabelDP, "release", unchanged)
    found = audited(label(0.5))[DIRECTION, str(label(0.5))]
    assert found.refuted
    assert found.on.value > 0.99


def test_several_classes_are_inferred_one_against_all():
    settings = settings_v(label_dp={"eps": 0.0})
    found = audited(settings=settings, records=600)
    assert list(found) == [(DIRECTION, "LabelDP with eps 0")]
    (finding,) = found.values()
    assert finding.off.low > 0.9
    assert not finding.on.informative


def test_scores_say_what_they_should():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    directions = np.eye(3)[labels] + 0.1 * rng.standard_normal((2, 90, 3))
    scores = cosine_scores(directions, [np.flatnonzero(labels == c)[:3] for c in range(3)])
    assert (scores.argmax(axis=1) == labels).all()
    lengths = np.where(labels == 0, 2.0, 1.0)[None, :, None] * rng.choice([-1, 1], (2, 90, 1))
    longer, shorter = np.flatnonzero(labels == 0)[:3], np.flatnonzero(labels != 0)[:3]
    assert set(norm_scores(lengths, [longer, shorter])[labels == 0].argmax(axis=1)) == {0}
    told = norm_scores(lengths, [shorter, longer])  # the other way round: known records say which class is longer
    assert told[labels == 0, 1].min() > told[labels != 0, 1].max()


def test_what_cannot_be_inferred_is_refused():
    with pytest.raises(ValueError, match="topology V"):
        audit_labels(settings_u())
    with pytest.raises(ValueError, match="not a follower"):
        audit_labels(CANCER, follower="north")
    with pytest.raises(ValueError, match="more than 10"):
        audit_labels(settings_v(), records=50)
