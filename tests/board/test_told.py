"""The figures of an event, and where they stand."""

from __future__ import annotations

import math

from tacit.board.told import place
from tacit.events import Answered, EpochFinished, Evaluated, RoundFinished, RunResumed, Stepped


def test_each_epsilon_of_a_round_is_a_figure():
    costs = {"epsilon": 1.5, "evaluation_epsilon": 3.0, "composed_epsilon": 4.25}
    finished = RoundFinished(4, 17, 1, 2.5, 1000, {"accuracy": 0.5, "auc": math.nan}, **costs)
    assert place(finished) == (
        5,
        {
            "accuracy": 0.5,
            "ε of updates": 1.5,
            "ε of inference vectors": 3.0,
            "ε of updates and inference vectors": 4.25,
            "survivors": 17.0,
        },
    )
    assert place(RoundFinished(0, 2, 0, 1.0, 1)) == (1, {"survivors": 2.0})


def test_epochs_steps_and_answers_stand_where_they_happened():
    """Figures of private records are marked: of steps always, as most of them have no epsilon; of epochs if one has."""
    assert place(EpochFinished(1, 1.0, {"auc": 0.75}, {"loss": 2.0}, 1.25, 1e-5)) == (
        2,
        {"auc": 0.75, "loss (not covered by ε)": 2.0, "ε": 1.25},
    )
    assert place(Stepped(1, 5, 10, loss=2.0, epsilon=0.5)) == (1.5, {"loss of steps (not covered by ε)": 2.0, "ε": 0.5})
    assert place(Stepped(1, 5, 10, loss=2.0)) == (1.5, {"loss of steps (not covered by ε)": 2.0})  # between two ε
    assert place(Answered(3, 6, {"Update": 9}, {"updates": math.inf}, {})) == (7, {})
    assert place(Evaluated(4, "SILHOUETTE_SCORE", 0.25, "", 5, 100, 10)) == (5, {"silhouette": 0.25})
    assert place(RunResumed(3, False)) == (3, {})
