"""Protections of an installed package run wherever a federation does, with no change elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.events import ClientRefused, Kept
from tacit.flower.node import Node, State
from tacit.kinds.horizontal.frames import to_coordinator, to_frame
from tacit.kinds.horizontal.messages import Update, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Fitted
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.secagg.messages import Abort
from tacit.wire import decode
from tests.contract.installing import TOYS, installed, package
from tests.flower.fleets import fleet
from tests.inside import inside
from tests.kinds.horizontal.federations import Numbers, finished, run, settings_for
from tests.net.loopback import Federation, quickly, whole

KEYS: dict[str, dict[str, Any]] = {"LAPLACE_UPDATES": {"options": {"epsilon": 500.0}}, "COARSE_SUMS": {}}


@pytest.fixture(autouse=True, scope="module")
def toys() -> Iterator[None]:
    with installed():
        yield


def settings_of(name: str, **keys: Any) -> Settings:
    given = {"clients": 6, "rounds": 2, "simulation": {"insecure_noise_seed": 5}} | keys
    return settings_for(encrypt={"encrypt_type": name, **KEYS[name]}, **given)


def in_memory(settings: Settings) -> MemoryEngine:
    engine, kept = run(settings)
    assert [event.survivors for event in finished(kept)] == [6, 6]
    return engine


def assert_same(one: Any, other: Any, exact: bool = False) -> None:
    """The same model and the same ledgers, of two coordinators."""
    for name, array in one.model.items():
        assert array == pytest.approx(other.model[name], abs=0.0 if exact else 1e-6)
    assert [each.to_json() for each in one.spent()] == [each.to_json() for each in other.spent()]


@pytest.mark.parametrize("name", KEYS)
def test_over_grpc(name):
    settings = settings_of(name).networked()
    federation = Federation(settings)
    partings = quickly(whole(federation))
    assert {parting.status for parting in partings.values()} == {"done"}
    assert federation.survivors == [6, 6]
    assert_same(federation.coordinator, in_memory(settings).coordinator)
    paid = [(cost.event, 2 * cost.count) for cost in settings.updates.price(settings, 650).local]
    for guest in federation.clients.values():
        assert list(inside(guest.leaf).client.local.lines) == paid


@pytest.mark.parametrize("name", KEYS)
def test_on_flower_nodes(name):
    """Nodes draw their noise from the operating system, so that only what has none can be compared."""
    settings = settings_of(name, simulation={}).networked()
    engine, kept, wire = fleet(settings)
    engine.run()
    assert [event.survivors for event in finished(kept)] == [6, 6]
    for stored in wire.states.values():  # nothing of a round is left
        state = decode(stored, State, 10_000)
        assert (state.seed, state.frames, state.now.uploads) == (b"", [], 2)
    memory = in_memory(settings)
    if settings.updates.promises:
        assert [each.to_json() for each in engine.coordinator.spent()] == [
            each.to_json() for each in memory.coordinator.spent()
        ]
    else:
        assert_same(engine.coordinator, memory.coordinator)


@pytest.fixture(scope="module")
def ray(toys):
    pytest.importorskip("ray", reason="needs the extra ray")
    from tacit.ray.cluster import cluster

    with cluster("local", 2) as connected:
        yield connected


@pytest.mark.slow  # a cluster takes seconds to start
@pytest.mark.parametrize("name", KEYS)
def test_on_ray(ray, name):
    from tacit.kinds.horizontal.simulate.ray_engine import RayEngine

    settings = settings_of(name, engine={"kind": "ray"})
    kept = Kept()
    engine = RayEngine(settings, tasks.make("digits", 6, settings.seed, {}), kept)
    engine.run()
    assert [event.survivors for event in finished(kept)] == [6, 6]
    assert_same(engine.coordinator, in_memory(settings).coordinator, exact=True)


# --- an event that was not paid


CHEAPER = """
from dataclasses import replace
from toy_protections.laplace_updates import LaplaceUpdates

class Cheaper(LaplaceUpdates):
    \"\"\"Says less than it releases.\"\"\"
    name = "CHEAPER"
    def price(self, settings, size):
        price = super().price(settings, size)
        (cost,) = price.local
        return replace(price, local=(replace(cost, event=replace(cost.event, epsilon=cost.event.epsilon / 2)),))

protection = Cheaper()
"""


@pytest.fixture
def cheaper(tmp_path: Path) -> Iterator[Settings]:
    package(tmp_path, "cheap", CHEAPER, {"CHEAPER": "protection"})
    with installed(tmp_path), installed(TOYS):
        yield settings_for(clients=6, rounds=1, encrypt={"encrypt_type": "CHEAPER"})


def test_an_unpaid_event_ends_a_run_in_memory(cheaper):
    seen: list[object] = []
    with pytest.raises(ValueError, match=r"an update would cost .*epsilon=4.* its price says .*epsilon=2.* not sent"):
        run(cheaper, watch=lambda client, message: seen.append(message))
    assert not seen


def test_an_unpaid_event_ends_a_client_over_grpc(cheaper):
    federation = Federation(cheaper)

    async def failed() -> list[Any]:
        async with federation.serve():
            for identity in range(6):
                federation.join(identity)
            ended = await asyncio.gather(*federation.running.values(), return_exceptions=True)
            await federation.serving  # its only round is over, without an update
            return ended

    assert {type(error) for error in quickly(failed())} == {ValueError}
    assert [event.reason for event in federation.aborted()] == ["0 updates, 3 are needed"]


def test_an_unpaid_event_does_not_leave_a_flower_node(cheaper):
    engine, kept, _ = fleet(cheaper)
    engine.run()
    assert not finished(kept)
    refused = {event.reason for event in kept.events if isinstance(event, ClientRefused)}
    assert refused == {"its training failed"}


# --- training that fails


class Failing(Numbers):
    """The training of client 2 fails."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self._how = how

    def fit(self, client, model, work) -> Fitted:
        if client != 2:
            return super().fit(client, model, work)
        if self._how == "raises":
            raise ZeroDivisionError("in the data")
        return Fitted({"weights": np.full(5, np.nan)}, 1)


@pytest.mark.parametrize("how", ["raises", "nan"])
@pytest.mark.parametrize("name", KEYS)
def test_a_failed_fit_is_hidden_where_the_protection_says_so(name, how):
    settings = settings_of(name, simulation={})
    task = Failing(how)
    node = Node(settings, 2, task, None)
    layout = Prepared.of(settings, task).layout
    work = to_frame(Work(0, np.zeros(5)))
    frames, stored = node.answer("train.work", work, b"", b"")
    if settings.updates.hides_failure:
        (sent,) = [to_coordinator(frame, layout, None, len(frame)) for frame in frames]
        assert isinstance(sent, Update)
        assert np.abs(sent.vector).max() < 1.0  # noise around nothing
    else:
        engine, kept, _ = fleet(settings, task=task)
        engine.run()
        assert [event.survivors for event in finished(kept)] == [5, 5]
        reason = "its training failed" if how == "raises" else "its training gave NaN or infinite numbers"
        assert {(event.client, event.reason) for event in kept.events if isinstance(event, ClientRefused)} == {
            (2, reason)
        }
    assert not any(b"in the data" in frame for frame in (*frames, stored))
    assert not any(isinstance(to_coordinator(frame, layout, None, len(frame)), Abort) for frame in frames)
