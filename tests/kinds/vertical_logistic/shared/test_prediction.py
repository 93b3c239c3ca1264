"""A prediction releases what the terms say of each score, exactly, to the active alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from tacit.channel import Recorder, run_parties
from tacit.errors import PeerError
from tacit.kinds.vertical_logistic.shared import prediction
from tacit.kinds.vertical_logistic.shared.messages import Deal, Opening, Revealed
from tacit.kinds.vertical_logistic.shared.prediction import Releases, deal_predictions, predict
from tacit.randomness import seeded_rng
from tests.kinds.vertical_logistic.shared.trainings import NAMES, PATIENCE

SESSION = bytes(16)


def _releases(parties: int, rows: int, **changes) -> Releases:
    return Releases(NAMES[:parties], "dealer", changes.pop("active", "bank"), rows, SESSION, **changes)


def _predict(parts, weights, intercept, releases, recorders=None, seed=1, other=None):
    recorders = {} if recorders is None else recorders

    def party(name, x, w):
        def play(channels):
            recorders[name] = {peer: Recorder(channel) for peer, channel in channels.items()}
            mine = intercept if name == releases.active else None
            terms = other if other is not None and name == releases.parties[-1] else releases
            return predict(recorders[name], x, w, mine, terms, name)

        return play

    made = {name: party(name, x, w) for name, x, w in zip(releases.parties, parts, weights, strict=True)}
    made["dealer"] = lambda channels: deal_predictions(channels, releases, seeded_rng(seed))
    return run_parties(made, patience=PATIENCE)


def _rows(parties, rows, outputs=1, spread=1.0):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(rows, 3)) for _ in range(parties)]
    weights = [spread * rng.normal(size=(3, outputs)) for _ in range(parties)]
    intercept = rng.normal(size=outputs)
    return parts, weights, intercept, sum(x @ w for x, w in zip(parts, weights, strict=True)) + intercept


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("thresholds", [(0.0,), (-2.5, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0, 3.0, 50.0)])
def test_steps_are_the_thresholds_reached(parties, thresholds):
    parts, weights, intercept, scores = _rows(parties, 300, outputs=2)
    releases = _releases(parties, 300, outputs=2, thresholds=thresholds, active=NAMES[parties - 1])
    found = _predict(parts, weights, intercept, releases)
    expected = (scores[..., None] >= np.array(thresholds)).sum(axis=-1)
    np.testing.assert_array_equal(found[releases.active], expected)
    assert all(found[name] is None for name in releases.parties if name != releases.active)


@pytest.mark.parametrize("spread", [1e-3, 40.0, 1e9])
def test_small_and_huge_scores_are_decided_rightly(spread):
    parts, weights, _, _ = _rows(2, 200, spread=spread)
    parts[1] *= 0  # so that the bound on a part changes no sign
    scores = parts[0] @ weights[0]
    found = _predict(parts, weights, np.zeros(1), _releases(2, 200))["bank"]
    np.testing.assert_array_equal(found, scores >= 0)


@pytest.mark.parametrize("parties", [2, 5])
def test_points_are_rounded_down(parties):
    parts, weights, intercept, scores = _rows(parties, 400)
    releases = _releases(parties, 400, release="points", factor=-28.8539, offset=487.123)
    found = _predict(parts, weights, intercept, releases)["bank"]
    np.testing.assert_array_equal(found, np.floor(-28.8539 * scores + 487.123))


def test_exact_scores_only_if_the_terms_say_so():
    parts, weights, intercept, scores = _rows(3, 100, outputs=2)
    recorders = {}
    releases = _releases(3, 100, outputs=2, release="exact")
    found = _predict(parts, weights, intercept, releases, recorders)
    np.testing.assert_allclose(found["bank"], scores, atol=1e-8)
    one = next(m.words for m in recorders["bank"]["shop"].seen if isinstance(m, Revealed))
    part = np.frombuffer(one, dtype=np.int64) / 2.0**32  # the sum is released, not a party's part of it
    assert np.abs(part - (parts[1] @ weights[1]).reshape(-1)).min() > 1


def test_blocks_make_no_difference(monkeypatch):
    parts, weights, intercept, scores = _rows(2, 100)
    monkeypatch.setattr(prediction, "_BLOCK_WORDS", 5000)
    releases = _releases(2, 100)
    assert len(list(releases.blocks())) > 2
    np.testing.assert_array_equal(_predict(parts, weights, intercept, releases)["bank"], scores >= 0)


def test_a_row_gets_the_same_value_each_time():
    parts, weights, intercept, _ = _rows(3, 200)
    releases = _releases(3, 200, release="points", factor=100.0)
    first, second = (_predict(parts, weights, intercept, releases, seed=seed)["bank"] for seed in (1, 2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("release", ["steps", "points"])
@pytest.mark.parametrize("spread", [0.0, 30.0])
def test_all_openings_are_uniform(release, spread):
    parts, weights, intercept, _ = _rows(3, 600, spread=spread)
    recorders = {}
    releases = _releases(3, 600, release=release)
    _predict(parts, weights, intercept, releases, recorders)
    for name in releases.parties:
        for other, channel in recorders[name].items():
            for message in channel.seen:
                if isinstance(message, Opening | Deal) and len(message.words) > 1000:
                    counts = np.bincount(np.frombuffer(message.words, dtype=np.uint8), minlength=256)
                    assert chisquare(counts).pvalue > 1e-6, (name, other, type(message))
    sums = {}
    for log in (recorders["bank"]["shop"].sent, recorders["bank"]["shop"].seen, recorders["bank"]["phone"].seen):
        for message in log:
            if isinstance(message, Opening):
                words = np.frombuffer(message.words, dtype=np.uint32)
                sums[message.stage] = sums.get(message.stage, np.uint32(0)) + words
    for stage, words in sums.items():
        counts = np.bincount(words.view(np.uint8), minlength=256)
        assert chisquare(counts).pvalue > 1e-6, stage


def test_weights_of_another_training_are_refused():
    parts, weights, intercept, _ = _rows(2, 50)
    releases = _releases(2, 50)
    other = Releases(releases.parties, "dealer", "bank", 50, b"1" * 16)
    with pytest.raises(PeerError, match="other terms"):
        _predict(parts, weights, intercept, releases, other=other)


@pytest.mark.parametrize(
    "changes", [{"thresholds": (1.0, 0.0)}, {"thresholds": ()}, {"thresholds": (5000.0,)}, {"factor": 0.0}, {"rows": 0}]
)
def test_wrong_terms_are_refused(changes):
    with pytest.raises(ValueError, match=r"give|check"):
        _releases(2, changes.pop("rows", 10), **changes)


def test_a_score_at_a_threshold_reaches_it():
    parts = [np.array([[1.0], [2.0], [-1.0]]), np.array([[0.5], [-1.75], [1.5]])]
    weights, intercept = [np.ones((1, 1))] * 2, np.zeros(1)  # scores 1.5, 0.25 and 0.5
    found = _predict(parts, weights, intercept, _releases(2, 3, thresholds=(0.25, 0.5, 1.5)))["bank"]
    assert found.tolist() == [[3], [1], [2]]
    found = _predict(parts, weights, intercept, _releases(2, 3, release="points", factor=4.0))["bank"]
    assert found.tolist() == [[6], [1], [2]]
