from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.events import Kept, RoundFinished, StoppedEarly
from tacit.kinds.horizontal.settings import Settings, Stop
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.stopping import Stopping
from tacit.kinds.horizontal.task import Fitted
from tacit.store.directory import read_events
from tacit.store.party_folder import Store
from tests.kinds.horizontal.federations import Numbers, run, settings_for
from tests.net.loopback import Federation, quickly, whole

MODULE = "tests.kinds.horizontal.test_stopping:make_task"
VALUES = [0.3, 0.5, 0.6, 0.55, 0.601, 0.4, 0.2, 0.9, 0.9, 0.9]


class Scripted:
    """The model counts the rounds; the coordinator's evaluation follows a script."""

    def __init__(self, values=VALUES, name="accuracy"):
        self._values, self._name = values, name

    def model(self):
        return {"weights": np.zeros(3)}

    def fit(self, client, model, work):
        return Fitted({"weights": model["weights"] + 1.0}, 5)

    def evaluate(self, model):
        return {self._name: self._values[int(np.clip(round(float(model["weights"][0])) - 1, 0, 9))]}


def make_task(clients, seed, falling=False, **options):
    return Falling() if falling else Scripted(**options)


def stopping(**stop) -> Settings:
    return settings_for(task=MODULE, clients=4, rounds=10, stop={"metric": "accuracy", "patience": 2} | stop)


def rounds_and_model(settings, task=None):
    engine, kept = run(settings, task)
    done = [event for event in kept.events if isinstance(event, RoundFinished)]
    return len(done), float(engine.coordinator.model["weights"][0]), kept


@pytest.mark.parametrize(
    ("stop", "rounds", "best"),
    [
        ({"patience": 1}, 4, 3),  # 0.55 is no improvement
        ({"patience": 2}, 7, 5),
        ({"patience": 2, "minimum_improvement": 0.01}, 5, 3),  # 0.601 improves 0.6 too little
        ({"patience": 4}, 10, 8),  # all rounds are done, and the model is still the best one
        ({"patience": 2, "goal": "min"}, 3, 1),
    ],
)
def test_a_run_ends_after_so_many_rounds_without_improvement_with_the_best_model(stop, rounds, best):
    done, model, kept = rounds_and_model(stopping(**stop))
    assert (done, model) == (rounds, best)
    told = [event for event in kept.events if isinstance(event, StoppedEarly)]
    assert len(told) == (rounds < 10)
    for event in told:
        assert (event.round, event.best_round, event.best) == (rounds - 1, best - 1, VALUES[best - 1])
        assert f"the model is that of round {best}, with accuracy {VALUES[best - 1]:.4g}" in event.reason


def test_losses_are_better_if_lower_and_numbers_that_are_none_improve_nothing():
    assert not Stop(metric="test_loss", patience=1).upwards
    assert not Stop(metric="Perplexity", patience=1).upwards
    assert Stop(metric="auc", patience=1).upwards
    assert Stop(metric="loss", patience=1, goal="max").upwards
    watched = Stopping(Stop(metric="loss", patience=3))
    for number, value in enumerate([2.0, float("nan"), 1.0, float("-inf"), 3.0]):
        watched.look(number, {"loss": value}, np.full(2, number, float))
    assert watched.best is not None
    assert (watched.best.round, watched.waited, watched.due) == (2, 2, False)


def test_the_end_is_that_of_a_finished_run_and_the_page_says_why(tmp_path):
    found = tacit.run(stopping().model_dump(), runs=tmp_path)
    assert found.status == "done"
    assert found.text == "accuracy has not improved for 2 rounds: the model is that of round 5, with accuracy 0.601"
    assert found.model["weights"].tolist() == [5, 5, 5]
    page = (found.directory / "report.html").read_text()
    assert "The run ended early" in page
    assert "the model is that of round 5" in page
    again = tacit.run(resume=found.directory)
    assert again.status == "done"
    assert again.model["weights"].tolist() == [5, 5, 5]
    assert (
        len([event for event in read_events(found.directory / "events.jsonl") if isinstance(event, RoundFinished)]) == 7
    )


@pytest.mark.parametrize("rounds", [1, 4, 5, 6])
def test_a_run_that_is_stopped_by_hand_and_resumed_ends_where_another_does(rounds):
    expected, _ = run(stopping())
    stored = []

    def store(coordinator):
        if coordinator.round == rounds and not stored:
            stored.append((coordinator.state(), {name: array.copy() for name, array in coordinator.model.items()}))

    MemoryEngine(stopping(), Scripted(), Kept()).run(store)
    resumed = MemoryEngine(stopping(), Scripted(), Kept())
    resumed.restore(*stored[0])
    resumed.run()
    assert resumed.coordinator.stopped_early == expected.coordinator.stopped_early != ""
    assert resumed.coordinator.round == expected.coordinator.round
    assert resumed.coordinator.model["weights"].tolist() == [5, 5, 5]


def test_a_run_whose_rounds_are_done_trains_on_from_its_best_model(tmp_path):
    short = tacit.run(stopping().model_dump() | {"rounds": 4}, runs=tmp_path)
    assert short.model["weights"].tolist() == [3, 3, 3]
    longer = tacit.run(resume=short.directory, overrides=["rounds=5"])
    assert longer.history[-1].metrics == {"accuracy": 0.55}  # of a model that counts to 4 again


def test_a_state_that_cannot_be_is_refused():
    watched = Stopping(Stop(metric="accuracy", patience=2))
    watched.look(0, {"accuracy": 0.5}, np.zeros(3))
    good = watched.state()
    for change in ({"waited": -1}, {"best": np.zeros(2)}, {"best": np.full(3, np.nan)}, {"best_value": None}):
        with pytest.raises(ValueError, match="the stored state cannot be"):
            Stopping(Stop(metric="accuracy", patience=2)).restore(good | change, 3)


def test_a_metric_that_is_not_returned_is_refused_before_the_first_round(tmp_path):
    with pytest.raises(
        ValueError, match=r"stop\.metric is 'auc', which the task's evaluate\(\) does not return: there is accuracy"
    ):
        tacit.run(stopping(metric="auc").model_dump(), runs=tmp_path)
    with pytest.raises(ValueError, match="as the task has no evaluate"):
        MemoryEngine(stopping(), Numbers(), Kept()).coordinator.check_stop()


def test_an_audit_plays_its_own_task_without_the_metric():
    _, kept = run(stopping(), Numbers())
    assert len([event for event in kept.events if isinstance(event, RoundFinished)]) == 10


def test_over_a_network_the_run_ends_likewise_and_clients_hear_why():
    found = Federation(stopping(), Scripted())
    partings = quickly(whole(found))
    assert {(parting.status, parting.reason) for parting in partings.values()} == {
        ("done", "accuracy has not improved for 2 rounds: the model is that of round 5, with accuracy 0.601")
    }
    assert found.coordinator.model["weights"].tolist() == [5, 5, 5]


def test_less_is_spent_by_a_run_that_ends_earlier():
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_encrypt": {"dp_eps": 1.0}}
    flat = {"task_options": {"values": [0.5] * 10}}
    early, _ = run(stopping().model_copy(update=flat | {"encrypt": settings_for(encrypt=encrypt).encrypt}))
    late, _ = run(settings_for(task=MODULE, clients=4, rounds=10, encrypt=encrypt, **flat))
    three, _ = run(settings_for(task=MODULE, clients=4, rounds=3, encrypt=encrypt, **flat))
    assert early.coordinator.round == 3
    (spent,), (same,), (more,) = (each.coordinator.spent() for each in (early, three, late))
    assert spent.epsilon == same.epsilon < more.epsilon


class Falling(Scripted):
    """Best after its first round; the first evaluation of all is that of the initial model."""

    looks = 0

    def evaluate(self, model):
        self.looks += 1
        return {"accuracy": 0.9 if self.looks == 2 else 0.2}


def test_a_run_that_ends_by_its_budget_ends_with_the_best_model_too(tmp_path):
    settings = settings_for(
        task=MODULE,
        task_options={"falling": True},
        clients=3,
        rounds=9,
        encrypt={"encrypt_type": "DP_ENCRYPT", "dp_encrypt": {"dp_eps": 1.0}},
        budget={"epsilon": 2.5},
        stop={"metric": "accuracy", "patience": 9},
    )
    found = tacit.run(settings.model_dump(), runs=tmp_path)
    assert found.status == "budget reached"
    assert len(found.history) > 1
    stored = Store(found.directory)
    np.testing.assert_array_equal(stored.model()["weights"], found.model["weights"])
    np.testing.assert_array_equal(stored.state(stored.numbers()[-1])["best"], found.model["weights"])


def test_files_without_the_key_have_the_fingerprint_of_earlier_releases():
    assert "stop" not in settings_for().model_dump()
    assert stopping().model_dump()["stop"]["patience"] == 2
    assert any("may end before its 10 rounds" in note for note in stopping().notes())
