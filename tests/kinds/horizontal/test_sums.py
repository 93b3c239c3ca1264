"""Sums that a worker of the coordinator's own brings in: the same as one by one, and nothing that does not belong."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import PeerError
from tacit.events import Kept
from tacit.kinds.horizontal.coordinator import Coordinator, Phase
from tacit.kinds.horizontal.messages import Update, Work
from tacit.kinds.horizontal.sums import _BLOCK, Group, Part, Sum, Together
from tacit.secagg.client import Client
from tacit.secagg.server import Server, State
from tacit.secagg.session import Context
from tacit.secagg.settings import Settings as SecureSettings
from tacit.secagg.unmask import masked_words
from tests.kinds.horizontal.federations import Numbers, finished, settings_for


def opened() -> tuple[Coordinator, Kept]:
    kept = Kept()
    coordinator = Coordinator(settings_for(clients=4, rounds=2), Numbers().model(), kept, lambda: 0.0)
    coordinator.begin(0.0)
    return coordinator, kept


def part(*clients: int) -> Part:
    group = Group(np.zeros(5), 1e4)
    for client in clients:
        group.add_model(np.full(5, float(client)), client + 1)
    return group.part


def test_some_together_and_some_one_by_one_make_the_same_mean():
    coordinator, kept = opened()
    coordinator.receive_together(Together(0, (0, 2), part(0, 2), losses=((1.0, 1), (3.0, 3))), 0.0)
    for client in (1, 3):
        coordinator.receive(client, Update(0, client, np.full(5, float(client)), client + 1, 2.0), 0.0)
    assert coordinator.phase is Phase.BETWEEN
    weights = np.arange(1, 5)
    assert coordinator.model["weights"] == pytest.approx(np.full(5, (weights * np.arange(4)).sum() / 10))
    (event,) = finished(kept)
    assert event.training_loss == pytest.approx((1 + 9 + 2 * 6) / 10)


@pytest.mark.parametrize(
    ("several", "words"),
    [
        (Together(1, (0,), part(0)), "another round"),
        (Together(0, (0, 9), part(0, 1)), "not waited for"),
        (Together(0, (0, 1), part(0)), "not waited for"),
        (Together(0, (0,), Part(np.zeros(4), 1.0, 1.0, 1)), "a part of"),
        (Together(0, (0,), np.zeros(5, np.uint32)), "no secure aggregation"),
    ],
)
def test_what_does_not_belong_is_refused(several, words):
    coordinator, _ = opened()
    with pytest.raises(ValueError, match=words):
        coordinator.receive_together(several, 0.0)


def test_who_is_in_a_sum_is_not_taken_again():
    coordinator, kept = opened()
    coordinator.receive_together(Together(0, (0, 2), part(0, 2)), 0.0)
    with pytest.raises(ValueError, match="not waited for"):
        coordinator.receive_together(Together(0, (2,), part(2)), 0.0)
    coordinator.receive(2, Update(0, 2, np.zeros(5), 1), 0.0)
    assert [event.reason for event in kept.events[1:]] == ["a second update in one round"]


def masked_round() -> tuple[Server, dict[int, Client], dict[int, Any]]:
    """A server that waits for uploads, and these."""
    context = Context(SecureSettings(5, 3, mode="semi_honest"), bytes(32), 0)
    server = Server(context, range(5))
    server.start(0.0)
    clients = {i: Client(context, i, np.full(3, i, np.uint32)) for i in range(5)}
    outgoing = [pair for i, client in clients.items() for pair in server.receive(i, client.start(0.0)[0], 0.0)]
    outgoing = [pair for to, m in outgoing for pair in server.receive(to, clients[to].receive(m, 0.0)[0], 0.0)]
    uploads = {to: clients[to].receive(message, 0.0)[0] for to, message in outgoing}
    return server, clients, uploads


def test_masked_vectors_added_up_elsewhere_open_to_the_same_sum():
    server, clients, uploads = masked_round()
    words = [masked_words(uploads[i], server._settings) for i in (0, 1, 3)]
    session = uploads[0].session
    with pytest.raises(ValueError, match="words are due"):
        server.receive_sum((0, 1, 3), session, words[0][:2], 0.0)
    with pytest.raises(PeerError, match="another session"):
        server.receive_sum((0, 1, 3), bytes(32), words[0], 0.0)
    server.receive_sum((0, 1, 3), session, np.sum(words, axis=0, dtype=np.uint32), 0.0)
    with pytest.raises(PeerError, match="two different"):
        server.receive(0, uploads[0], 0.0)
    with pytest.raises(ValueError, match="not waited for"):
        server.receive_sum((1,), session, words[1], 0.0)
    outgoing = server.receive(2, uploads[2], 0.0) + server.receive(4, uploads[4], 0.0)
    for to, message in outgoing:
        server.receive(to, clients[to].receive(message, 0.0)[0], 0.0)
    assert server.state is State.READY
    result = server.finish()
    assert result.survivors == (0, 1, 2, 3, 4)
    assert result.words.tolist() == [10, 10, 10]


def bad(vector: np.ndarray, place: int, kind: str) -> np.ndarray:
    found = vector.copy()
    found[place] = {"nan": np.nan, "infinite": np.inf, "long": 1e5}[kind]
    return found


@settings(max_examples=25)
@given(
    st.sampled_from(["float32", "float64"]),
    st.lists(st.sampled_from(["", "", "", "nan", "infinite", "long"]), min_size=1, max_size=9),
    st.integers(1, 4),
    st.integers(0, 2**30),
)
def test_the_mean_is_that_of_the_good_models_whatever_comes_between(dtype, kinds, size, seed):
    """Bad ones come first in a group, last or between, and are bad in the first block or in the last one."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=3 * _BLOCK // 2).astype(dtype)
    total, kept = Sum(base, 1e4, group=size), []
    for number, kind in enumerate(kinds):
        model, weight = base + rng.normal(size=len(base)).astype(dtype), 1 + number % 3
        if kind:
            with pytest.raises(PeerError):
                total.add_model(bad(model, int(rng.integers(len(base))), kind), weight)
        else:
            total.add_model(model, weight)
            kept.append((model, weight))
    assert total.count == len(kept)
    if kept:
        exact = sum(weight * (model.astype(np.float64) - base) for model, weight in kept)
        exact /= sum(weight for _, weight in kept)
        assert np.abs(total.mean() - exact).max() < (1e-4 if dtype == "float32" else 1e-12)


def test_a_refused_first_update_leaves_nothing_in_its_part():
    group = Group(np.zeros(5), 1e4)
    with pytest.raises(PeerError, match="NaN, infinite or enormous"):
        group.add_update(np.array([1.0, 1.0, 1.0, 1.0, np.nan]))
    assert not group.part.vector.any()
    group.add_update(np.ones(5))
    group.clear()
    assert not group.part.vector.any()
    group.add_update(np.full(5, 2.0))
    assert group.part.vector.tolist() == [2.0] * 5


def test_a_model_is_looked_at_once_and_every_bad_number_is_seen():
    for number, found in ((3.0, 3.0), (-4.0, 4.0), (np.inf, np.inf), (-np.inf, np.inf)):
        assert Work(0, np.array([1.0, number, -2.0])).largest == found
    assert np.isnan(Work(0, np.array([1.0, np.nan, np.inf])).largest)
    coordinator, _ = opened()
    coordinator.receive_together(Together(0, (0, 1, 2, 3), part(0, 1, 2, 3)), 0.0)
    outgoing = coordinator.begin(0.0)
    assert len({id(work) for _, work in outgoing}) == 1  # so that simulated clients share what one of them found
    assert not any(work.model.flags.writeable for _, work in outgoing)


PEAK = """
import numpy as np
from bench.measure import peak_memory
from tacit.kinds.horizontal.sums import Sum
base, update = np.ones(20_000_000, np.float32), np.full(20_000_000, 3, np.float32)
before = peak_memory()
total = Sum(base, 1e6)
total.add_model(update, 1)
mean = total.mean()
print((peak_memory() - before) / base.nbytes, mean.min(), mean.max())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the peak is in other units")
def test_a_single_update_and_its_mean_take_the_memory_of_one_model():
    """What the system gives a process, and not what is asked for: the room of a float64 sum is never written to."""
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    models, least, most = map(float, done.stdout.split())
    assert (least, most) == (2.0, 2.0)
    assert models < 1.3
