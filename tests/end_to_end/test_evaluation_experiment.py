"""The experiment of private evaluation: at epsilon 230260 the score follows the unprotected one, at 1 it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tacit
from tacit.events import Evaluated
from tacit.runs.report import write_report
from tacit.store.directory import read_events

pytestmark = pytest.mark.slow  # three federations, 20 s

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_unsupervised.yaml"
ROUNDS = 12  # of 40


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs that differ only in how inference vectors are protected."""
    folder = tmp_path_factory.mktemp("runs")
    laplace = "encrypt.privacy_eval_type=LAPLACE"
    return {
        name: tacit.run(EXAMPLE, overrides=[f"rounds={ROUNDS}", *overrides], runs=folder)
        for name, overrides in {
            "clear": [],
            "seed": [laplace, "encrypt.laplace_eval.laplace_eval_eps=230260"],
            # Noise alone, and a dozen scores: what they have to do with the loss is left to no chance.
            "one": [laplace, "encrypt.laplace_eval.laplace_eval_eps=1", "simulation.insecure_noise_seed=1"],
        }.items()
    }


def scores(run) -> np.ndarray:
    return np.array([e.score for e in read_events(run.directory / "events.jsonl") if isinstance(e, Evaluated)])


def test_at_epsilon_230260_the_score_follows_within_two_percent(runs):
    clear, seed = scores(runs["clear"]), scores(runs["seed"])
    assert len(clear) == ROUNDS
    assert np.abs(seed / clear - 1).max() < 0.02


def test_at_epsilon_one_it_does_not_and_the_report_says_what_that_means(runs, tmp_path):
    clear, one = scores(runs["clear"]), scores(runs["one"])
    assert np.abs(one[-1] / clear[-1] - 1) > 0.5
    assert one.max() - one.min() < 0.1 * (clear.max() - clear.min())
    page = write_report([runs["clear"].directory, runs["one"].directory], tmp_path / "page.html").read_text()
    assert "the score is one of noise and says nothing about the model" in page


def test_the_score_follows_the_loss(runs):
    # The score of round r is that of the model with which it began, whose loss was measured at the end of round r - 1.
    losses = [event.metrics["loss"] for event in runs["clear"].history][:-1]
    assert stats.spearmanr(losses, scores(runs["clear"])[1:]).statistic < -0.9
    assert abs(stats.spearmanr(losses, scores(runs["one"])[1:]).statistic) < 0.5


def test_training_does_not_depend_on_the_evaluation(runs):
    for name in ("seed", "one"):
        for key, array in runs["clear"].model.items():
            np.testing.assert_array_equal(runs[name].model[key], array)


def test_what_the_vectors_cost(runs):
    (ledger,) = runs["seed"].ledger["ledgers"]
    assert ledger["epsilon"] == ROUNDS * 8 * 230260
    assert [(line["kind"], line["count"]) for line in ledger["lines"]] == [("pure", ROUNDS * 8)]
