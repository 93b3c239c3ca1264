"""How far a party is, by what it told."""

from __future__ import annotations

import math

from tacit.events import (
    Answered,
    EpochFinished,
    Paused,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunResumed,
    RunStarted,
    Stepped,
    TrainingResumed,
    TrainingStarted,
    Unpaused,
)
from tacit.operations.standing import STATES, Status

BEGUN = RunStarted("fleet", "horizontal", 20, 30, "DP_ENCRYPT", 650)
FINISHED = RoundFinished(4, 17, 1, 2.5, 1000, epsilon=1.5, delta=1e-5, evaluation_epsilon=3.0)


def after(*events):
    status = Status(clock=lambda: 77.0)
    for event in events:
        status.emit(event)
    return status.standing


def test_rounds_count_from_1_and_costs_are_the_last_word():
    standing = after(BEGUN, RoundStarted(4, 20), FINISHED)
    assert (standing.state, standing.round, standing.rounds, standing.succeeded_at) == ("running", 5, 30, 77.0)
    assert standing.epsilons == {"updates": 1.5, "inference vectors": 3.0}
    assert standing.deltas == {"updates": 1e-5, "inference vectors": 0.0}
    both = RoundFinished(5, 17, 1, 2.5, 1, epsilon=2.0, delta=1e-5, composed_epsilon=4.25, composed_delta=1e-6)
    assert after(BEGUN, FINISHED, both).epsilons == {"updates": 2.0, "updates and inference vectors": 4.25}
    assert after(BEGUN, FINISHED, RoundFinished(5, 1, 0, 1.0, 1)).epsilons == {}


def test_what_is_left_of_a_budget_never_falls_below_nothing():
    standing = after(BEGUN, FINISHED)
    assert standing.left(None) == {}
    assert standing.left(2.0) == {"updates": 0.5, "inference vectors": 0.0}
    endless = after(RoundFinished(0, 1, 0, 1.0, 1, epsilon=math.inf, delta=0.0))
    assert endless.left(2.0) == {"updates": 0.0}


def test_a_training_in_epochs():
    begun = TrainingStarted("deal", "vertical_logistic", 2, 20, 8, "masked", 31)
    standing = after(begun, Stepped(2, 5, 8, loss=0.5, epsilon=0.25))
    assert (standing.epoch, standing.epochs, standing.step, standing.steps) == (3, 20, 5, 8)
    assert (standing.round, standing.epsilons) == (None, {"training": 0.25})
    standing = after(begun, TrainingResumed(2, 3))
    assert (standing.epoch, standing.step, standing.succeeded_at) == (3, 3, None)
    standing = after(begun, Stepped(2, 8, 8), EpochFinished(2, 1.0, epsilon=0.5, delta=1e-5))
    assert (standing.epsilons, standing.deltas) == ({"training": 0.5}, {"training": 1e-5})


def test_of_several_clients_in_one_process_the_one_that_paid_most():
    answers = [Answered(client, 6, {"Update": 9}, {"updates": 2.0 + client}, {"updates": 1e-5}) for client in (1, 0)]
    standing = after(BEGUN, *answers)
    assert (standing.round, standing.epsilons, standing.deltas) == (7, {"updates": 3.0}, {"updates": 1e-5})


def test_the_state():
    assert after().state == "starting"
    assert after(BEGUN, Paused("words")).state == "paused"
    assert after(BEGUN, Paused("words"), Unpaused(1.0)).state == "running"
    for ending in ("done", "budget reached", "stopped", "failed"):
        assert after(BEGUN, RunFinished(ending, 1, 1.0)).state == ending
        assert ending in STATES


def test_what_earlier_processes_told_is_remembered_and_their_end_is_not():
    status = Status(clock=lambda: 77.0)
    status.replay([(10.0, BEGUN), (11.0, FINISHED), (12.0, RunFinished("stopped", 5, 1.0))])
    assert (status.standing.state, status.standing.succeeded_at) == ("starting", 11.0)
    assert status.standing.epsilons["updates"] == 1.5
    status.emit(RunResumed(5, True))
    assert status.standing.round == 5
