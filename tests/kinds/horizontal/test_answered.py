"""The same client in nearly the same sum: a coordinator without colluders subtracts, and clients limit what it gets."""

from __future__ import annotations

from contextlib import suppress
from itertools import cycle, islice, product, repeat

import numpy as np
import pytest

from tacit.errors import Declined, Unfit
from tacit.events import ClientRefused, Kept, RoundAborted
from tacit.kinds.horizontal import boundary
from tacit.kinds.horizontal.answered import Answered, check_answers, check_state
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.forecast import plan
from tacit.kinds.horizontal.frames import to_coordinator
from tacit.kinds.horizontal.messages import Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.protections.contract import UnusableUpdate
from tacit.kinds.horizontal.sampling import sample
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.simulate.ray_worker import Head, Worker
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.messages import Abort
from tests.kinds.horizontal.federations import Failing, Numbers, finished, run, settings_for
from tests.kinds.horizontal.hostile import OPENING, Hostile

MODES = ["active", "semi_honest"]
CLIENTS = 12
MODEL = np.full(50, 0.25)


def masked(mode: str = "semi_honest", clients: int = CLIENTS, encrypt_type: str = "PW_ENCRYPT", **keys) -> Settings:
    masks = {"mode": mode, "bound": 64.0}
    return settings_for(
        clients=clients, rounds=30, encrypt={"encrypt_type": encrypt_type, "pw_encrypt": masks}, round=keys
    )


def moved():
    """Models that differ from each other by one unit in the last place of one number."""
    model = MODEL
    while True:
        model = model.copy()
        model[0] = np.nextafter(model[0], 1.0)
        yield model


# --- the same model again


@pytest.mark.parametrize("mode", MODES)
def test_without_the_limit_every_update_and_sample_count_is_recovered(mode):
    """The control: the attack works on clients that repeat as often as they are asked."""
    errors = Hostile(masked(mode, repeats=100)).recovered(repeat(MODEL))
    assert len(errors) == CLIENTS
    assert max(errors.values()) < 1e-6


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("repeats", [0, 1, 2])
def test_a_repeated_model_gives_one_difference_a_repeat(mode, restarts, repeats):
    hostile = Hostile(masked(mode, repeats=repeats), restarts=restarts)
    assert len(hostile.recovered(repeat(MODEL))) == repeats
    assert "uploaded for this very model before" in hostile.reasons[7]
    assert f"at most {repeats} times in a run (round.repeats)" in hostile.reasons[7]
    assert set(hostile.reasons) == set(range(CLIENTS))
    assert hostile.sent == ["Abort"] * CLIENTS
    assert hostile.open(MODEL + 1.0) is not None  # they are still there for a model that is new
    assert hostile.reasons == {}


def test_two_models_in_turns_share_the_repeats():
    hostile = Hostile(masked(repeats=2), restarts=True)
    opened = [hostile.open(model) is not None for model in islice(cycle([MODEL, MODEL + 1.0]), 8)]
    assert opened == [True, True, True, True, False, False, False, False]
    hostile = Hostile(masked(repeats=2), restarts=True)
    assert len(hostile.recovered(cycle([MODEL, MODEL + 1.0]))) == 2
    assert len(Hostile(masked(repeats=100)).recovered(cycle([MODEL, MODEL + 1.0]))) == CLIENTS


def test_the_sign_of_a_zero_does_not_make_a_model_new():
    hostile = Hostile(masked(repeats=0))
    zero = np.zeros(50)
    assert hostile.open(zero) is not None
    assert hostile.open(-zero) is None


def test_only_what_was_uploaded_counts():
    """A round that ends before its uploads costs no repeat."""
    hostile = Hostile(masked(repeats=0))
    for number in range(5):
        for client in hostile.clients.values():
            assert [type(answer).__name__ for answer in client.receive(_work(number), 0.0)] == ["Advertise"]
    hostile.number = 5
    assert hostile.open(MODEL) is not None
    assert hostile.open(MODEL) is None


def _work(number):
    return Work(number, MODEL)


def test_a_client_that_declined_passes_over_the_rest_of_that_round():
    hostile = Hostile(masked(repeats=0))
    hostile.open(MODEL)
    client = hostile.clients[3]
    (answer,) = client.receive(_work(1), 0.0)
    assert isinstance(answer, Abort)
    assert client.receive(Abort("the round is over"), 0.0) == []
    assert client.receive(answer, 0.0) == []


@pytest.mark.parametrize("encrypt_type", ["DP_ENCRYPT", "DDP_ENCRYPT"])
def test_with_noise_repeats_are_paid_for_and_not_counted(encrypt_type):
    settings = masked(encrypt_type=encrypt_type, clients=8, repeats=0)
    answered = Answered(settings)
    layout = Layout.of(Numbers(50).model())
    for _ in range(5):
        answered.begin(layout, MODEL)
        answered.uploads()
    assert answered.state() == {"models": [], "repeats": 0, "opened": []}


def test_a_model_moved_by_one_unit_in_the_last_place_is_not_stopped():
    """What is not closed, and is said so: only noise answers it."""
    errors = Hostile(masked(repeats=0), restarts=True).recovered(moved())
    assert len(errors) == CLIENTS
    assert max(errors.values()) < 1e-6
    told = " ".join(boundary.unprotected(masked()))
    assert "moves the model a little each round" in told
    assert "DDP_ENCRYPT" in told


# --- lists of survivors that hardly differ


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("restarts", [False, True])
def test_with_least_difference_a_moved_model_gives_no_difference(mode, restarts):
    hostile = Hostile(masked(mode, least_difference=3), restarts=restarts)
    assert hostile.recovered(moved()) == {}
    assert "differ by 1, and round.least_difference asks for 3" in hostile.reasons[7]
    assert not OPENING & set(hostile.sent)  # nobody signed, nobody revealed


@pytest.mark.parametrize("mode", MODES)
def test_lists_that_are_the_same_or_differ_enough_are_opened(mode):
    hostile = Hostile(masked(mode, least_difference=3), restarts=True)
    models = moved()
    outcomes = {}
    for without in [(), (), (4,), (4, 5), (4, 5, 6), (4, 5, 6), (4, 5), (7, 8, 9), (7, 8, 9, 10), (5, 6, 7)]:
        outcomes.setdefault(without, []).append(hostile.open(next(models), set(without)) is not None)
    assert outcomes == {
        (): [True, True],
        (4,): [False],
        (4, 5): [False, False],
        (4, 5, 6): [True, True],
        (7, 8, 9): [True],
        (7, 8, 9, 10): [False],
        (5, 6, 7): [False],  # two clients make the difference to (4, 5, 6)
    }


def test_a_list_that_was_signed_counts_as_opened():
    """Others may have opened it with that signature."""
    hostile = Hostile(masked("active", least_difference=2))
    models = moved()
    receive = {i: client.receive for i, client in hostile.clients.items()}

    def deaf(identity):
        def listen(message, now):
            return [] if type(message).__name__ == "Agreements" else receive[identity](message, now)

        return listen

    for identity, client in hostile.clients.items():
        client.receive = deaf(identity)
    assert hostile.open(next(models)) is None
    for identity, client in hostile.clients.items():
        client.receive = receive[identity]
    assert hostile.open(next(models), {4}) is None
    assert "least_difference asks for 2" in hostile.reasons[7]


@pytest.mark.parametrize("asked", [9, 10, 11])
def test_no_two_near_lists_are_opened_by_different_clients(asked):
    """Of 16 clients 9 could agree, and 9 others on another list over nearly the same: nobody would see both lists."""
    hostile = Hostile(masked("active", 20, least_difference=5))
    models, clients = moved(), set(range(20))
    lists = [[14, 15, *range(14)], [16, 17, *reversed(range(14))]]  # four clients are in one of them alone
    opened = [
        hostile.open(next(models), absent=clients - set(survivors), asked=survivors[:asked]) for survivors in lists
    ]
    assert opened[1] is None
    assert (opened[0] is None) == (asked < 11)  # the threshold of all 20, though 16 came
    if opened[0] is not None:
        assert any("least_difference asks for 5" in reason for reason in hostile.reasons.values())


@pytest.mark.parametrize(
    ("keys", "threshold"),
    [
        ({"clients": 20, "least_difference": 2}, 11),
        ({"clients": 100, "start_fl_job_threshold": 20, "least_difference": 2}, 11),
        ({"clients": 100, "start_fl_job_threshold": 20, "least_difference": 9}, 13),  # of 24 in two lists together
        ({"clients": 100, "start_fl_job_threshold": 21, "least_difference": 9}, 14),
        ({"clients": 22, "start_fl_job_threshold": 20, "least_difference": 9}, 12),  # of 22: there are no more
        ({"clients": 4, "least_difference": 3}, 3),
        ({"clients": 3, "least_difference": 3}, 3),
    ],
)
def test_enough_must_agree_that_one_honest_client_sees_both_of_two_near_lists(keys, threshold):
    settings = masked("active", **keys)
    secure = settings.secure(columns=1, modulus_bits=64)
    sizes = range(secure.sharing, secure.clients + 1)
    assert max(secure.topology(n).threshold for n in sizes) == threshold
    for one, two in product(sizes, repeat=2):  # lists of all that came
        both = min((one + two + settings.round.least_difference - 1) // 2, settings.clients)
        if abs(one - two) < settings.round.least_difference:
            assert secure.topology(one).threshold + secure.topology(two).threshold - both > settings.colluders


def test_several_sums_that_differ_enough_are_solved_for_one_client():
    """What least_difference does not close, and is said so: each pair of three is left out once."""
    hostile = Hostile(masked(least_difference=2))
    models = moved()
    total, one, two, three = (hostile.open(next(models), without) for without in (set(), {4, 5}, {5, 6}, {4, 6}))
    found = ((total[0] - one[0]) + (total[0] - three[0]) - (total[0] - two[0])) / 2  # 4 + 5, 4 + 6, 5 + 6
    truth = hostile.task.update(4, MODEL) * hostile.task.samples(4)
    assert np.linalg.norm(found - truth) < 1e-6 * np.linalg.norm(truth)
    assert "solved for one client" in " ".join(boundary.unprotected(hostile.settings))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"round": {"least_difference": 3}}, "without masks there is no list"),
        (
            {"clients": 200, "encrypt": {"encrypt_type": "PW_ENCRYPT"}, "round": {"least_difference": 3}},
            "a client knows only its neighbours",
        ),
        ({"encrypt": {"encrypt_type": "PW_ENCRYPT"}, "round": {"least_difference": 1}}, "greater than or equal to 2"),
        (
            {
                "clients": 5,
                "encrypt": {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"mode": "active"}},
                "round": {"least_difference": 3},
            },
            "for which 4 clients must agree on each list of survivors, and a round proceeds with 4 of 5",
        ),
        ({"round": {"repeats": True}}, "valid integer"),
        ({"round": {"repeats": -1}}, "greater than or equal to 0"),
        ({"round": {"repeats": 1.0}}, "valid integer"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(keys, words):
    with pytest.raises(ValueError, match=words):
        settings_for(**keys)


# --- a coordinator that is honest


def failing(**keys) -> Settings:
    encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"bound": 64.0}}
    return settings_for(clients=12, rounds=6, encrypt=encrypt, round={"update_model_ratio": 1.0, **keys})


def test_aborted_rounds_are_repeated_as_often_as_the_file_says():
    engine, kept = run(failing(), Failing({0, 1}))
    assert [event.round for event in finished(kept)] == [2, 3, 4, 5]
    assert engine.coordinator.attempts == 6


def test_a_run_ends_with_a_remedy_if_too_few_clients_repeat():
    settings, kept = failing(), Kept()
    engine = MemoryEngine(settings, Failing({1, 2, 3}), kept)
    with pytest.raises(Unfit, match=r"11 clients declined .* \(round.repeats is 2\): 1 are left, and a round needs 12"):
        engine.run()
    aborted = [event.round for event in kept.events if isinstance(event, RoundAborted)]
    assert aborted == [1, 2, 3, 4]
    refused = [event for event in kept.events if isinstance(event, ClientRefused) and event.round == 4]
    assert len(refused) == 11
    assert all("uploaded for this very model before" in event.reason for event in refused)
    resumed = MemoryEngine(failing(repeats=3), Failing({1, 2, 3}), kept)
    resumed.restore(engine.coordinator.state(), engine.coordinator.model)
    resumed.run()
    assert [event.round for event in finished(kept)] == [0, 5]


@pytest.mark.parametrize("stop_after", range(1, 5))
def test_a_resumed_simulation_knows_what_its_clients_answered(stop_after):
    """Stopped between two rounds, at each of them in turn: the same rounds finish, abort and are declined."""
    settings, task = failing(repeats=1), Failing({1, 3})

    def outcome(stop):
        kept, states = Kept(), []

        def store(coordinator):
            states.append((coordinator.state(), coordinator.model))
            if len(states) == 2 * stop:
                raise KeyboardInterrupt

        with suppress(Unfit):
            try:
                MemoryEngine(settings, task, kept).run(store)
            except KeyboardInterrupt:
                second = MemoryEngine(settings, task, kept)
                second.restore(*states[-1])
                second.run()
        return [(type(e).__name__, e.round) for e in kept.events if isinstance(e, ClientRefused | RoundAborted)]

    whole = outcome(10**6)
    assert [number for name, number in whole if name == "RoundAborted"] == [1, 3, 4]
    assert outcome(stop_after) == whole


def test_a_round_that_was_under_way_counts_as_answered():
    settings, task = failing(repeats=0), Failing(set())
    engine = MemoryEngine(settings, task, Kept())
    engine.coordinator.begin(0.0)
    state = engine.coordinator.state()
    check_answers(state, settings)
    kept = Kept()
    engine = MemoryEngine(settings, task, kept)
    engine.restore(state, task.model())
    with pytest.raises(Unfit, match="12 clients declined"):
        engine.run()
    assert not finished(kept)


def test_clients_that_declined_are_not_asked_before_the_model_moved():
    """Four of twelve are sampled; those of an aborted round decline, and others take their place."""
    encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"bound": 64.0}}
    few = {"start_fl_job_threshold": 4, "update_model_ratio": 1.0, "repeats": 0}
    settings = settings_for(clients=12, rounds=12, encrypt=encrypt, round=few, seed=1)

    class First(Numbers):
        """One of the first round sends nothing, and all are needed."""

        def fit(self, client, model, work):
            if work.round == 0 and client == min(sampled[0]):
                raise UnusableUpdate("its update is too large")
            return super().fit(client, model, work)

    sampled = [sample(settings, number) for number in range(2)]
    assert set(sampled[0][1:]) & set(sampled[1])
    _, kept = run(settings, First())
    refused = [event for event in kept.events if isinstance(event, ClientRefused)]
    again = {event.client for event in refused if "very model before" in event.reason}
    assert again
    done = [event.round for event in finished(kept)]
    assert done[-1] == 11
    assert done == list(range(done[0], 12))
    assert all(event.round < done[0] for event in refused)


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "PW_ENCRYPT"])
def test_the_words_of_a_client_that_leaves_are_fit_for_a_log(encrypt_type):
    kept = Kept()
    settings = settings_for(clients=4, rounds=1, encrypt={"encrypt_type": encrypt_type})
    coordinator = Coordinator(settings, Numbers().model(), kept, lambda: 0.0)
    coordinator.receive(1, Abort("before a round"), 0.0)
    coordinator.begin(0.0)
    for _ in range(3):
        coordinator.receive(1, Abort("\x1b[2Jit\nleft"), 0.0)
        coordinator.receive(9, Abort("a stranger"), 0.0)
    assert [(e.client, e.reason) for e in kept.events if isinstance(e, ClientRefused)] == [(1, " [2Jit left")]


def test_a_worker_of_a_cluster_makes_clients_that_decline():
    settings, task = failing(repeats=0), Failing(set())
    coordinator = Coordinator(settings, task.model(), Kept(), lambda: 0.0)
    coordinator.begin(0.0)
    state = coordinator.state()
    coordinator = Coordinator(settings, task.model(), Kept(), lambda: 0.0)
    coordinator.restore(state, task.model())
    (_, work), *_ = coordinator.begin(0.0)
    worker = Worker.__new__(Worker)
    worker._settings, worker._prepared = settings, Prepared.of(settings, task)
    worker._layout, worker._keys, worker._identities = worker._prepared.layout, {}, None
    report = worker.start(Head(work.round, None), coordinator.answered([0, 1, 2]), work.model)
    answers = [to_coordinator(frame, worker._layout, None, 1000) for _, (frame,) in report.frames]
    assert len(answers) == 3
    assert all("very model before" in answer.reason for answer in answers)


# --- what is told


def test_the_plan_tells_what_repeats_cost_and_recommends_least_difference():
    layout = Layout.of(Numbers().model())

    def told(**keys):
        made = plan(settings_for(**keys), layout, None)
        return " ".join(made.unprotected), " ".join(made.warnings)

    masks = {"encrypt_type": "PW_ENCRYPT"}
    open_, warned = told(encrypt=masks, round={"repeats": 5})
    assert "at most 5 times in a run (round.repeats): each repeat may cost one such difference" in open_
    assert "moves the model a little each round still learns from differences" in open_
    assert "Only noise (DDP_ENCRYPT)" in open_
    assert "All 12 clients are in each round" in warned
    assert "round.least_difference: 3" in warned
    limited, warned = told(encrypt=masks, round={"least_difference": 4})
    assert "differ by 1 to 3 clients (round.least_difference: 4)" in limited
    assert "solved for one client" in limited
    assert "least_difference" not in warned
    assert "least_difference" not in told(encrypt=masks, round={"start_fl_job_threshold": 6})[1]
    noisy = told(encrypt={"encrypt_type": "DDP_ENCRYPT"})
    assert "repeats" not in " ".join(noisy)
    assert "least_difference" not in " ".join(noisy)


# --- what is stored


@pytest.mark.parametrize(
    "state",
    [
        {"repeats": -1},
        {"repeats": True},
        {"models": ["x"]},
        {"models": "ab"},
        {"opened": [1]},
        {"opened": [["1"]]},
        {"opened": [[-1]]},
        {"opened": {}},
    ],
)
def test_a_stored_state_that_cannot_be_is_refused(state):
    check_state({})
    check_state({"models": ["0f" * 32], "repeats": 1, "opened": [[0, 2], [1]]})
    with pytest.raises(ValueError, match=next(iter(state))):
        check_state(state)


@pytest.mark.parametrize(
    "state",
    [
        {"answered": [1]},
        {"answered": np.array([12])},
        {"answered": np.array([-1])},
        {"repeating": np.array([1]), "repeats": np.array([1, 2])},
        {"opened": [[0, 12]]},
    ],
)
def test_a_coordinators_state_that_cannot_be_is_refused(state):
    check_answers({}, failing())
    with pytest.raises(ValueError, match="cannot be"):
        check_answers(state, failing())


def test_a_declined_list_changes_nothing():
    answered = Answered(masked(least_difference=2))
    answered.open(frozenset({1, 2, 3}))
    before = answered.state()
    with pytest.raises(Declined, match="differ by 1"):
        answered.open(frozenset({1, 2}))
    assert answered.state() == before
