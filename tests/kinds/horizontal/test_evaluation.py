"""Private evaluation: what leaves a client, what it costs, and what the coordinator makes of it."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from tacit.errors import BudgetError, PeerError
from tacit.events import BudgetReached, Evaluated, Kept
from tacit.kinds.horizontal.boundary import unprotected
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.evaluation import Clusters, on_simplex
from tacit.kinds.horizontal.messages import Inference, Update, Work
from tacit.kinds.horizontal.vector import Layout
from tests.kinds.horizontal.federations import Inferring, Numbers, finished, run, settings_for

WANTED = {"cluster_client_num": 5, "vectors": 4}


def evaluated(kept: Kept) -> list[Evaluated]:
    return [event for event in kept.events if isinstance(event, Evaluated)]


def laplace(epsilon: float, **keys):
    return {"encrypt": {"privacy_eval_type": "LAPLACE", "laplace_eval_eps": epsilon, **keys}, "unsupervised": WANTED}


def rows(clusters: int, count: int, seed: int = 0) -> np.ndarray:
    """Vectors near the corners of the simplex."""
    rng = np.random.default_rng(seed)
    drawn = rng.dirichlet(np.full(clusters, 0.3), count)
    return drawn / drawn.sum(axis=1, keepdims=True)


# --- at the client


def test_what_is_sent_is_what_the_received_model_infers_not_the_trained_one():
    task, sent = Inferring(), []
    settings = settings_for(unsupervised=WANTED, rounds=1)
    run(settings, task, watch=lambda client, message: sent.append(message))
    inferred = [message for message in sent if isinstance(message, Inference)]
    assert len(inferred) == 12
    for message in inferred:
        assert message.vectors.shape == (4, 10)
        np.testing.assert_allclose(message.vectors, task.infer(message.sender, task.model(), 4), atol=1e-7)
    assert isinstance(sent[0], Inference)
    assert isinstance(sent[1], Update)  # they travel together


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 2**32))
def test_there_are_always_as_many_vectors_as_the_file_says(have, count, seed):
    made = on_simplex(rows(3, have, seed), count, 3)
    assert made.shape == (count, 3)
    assert made.min() >= 0
    np.testing.assert_allclose(made.sum(axis=1), 1)
    np.testing.assert_allclose(made, rows(3, have, seed)[np.arange(count) % min(have, count)])


@pytest.mark.parametrize(
    "bad",
    [
        np.full((4, 10), np.nan),
        np.full((4, 10), -1.0),
        np.zeros((4, 10)),
        np.ones((4, 9)),
        np.ones(10),
        np.empty((0, 10)),
        "nonsense",
        np.full((4, 10), np.inf),
        np.full((4, 10), 1e308),
    ],
)
def test_unusable_results_do_not_show_under_noise(bad):
    """Silence would tell: noise around nothing leaves instead. In the clear nothing leaves, and training goes on."""

    class Broken(Inferring):
        def infer(self, client, model, count):
            return bad

    def sent(settings):
        task = Broken()
        client = Client(settings, 1, task.fit, Layout.of(task.model()), infers=task)
        return client.receive(Work(0, np.zeros(650, np.float32)), 0.0)

    assert on_simplex(bad, 4, 10) is None
    noisy = sent(settings_for(**laplace(1e6)))
    np.testing.assert_allclose(noisy[0].vectors, np.full((4, 10), 0.1), atol=1e-3)
    assert isinstance(noisy[1], Update)
    (clear,) = sent(settings_for(unsupervised=WANTED))
    assert isinstance(clear, Update)


# --- what it costs


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "PW_ENCRYPT", "DP_ENCRYPT", "DDP_ENCRYPT"])
def test_m_vectors_in_t_rounds_cost_m_t_epsilon(encrypt_type):
    engine, kept = run(settings_for(**laplace(0.25, encrypt_type=encrypt_type)), Inferring())
    assert [event.evaluation_epsilon for event in finished(kept)] == [1.0, 2.0, 3.0]  # 4 vectors, 3 rounds
    local = next(spent for spent in engine.coordinator.spent() if spent.view == "local")
    (count,) = [n for event, n in local.ledger.lines if getattr(event, "epsilon", None) == 0.25]
    assert count == 12
    if encrypt_type == "DP_ENCRYPT":  # both lines in one ledger: they are about the same client
        assert local.covers == ("updates", "inference vectors")
        assert local.epsilon > 50
    else:
        assert (local.covers, local.epsilon, local.delta) == (("inference vectors",), 3.0, 0.0)
    for client in engine._clients.values():
        assert dict(client.local.lines) == dict(local.ledger.lines)


def test_in_the_clear_there_is_no_epsilon():
    engine, kept = run(settings_for(unsupervised=WANTED), Inferring())
    assert engine.coordinator.spent() == []
    assert finished(kept)[-1].evaluation_epsilon is None


def test_a_coordinator_gets_vectors_as_often_as_the_boundary_says():
    settings = settings_for(**laplace(0.25))
    task = Inferring()
    client = Client(settings, 1, task.fit, Layout.of(task.model()), infers=task)
    got = 0
    for number in range(3 * settings.answers):
        with suppress(PeerError):
            answers = client.receive(Work(number, np.zeros(650, np.float32)), 0.0)
            got += any(isinstance(answer, Inference) for answer in answers)
    assert got == settings.answers
    said = f"A coordinator that does not follow the protocol can ask for vectors {got} times."
    assert said in unprotected(settings)


def test_a_budget_counts_inference_vectors():
    settings = settings_for(**laplace(0.25), budget={"epsilon": 2.0})
    _, kept = run(settings, Inferring())
    assert len(finished(kept)) == 2
    (stop,) = [event for event in kept.events if isinstance(event, BudgetReached)]
    assert (stop.epsilon, stop.budget, stop.delta) == (3.0, 2.0, 0.0)
    task = Inferring()
    client = Client(settings, 1, task.fit, Layout.of(task.model()), infers=task)
    for number in range(2):
        client.receive(Work(number, np.zeros(650, np.float32)), 0.0)
    with pytest.raises(BudgetError, match="epsilon of inference vectors to 3 at delta 0"):
        client.receive(Work(2, np.zeros(650, np.float32)), 0.0)


# --- at the coordinator


@pytest.mark.parametrize(
    ("eval_type", "oracle"),
    [
        ("SILHOUETTE_SCORE", metrics.silhouette_score),
        ("CALINSKI_HARABASZ_SCORE", metrics.calinski_harabasz_score),
        ("DAVIES_BOULDIN_SCORE", metrics.davies_bouldin_score),
    ],
)
def test_the_score_is_scikit_learns(eval_type, oracle):
    clusters = Clusters(settings_for(unsupervised=WANTED | {"eval_type": eval_type}), 3)
    sent = [rows(3, 4, seed) for seed in range(5)]
    for client, vectors in enumerate(sent):
        assert not clusters.complete
        clusters.add(client, vectors)
    together = np.concatenate(sent)
    score = clusters.score()
    assert score.value == pytest.approx(oracle(together, together.argmax(axis=1)))
    assert (score.clients, score.vectors, score.clusters, score.reason) == (5, 20, 3, "")


def test_at_most_the_stated_number_of_vectors_is_scored():
    clusters = Clusters(settings_for(unsupervised=WANTED | {"largest_score": 11}), 3)
    for client in range(5):
        clusters.add(client, rows(3, 4, client))
    assert clusters.score().vectors == 11


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        (np.tile([0.8, 0.1, 0.1], (4, 1)), "all vectors are in one cluster"),
        (None, "0 of 5 clients sent usable vectors"),
    ],
)
def test_what_cannot_be_scored_is_said_and_training_goes_on(vectors, reason):
    class Stubborn(Inferring):
        classes = 3

        def infer(self, client, model, count):
            return vectors

    engine, kept = run(settings_for(unsupervised=WANTED), Stubborn())
    assert [event.reason for event in evaluated(kept)] == [reason] * 3
    assert [event.score for event in evaluated(kept)] == [None] * 3
    assert len(finished(kept)) == 3
    assert engine.coordinator.model["weights"].any()


def test_points_have_no_score():
    clusters = Clusters(settings_for(unsupervised=WANTED | {"eval_type": "CALINSKI_HARABASZ_SCORE"}), 2)
    for client in range(5):
        clusters.add(client, np.eye(2)[np.arange(4) % 2])
    score = clusters.score()
    assert score.value is None or math.isfinite(score.value)


def test_each_vector_a_cluster_of_its_own():
    clusters = Clusters(settings_for(unsupervised={"cluster_client_num": 2, "vectors": 1}), 3)
    clusters.add(0, np.array([[0.9, 0.1, 0.0]]))
    clusters.add(1, np.array([[0.1, 0.9, 0.0]]))
    assert clusters.score().reason == "2 vectors, each in a cluster of its own"


@pytest.mark.parametrize(
    "vectors",
    [
        np.full((4, 3), np.nan),
        np.full((4, 3), np.inf),
        np.full((4, 3), 1e6),
        np.full((4, 3), 0.5),
        np.array([[1.5, -0.25, -0.25]] * 4),
        np.full((4, 2), 0.5),
        np.full((5, 3), 1 / 3),
        np.full((4, 3), 1 / 3, dtype=np.float32),
        np.full((4, 3), "a"),
        [[1 / 3] * 3] * 4,
        None,
    ],
)
def test_malformed_vectors_are_refused_and_cost_only_the_score(vectors):
    settings = settings_for(clients=6, rounds=1, unsupervised={"cluster_client_num": 6, "vectors": 4})
    with pytest.raises(PeerError, match="inference vectors"):
        Clusters(settings, 3).add(0, vectors)
    kept = Kept()
    coordinator = Coordinator(settings, Numbers().model(), kept, lambda: 0.0, classes=3)
    coordinator.begin(0.0)
    for client in range(6):
        coordinator.receive(client, Inference(0, client, vectors if client == 2 else rows(3, 4, client)), 0.0)
        coordinator.receive(client, Update(0, client, np.ones(5), 1), 0.0)
    assert [event.reason for event in evaluated(kept)] == ["5 of 6 clients sent usable vectors, and 1 malformed ones"]
    assert finished(kept)[0].survivors == 6


def test_strangers_and_impostors_are_not_scored():
    settings = settings_for(
        clients=9, rounds=1, round={"start_fl_job_threshold": 6}, unsupervised={"cluster_client_num": 6, "vectors": 4}
    )
    kept = Kept()
    coordinator = Coordinator(settings, Numbers().model(), kept, lambda: 0.0, classes=3)
    sampled = {client for client, _ in coordinator.begin(0.0)}
    stranger = next(client for client in range(9) if client not in sampled)
    some, other = sorted(sampled)[:2]
    for sender, message in [
        (stranger, Inference(0, stranger, rows(3, 4))),
        (some, Inference(0, other, rows(3, 4))),
        (other, Inference(1, other, rows(3, 4))),  # of another round
    ]:
        coordinator.receive(sender, message, 0.0)
    for client in sorted(sampled - {some}):
        coordinator.receive(client, Inference(0, client, rows(3, 4, client)), 0.0)
        coordinator.receive(client, Inference(0, client, rows(3, 4, client + 50)), 0.0)  # a second one is passed over
        coordinator.receive(client, Update(0, client, np.ones(5), 1), 0.0)
    coordinator.tick(1e9)
    assert [event.reason for event in evaluated(kept)] == ["5 of 6 clients sent usable vectors"]


def test_a_task_that_cannot_infer_is_refused_before_the_first_round():
    with pytest.raises(ValueError, match="has no infer"):
        run(settings_for(unsupervised=WANTED), Numbers())


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"])
def test_every_protection_of_updates_carries_the_evaluation(encrypt_type):
    """With hardly any noise on the updates: after much noise a model may see one class everywhere."""
    hardly = {"encrypt_type": encrypt_type, "dp_eps": 1e6, "ddp_eps": 1e6}
    _, kept = run(settings_for(**laplace(1e7, **hardly), rounds=2), Inferring())
    assert [event.round for event in evaluated(kept)] == [0, 1]
    assert evaluated(kept)[1].score is not None
