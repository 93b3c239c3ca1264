"""Whole federations in memory: the mean is right, protections agree, faults cost only those who cause them."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from tacit.dp.gaussian import gaussian_epsilon, gaussian_sigma
from tacit.errors import BudgetError, PeerError
from tacit.events import BudgetReached, ClientRefused, Kept, RoundAborted
from tacit.kinds.horizontal import protections
from tacit.kinds.horizontal.boundary import releases
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.forecast import plan
from tacit.kinds.horizontal.messages import Inference, Update, Work
from tacit.kinds.horizontal.task import Fitted
from tacit.kinds.horizontal.vector import Layout
from tests.kinds.horizontal.federations import Inferring, Numbers, finished, run, settings_for


def largest_difference(one, other) -> float:
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


def test_the_mean_is_weighted_by_samples():
    engine, kept = run(settings_for(clients=4, rounds=1), Numbers())
    expected = np.average([0, 1, 2, 3], weights=[1, 2, 3, 4])
    assert engine.coordinator.model["weights"] == pytest.approx(np.full(5, expected))
    (only,) = finished(kept)
    assert only.survivors == 4
    assert only.training_loss == pytest.approx(expected)


@pytest.mark.parametrize("dropout", [pytest.param(0.0, marks=pytest.mark.slow), 0.3])
def test_masks_lose_nothing(dropout):
    """The same model with and without masks, under the same dropouts, to the grid's precision."""
    common = {"clients": 40, "rounds": 3, "simulation": {"dropout": dropout}, "seed": 3}
    clear, kept = run(settings_for(**common))
    masked, kept_masked = run(settings_for(**common, encrypt={"encrypt_type": "PW_ENCRYPT"}))
    assert [e.survivors for e in finished(kept)] == [e.survivors for e in finished(kept_masked)]
    assert len(finished(kept)) == 3
    assert largest_difference(clear.coordinator.model, masked.coordinator.model) < 1e-6
    if dropout:
        assert min(e.survivors for e in finished(kept)) < 40


@pytest.mark.parametrize(
    "masks",
    [
        {"mode": "active"},
        {"mode": "semi_honest", "graph": "sparse", "corrupt": 0.1, "drop": 0.2},
        {"mode": "active", "collusion": True, "share_secrets_ratio": 0.9},
    ],
)
def test_every_kind_of_masks_gives_the_same_model(masks):
    clear, _ = run(settings_for(clients=20, rounds=1), Numbers())
    encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {**masks, "bound": 32.0}}
    masked, _ = run(settings_for(clients=20, rounds=1, encrypt=encrypt, server_num=3), Numbers())
    assert largest_difference(clear.coordinator.model, masked.coordinator.model) < 1e-6


def test_local_noise_has_the_size_of_the_claim():
    settings = settings_for(
        clients=400, rounds=1, encrypt={"encrypt_type": "DP_ENCRYPT", "dp_eps": 2.0, "dp_delta": 1e-3}
    )

    class Still(Numbers):
        def fit(self, client, model, work):
            return Fitted({"weights": model["weights"].copy()}, 1)

    engine, kept = run(settings, Still(10_000))
    sigma = 2 * gaussian_sigma(2.0, 1e-3) / math.sqrt(400)  # two clipped updates are 2C apart
    assert engine.coordinator.model["weights"].std() == pytest.approx(sigma, rel=0.05)  # 7 standard deviations
    (only,) = finished(kept)
    assert only.epsilon == pytest.approx(2.0, abs=1e-6)
    assert only.delta == 1e-3


def test_rounds_compose_per_client():
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3}
    sampled, _ = run(
        settings_for(clients=30, rounds=6, encrypt=encrypt, round={"start_fl_job_threshold": 10}), Numbers()
    )
    uploads = sampled.coordinator.uploads
    assert sum(uploads.values()) == 60
    most = max(uploads.values())
    assert 2 <= most < 6
    expected = gaussian_epsilon(gaussian_sigma(1.0, 1e-3) / math.sqrt(most), 1e-3)
    (spent,) = sampled.coordinator.spent()
    assert spent.epsilon == pytest.approx(expected, rel=1e-3)
    assert 1.0 < expected < most


def test_a_budget_stops_before_the_round_that_would_exceed_it():
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3}
    engine, kept = run(settings_for(rounds=50, encrypt=encrypt, budget={"epsilon": 3.0}), Numbers())
    done = finished(kept)
    assert 0 < len(done) < 50
    assert done[-1].epsilon <= 3.0
    (stop,) = [e for e in kept.events if isinstance(e, BudgetReached)]
    assert stop.round == len(done)
    assert stop.epsilon > 3.0
    assert engine.coordinator.budget_reached


def test_a_client_keeps_its_own_budget_whatever_the_coordinator_says():
    settings = settings_for(
        encrypt={"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3}, budget={"epsilon": 1.2}
    )
    task = Numbers()
    client = Client(settings, 1, task.fit, Layout.of(task.model()))
    client.receive(Work(0, np.zeros(5), 1.0), 0.0)
    with pytest.raises(BudgetError):
        client.receive(Work(1, np.zeros(5), 1.0), 0.0)
    assert sum(count for _, count in client.local.lines) == 1


def test_a_client_that_restarts_has_answered_and_paid_what_it_had():
    """A coordinator that makes a client restart gets neither an upload above the budget nor a second answer."""
    settings = settings_for(
        rounds=9, encrypt={"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3}, budget={"epsilon": 1.7}
    )
    task = Numbers()
    state = Client(settings, 1, task.fit, Layout.of(task.model())).state()
    for number in range(2):
        client = Client(settings, 1, task.fit, Layout.of(task.model()))
        client.restore(state)
        client.receive(Work(number, np.zeros(5), 1.0), 0.0)
        state = client.state()
    again = Client(settings, 1, task.fit, Layout.of(task.model()))
    again.restore(state)
    assert sum(count for _, count in again.local.lines) == 2
    (spent,) = again.spent()
    assert spent.epsilon == pytest.approx(gaussian_epsilon(gaussian_sigma(1.0, 1e-3) / math.sqrt(2), 1e-3), rel=1e-3)
    with pytest.raises(PeerError, match="it was asked before"):
        again.receive(Work(1, np.zeros(5), 1.0), 0.0)
    with pytest.raises(BudgetError):
        again.receive(Work(2, np.zeros(5), 1.0), 0.0)
    assert again.state()["uploads"] == 2


def test_the_coordinator_cannot_raise_the_clipping_norm():
    settings = settings_for(encrypt={"encrypt_type": "DP_ENCRYPT", "dp_eps": 1e6, "dp_norm_clip": 0.5})
    task = Numbers()
    client = Client(settings, 9, task.fit, Layout.of(task.model()))
    (update,) = client.receive(Work(0, np.zeros(5), clip=100.0), 0.0)
    assert np.linalg.norm(update.vector) < 0.6


def test_adaptive_clipping_follows_the_released_update_and_never_grows():
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 100.0, "adaptive": True, "adaptive_factor": 2.0}
    engine, kept = run(settings_for(clients=50, rounds=6, encrypt=encrypt))
    norms = [e.update_norm for e in finished(kept)]
    assert engine.coordinator._clip == pytest.approx(min(1.0, 2 * min(norms)))
    (spent,) = engine.coordinator.spent()
    assert len({event for event, _ in spent.ledger.lines}) == 1  # the event does not depend on it


# --- faults


def test_bad_clients_cost_themselves_their_place():
    bad = {"shape": 1, "nan": 1, "dtype": 1, "twice": 1, "norm": 1}
    engine, kept = run(settings_for(clients=12, rounds=1, simulation={"bad": bad}), Numbers())
    refused = {e.client: e.reason for e in kept.events if isinstance(e, ClientRefused)}
    assert set(refused) == {0, 1, 2, 3, 4}
    for client, words in enumerate(("shape", "NaN", "float16", "second update", "norm")):
        assert words in refused[client]
    (only,) = finished(kept)
    assert only.survivors == 8  # the first update of the one that sent two counts
    kept_clients = [3, *range(5, 12)]
    expected = np.average(kept_clients, weights=[c + 1 for c in kept_clients])
    assert engine.coordinator.model["weights"] == pytest.approx(np.full(5, expected))


@pytest.mark.parametrize("kind", ["shape", "nan", "dtype"])
def test_a_bad_task_costs_its_client_the_round_under_masks_too(kind):
    class Bad(Numbers):
        def fit(self, client, model, work):
            fitted = super().fit(client, model, work)
            if client != 2:
                return fitted
            weights = fitted.model["weights"]
            spoilt = {"shape": weights[:-1], "nan": weights * np.nan, "dtype": weights.astype("float32")}[kind]
            return Fitted({"weights": spoilt}, fitted.samples)

    encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"bound": 32.0}}
    engine, kept = run(settings_for(clients=8, rounds=1, encrypt=encrypt), Bad())
    (refused,) = [e for e in kept.events if isinstance(e, ClientRefused)]
    assert refused.client == 2
    others = [0, 1, 3, 4, 5, 6, 7]
    expected = np.average(others, weights=[c + 1 for c in others])
    assert engine.coordinator.model["weights"] == pytest.approx(np.full(5, expected), abs=1e-6)


@pytest.mark.parametrize("encrypt", [{}, {"encrypt_type": "PW_ENCRYPT"}])
def test_late_updates_do_not_count(encrypt):
    settings = settings_for(clients=20, rounds=2, encrypt=encrypt, simulation={"lateness": 0.2})
    _, kept = run(settings)
    assert len(finished(kept)) == 2
    assert all(e.survivors < 20 for e in finished(kept))


def test_too_few_updates_abort_the_round_and_the_model_stays():
    settings = settings_for(clients=10, rounds=2, round={"update_model_ratio": 1.0}, simulation={"dropout": 0.5})
    engine, kept = run(settings, Numbers())
    assert not finished(kept)
    aborted = [e for e in kept.events if isinstance(e, RoundAborted)]
    assert len(aborted) == 2
    assert "10 are needed" in aborted[0].reason
    assert not engine.coordinator.model["weights"].any()


def test_an_aborted_round_says_what_kept_most_clients_from_it():
    encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"largest_weight": 2}}
    _, kept = run(settings_for(clients=10, rounds=1, encrypt=encrypt), Numbers())  # client k has k + 1 samples
    (aborted,) = [e for e in kept.events if isinstance(e, RoundAborted)]
    assert aborted.reason.endswith(
        " are needed (8 refused: it has more samples than pw_encrypt.largest_weight = 2: raise it)"
    )


def test_too_many_dropouts_abort_a_masked_round():
    settings = settings_for(clients=10, rounds=1, encrypt={"encrypt_type": "PW_ENCRYPT"}, simulation={"dropout": 0.8})
    _, kept = run(settings)
    assert [type(e).__name__ for e in kept.events][-1] == "RoundAborted"


# --- the release boundary


@pytest.mark.parametrize("encrypt_type", protections.names())
@pytest.mark.parametrize("mode", ["active", "semi_honest"])
@pytest.mark.parametrize("evaluated", [None, "NOT_ENCRYPT", "LAPLACE"])
def test_what_leaves_a_client_is_what_the_list_says(encrypt_type, mode, evaluated):
    encrypt = {"encrypt_type": encrypt_type, "pw_encrypt": {"mode": mode}}
    keys = {}
    if evaluated:
        encrypt |= {"privacy_eval_type": evaluated, "laplace_eval_eps": 1.0}
        keys = {"unsupervised": {"cluster_client_num": 5}}
    settings = settings_for(encrypt=encrypt, simulation={"dropout": 0.1}, **keys)
    listed = {(r.message, r.field) for r in releases(settings)}
    seen: set[tuple[str, str]] = set()

    def watch(client, message):
        names = getattr(message, "__dataclass_fields__", None) or message.__struct_fields__
        seen.update((type(message).__name__, name) for name in names if getattr(message, name) is not None)

    run(settings, Inferring(), watch=watch)
    assert seen
    assert seen <= listed
    unseen = listed - seen
    assert all(message in ("Abort", "Agreed") for message, _ in unseen)
    if encrypt_type != "NOT_ENCRYPT":
        assert not {field for _, field in seen} & {"loss", "samples", "accuracy"}


@pytest.mark.parametrize("encrypt_type", ["DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"])
def test_no_event_holds_a_clients_loss_under_a_protection(encrypt_type):
    _, kept = run(settings_for(encrypt={"encrypt_type": encrypt_type}))
    assert all(e.training_loss is None for e in finished(kept))


# --- seeds


@pytest.mark.parametrize("encrypt_type", protections.names())
def test_a_noise_seed_repeats_a_run_and_costs_the_claim(encrypt_type):
    settings = settings_for(
        encrypt={"encrypt_type": encrypt_type}, simulation={"insecure_noise_seed": 5, "dropout": 0.1}
    )
    one, kept = run(settings)
    two, _ = run(settings)
    assert largest_difference(one.coordinator.model, two.coordinator.model) == 0
    if encrypt_type in ("DP_ENCRYPT", "DDP_ENCRYPT"):
        assert finished(kept)[-1].epsilon == math.inf


def test_without_one_noise_is_fresh_and_the_rest_repeats():
    settings = settings_for(encrypt={"encrypt_type": "DP_ENCRYPT"}, simulation={"dropout": 0.3})
    one, kept_one = run(settings)
    two, kept_two = run(settings)
    assert largest_difference(one.coordinator.model, two.coordinator.model) > 0
    assert [e.survivors for e in finished(kept_one)] == [e.survivors for e in finished(kept_two)]


# --- scale


def test_memory_is_that_of_a_few_models():
    size = 200_000
    settings = settings_for(clients=60, rounds=1)
    task = Numbers(size, "float32")
    tracemalloc.start()
    run(settings, task)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 4 * size


@pytest.mark.parametrize("kind", ["average", "momentum", "adam"])
def test_server_optimizers_learn(kind):
    rate = 0.05 if kind == "adam" else 1.0
    server = {"kind": kind, "learning_rate": rate, "momentum": 0.5}
    _, kept = run(settings_for(rounds=10, server=server))
    history = finished(kept)
    assert history[-1].metrics["accuracy"] > 0.8
    assert history[-1].metrics["loss"] < history[0].metrics["loss"]


def test_the_proximal_term_holds_clients_near_the_model():
    common = {"rounds": 1, "task_options": {"split": "dirichlet", "alpha": 0.1}}
    train = {"epochs": 5, "batch": 8, "learning_rate": 0.2}
    _, free = run(settings_for(**common, train=train))
    _, held = run(settings_for(**common, train={**train, "proximal_mu": 2.0}))
    assert finished(held)[0].update_norm < 0.7 * finished(free)[0].update_norm


def test_late_and_bad_uploads_are_paid_for_too():
    encrypt = {"encrypt_type": "DP_ENCRYPT", "dp_eps": 1.0, "dp_delta": 1e-3}
    simulation = {"lateness": 0.3, "bad": {"shape": 2, "twice": 1}}
    engine, kept = run(settings_for(clients=20, rounds=3, encrypt=encrypt, simulation=simulation), Numbers())
    assert all(e.survivors < 18 for e in finished(kept))
    assert dict(engine.coordinator.uploads) == dict.fromkeys(range(20), 3)


# --- words that others may read


@pytest.mark.parametrize("encrypt_type", ["DP_ENCRYPT", "PW_ENCRYPT"])
def test_a_refusal_under_a_protection_quotes_no_private_value(encrypt_type):
    class Loud(Numbers):
        def fit(self, client, model, work):
            fitted = super().fit(client, model, work)
            value = {1: 123456.789, 2: np.nan}.get(client, 0.0)
            return Fitted({"weights": fitted.model["weights"] * 0 + value}, 0 if client == 3 else 987_654)

    _, kept = run(settings_for(clients=12, rounds=1, encrypt={"encrypt_type": encrypt_type}), Loud())
    reasons = " ".join(e.reason for e in kept.events if isinstance(e, ClientRefused))
    if encrypt_type == "PW_ENCRYPT":
        assert "NaN" in reasons
        assert "no samples" in reasons
        assert "pw_encrypt.bound = 16" in reasons
    else:
        assert reasons == ""  # silence would tell: they uploaded noise
        assert finished(kept)[0].survivors == 12
    assert not any(secret in reasons for secret in ("123456", "1.23", "987654", "987_654"))


def test_a_client_answers_each_round_once():
    settings = settings_for(rounds=3)
    task = Numbers()
    client = Client(settings, 1, task.fit, Layout.of(task.model()))
    client.receive(Work(1, np.zeros(5)), 0.0)
    for number in (1, 0, 13, 2000):
        with pytest.raises(PeerError, match=f"work for round {number}, and 2 to 12 are left"):
            client.receive(Work(number, np.zeros(5)), 0.0)
    client.receive(Work(12, np.zeros(5)), 0.0)  # rounds may have been abandoned in between
    with pytest.raises(PeerError, match="13 to 12 are left"):
        client.receive(Work(13, np.zeros(5)), 0.0)


@pytest.mark.parametrize("samples", [0, -1, 10**9, True, 2.0, "9", None])
def test_a_weight_that_is_none_costs_its_sender_the_round(samples):
    kept = Kept()
    coordinator = Coordinator(settings_for(clients=3, rounds=1), Numbers().model(), kept, lambda: 0.0)
    coordinator.begin(0.0)
    coordinator.receive(0, Update(0, 0, np.full(5, 9.0), samples, 0.1), 0.0)
    for client in (1, 2):
        coordinator.receive(client, Update(0, client, np.ones(5), 1, "x" if client == 1 else 0.5), 0.0)
    assert coordinator.model["weights"].tolist() == [1.0] * 5
    assert [e.client for e in kept.events if isinstance(e, ClientRefused)] == [0]


def test_a_bad_last_update_does_not_hold_up_the_round():
    kept = Kept()
    coordinator = Coordinator(settings_for(clients=3, rounds=1), Numbers().model(), kept, lambda: 0.0)
    coordinator.begin(0.0)
    for client, value in ((0, 1.0), (1, 1.0), (2, math.nan)):
        coordinator.receive(client, Update(0, client, np.full(5, value), 1), 0.0)
    assert finished(kept)[0].survivors == 2
    assert finished(kept)[0].refused == 1


def without_client_2() -> tuple[Coordinator, Kept]:
    """A coordinator that has begun its second round, at 1e9 s; client 2 was missing in the first."""
    kept = Kept()
    coordinator = Coordinator(settings_for(clients=3, rounds=2), Numbers().model(), kept, lambda: 0.0)
    coordinator.begin(0.0)
    for client in (0, 1):
        coordinator.receive(client, Update(0, client, np.ones(5), 1), 0.0)
    coordinator.tick(1e9)
    coordinator.begin(1e9)
    return coordinator, kept


def test_an_update_that_is_late_for_one_round_does_not_cost_the_next():
    coordinator, kept = without_client_2()
    coordinator.receive(2, Update(0, 2, np.ones(5), 1), 1e9)
    for client in (0, 1, 2):
        coordinator.receive(client, Update(1, client, np.ones(5), 1), 1e9)
    assert [e.survivors for e in finished(kept)] == [2, 3]
    assert [(e.round, e.client) for e in kept.events if isinstance(e, ClientRefused)] == [(0, 2)]


def test_a_step_to_infinity_is_not_taken():
    engine, kept = run(
        settings_for(clients=4, rounds=2, server={"learning_rate": 1e300, "kind": "momentum"}), Numbers(5, "float32")
    )
    assert not finished(kept)
    assert "lower server.learning_rate" in next(e.reason for e in kept.events if isinstance(e, RoundAborted))
    assert not engine.coordinator.model["weights"].any()


def test_a_model_that_is_not_finite_is_refused_at_the_start():
    class Infinite(Numbers):
        def model(self):
            return {"weights": np.full(5, np.inf)}

    with pytest.raises(ValueError, match="must return finite ones"):
        run(settings_for(), Infinite())


def test_masks_do_not_keep_a_vector_for_each_client():
    size = 100_000
    settings = settings_for(clients=40, rounds=2, encrypt={"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"bound": 64.0}})
    tracemalloc.start()
    run(settings, Numbers(size, "float32"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 * 8 * size  # 40 vectors of 8-byte words would be more


def test_late_and_spoilt_uploads_under_masks_are_counted():
    encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": {"bound": 64.0}}
    simulation = {"lateness": 0.2, "bad": {"shape": 2, "twice": 1}}
    _, kept = run(settings_for(clients=20, rounds=1, encrypt=encrypt, simulation=simulation), Numbers())
    reasons = [e.reason for e in kept.events if isinstance(e, ClientRefused)]
    assert sum("too late" in reason for reason in reasons) >= 1
    assert sum("bytes" in reason for reason in reasons) >= 1
    assert finished(kept)[0].survivors + len(reasons) == 20


def test_a_mistake_in_the_users_own_code_is_not_hidden():
    class Broken(Numbers):
        def fit(self, client, model, work):
            raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        run(settings_for(rounds=1), Broken())

    class Tuple(Numbers):
        def fit(self, client, model, work):
            return model, 3

    with pytest.raises(TypeError, match=r"fit must return Fitted\(model, samples, loss\), got tuple"):
        run(settings_for(rounds=1), Tuple())


@pytest.mark.parametrize("clip", [math.nan, -1.0, 0.0, 1e-300, True, "1"])
def test_a_clipping_norm_that_is_none_is_refused_before_anything_is_paid(clip):
    settings = settings_for(encrypt={"encrypt_type": "DP_ENCRYPT"})
    task = Numbers()
    client = Client(settings, 1, task.fit, Layout.of(task.model()))
    with pytest.raises(PeerError, match="clipping norm"):
        client.receive(Work(0, np.zeros(5), clip), 0.0)
    assert client.state() == {"attempts": 0, "uploads": 0, "sums": 0, "models": [], "repeats": 0, "opened": []}


@pytest.mark.parametrize("value", [math.nan, math.inf, -3e38])
def test_a_model_that_is_none_is_refused_before_anything_is_paid(value):
    task = Numbers()
    client = Client(settings_for(encrypt={"encrypt_type": "DP_ENCRYPT"}), 1, task.fit, Layout.of(task.model()))
    with pytest.raises(PeerError, match="enormous"):
        client.receive(Work(0, np.full(5, value)), 0.0)
    assert client.state()["uploads"] == 0


@pytest.mark.parametrize("encrypt_type", ["DP_ENCRYPT", "DDP_ENCRYPT"])
@pytest.mark.parametrize("fault", ["raises", "samples", "overflow"])
def test_training_that_fails_does_not_show(encrypt_type, fault):
    """Whether it fails may depend on the data: an answer that does not come would tell."""

    class Failing(Numbers):
        def fit(self, client, model, work):
            if fault == "raises":
                raise FloatingPointError("in the data")
            if fault == "samples":
                return Fitted(model, None)
            return Fitted({"weights": np.full(5, 1e300)}, 1)

    told, task = [], Failing()
    settings = settings_for(clients=4, encrypt={"encrypt_type": encrypt_type, "dp_eps": 1e6})
    client = Client(settings, 1, task.fit, Layout.of(task.model()), failed=lambda *about: told.append(about))
    if encrypt_type == "DP_ENCRYPT":
        (update,) = client.receive(Work(0, np.zeros(5)), 0.0)
        assert np.abs(update.vector).max() < 0.1
    else:
        learned = client._learn(Work(0, np.zeros(5)), lambda learned: (learned.update(), learned.samples))
        assert not learned[0].any()
        assert learned[1] == 1
    assert [where for where, _ in told] == (["fit"] if fault == "raises" else [])


def test_a_coordinator_gets_no_more_answers_than_the_plan_prices():
    settings = settings_for(rounds=3, round={"abandoned_rounds": 2}, encrypt={"encrypt_type": "DP_ENCRYPT"})
    task = Numbers()
    client = Client(settings, 1, task.fit, Layout.of(task.model()))
    answered = 0
    for number in range(100):
        try:
            answered += len(client.receive(Work(number, np.zeros(5)), 0.0))
        except PeerError:
            break
    assert answered == 5
    (price,) = plan(settings, Layout.of(task.model()), None).prices
    assert price.times_worst == 5
    assert client.local.epsilon(settings.delta) == price.epsilon_worst > price.epsilon_run


@pytest.mark.parametrize(
    "message",
    [
        Update(None, 1, np.ones(5), 1),
        Update("x", 1, np.ones(5), 1),
        Update(0, "x" * 10**6, np.ones(5), 1),
        Inference(np.array([1, 2]), 1, np.ones((8, 3))),
        Inference(0, 1, None),
        Inference(0, 1, np.broadcast_to(np.float64(0), (10**6, 10**6))),
        Inference(0, 1, np.ma.masked_array(np.full((8, 3), np.nan), mask=True)),
    ],
)
def test_no_message_of_a_client_stops_the_coordinator(message):
    kept = Kept()
    settings = settings_for(clients=4, rounds=1, unsupervised={"cluster_client_num": 3})
    coordinator = Coordinator(settings, Numbers().model(), kept, lambda: 0.0, classes=3)
    coordinator.begin(0.0)
    for _ in range(3):
        coordinator.receive(1, message, 0.0)
    for client in (0, 2, 3):
        coordinator.receive(client, Update(0, client, np.ones(5), 1), 0.0)
    coordinator.tick(1e9)
    (only,) = finished(kept)
    assert only.survivors == 3
    assert only.bytes_up < 1000
    assert all(len(e.reason) <= 300 for e in kept.events if isinstance(e, ClientRefused))


def test_belated_updates_and_strangers_do_not_flood_the_log():
    coordinator, kept = without_client_2()
    for _ in range(100):
        coordinator.receive(2, Update(0, 2, np.ones(5), 1), 1e9)
        coordinator.receive(99, Update(0, 99, np.ones(5), 1), 1e9)
    assert len([e for e in kept.events if isinstance(e, ClientRefused)]) == 1
