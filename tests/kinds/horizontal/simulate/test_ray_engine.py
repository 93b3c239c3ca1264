"""A federation on Ray comes to the same as in memory, whichever client dies."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.prg import page_columns
from tacit.events import ClientRefused, Evaluated, Kept, Noted, RoundAborted, RoundFinished
from tacit.kinds.horizontal.settings import Engine, Settings
from tacit.kinds.horizontal.simulate.choose import engine_for
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.simulate.ray_engine import RayEngine
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.ray.cluster import SpreadUnmasking, cluster, column_ranges
from tacit.secagg.unmask import plan_of, unmask
from tests.commands import invoke
from tests.kinds.horizontal.federations import finished, settings_for
from tests.kinds.horizontal.simulate.stumbling import STUMBLES
from tests.subprocesses import HANGS

TYPES = ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"]


@pytest.fixture(scope="module")
def ray():
    pytest.importorskip("ray", reason="needs the extra ray")
    with cluster("local", 2) as connected:
        yield connected


@pytest.mark.slow  # and the first, before a cluster is started
def test_a_cluster_that_is_not_there_is_said_so():
    pytest.importorskip("ray", reason="needs the extra ray")
    absent = pytest.raises(ValueError, match=r"engine\.address is auto, and no Ray cluster")
    with absent, cluster("auto", 2):
        pass


def both(settings: Settings) -> tuple[MemoryEngine, Kept, RayEngine, Kept]:
    """The same run in memory and on Ray."""
    task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    here, there = Kept(), Kept()
    memory, spread = MemoryEngine(settings, task, here), RayEngine(settings, task, there)
    memory.run()
    spread.run()
    return memory, here, spread, there


def assert_same_model(one, other) -> None:
    assert one.coordinator.model.keys() == other.coordinator.model.keys()
    for name, array in one.coordinator.model.items():
        assert (array == other.coordinator.model[name]).all()


def told(kept: Kept) -> list[object]:
    """What happened, without times."""
    found: list[object] = []
    for event in kept.events:
        match event:
            case RoundFinished():
                found.append((event.round, event.survivors, event.refused, event.metrics, event.training_loss))
            case RoundAborted():
                found.append((event.round, event.reason))
            case ClientRefused() | Evaluated():
                found.append(event)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("encrypt_type", TYPES)
def test_the_model_is_that_of_the_engine_in_memory(ray, encrypt_type):
    settings = settings_for(
        encrypt={"encrypt_type": encrypt_type}, simulation={"insecure_noise_seed": 3}, engine={"kind": "ray"}
    )
    memory, here, spread, there = both(settings)
    assert_same_model(memory, spread)
    assert told(here) == told(there)
    assert [event.bytes_up for event in finished(here)] == pytest.approx(
        [event.bytes_up for event in finished(there)], rel=0.05
    )
    spent = [[each.to_json() for each in engine.coordinator.spent()] for engine in (memory, spread)]
    assert spent[0] == spent[1]


@pytest.mark.slow
@pytest.mark.parametrize("encrypt_type", ["PW_ENCRYPT", "DDP_ENCRYPT"])
def test_few_bits_come_to_the_same(ray, encrypt_type):
    masks = {"bits": 8} | ({"clip": 0.05, "largest_weight": 200} if encrypt_type == "PW_ENCRYPT" else {})
    settings = settings_for(
        encrypt={"encrypt_type": encrypt_type, "pw_encrypt": masks},
        simulation={"insecure_noise_seed": 3, "dropout": 0.1},
        round={"down": 8},
        clients=24,
        engine={"kind": "ray"},
    )
    memory, here, spread, there = both(settings)
    assert_same_model(memory, spread)
    assert [event.bytes_up for event in finished(here)] == pytest.approx(
        [event.bytes_up for event in finished(there)], rel=0.05
    )
    clipped = [[event.text for event in kept.events if isinstance(event, Noted)] for kept in (here, there)]
    assert clipped[0] == clipped[1]
    assert len(clipped[0]) == (encrypt_type == "PW_ENCRYPT")


@pytest.mark.slow
@pytest.mark.parametrize("encrypt_type", TYPES)
def test_faults_come_to_the_same(ray, encrypt_type):
    simulation = {"insecure_noise_seed": 3, "dropout": 0.1, "lateness": 0.1, "bad": {"shape": 1, "twice": 1, "nan": 1}}
    settings = settings_for(
        encrypt={"encrypt_type": encrypt_type}, simulation=simulation, clients=24, engine={"kind": "ray"}
    )
    memory, here, spread, there = both(settings)
    assert any(isinstance(event, ClientRefused) for event in here.events)
    assert sorted(map(str, told(here))) == sorted(map(str, told(there)))
    for name, array in memory.coordinator.model.items():
        assert array == pytest.approx(spread.coordinator.model[name], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "PW_ENCRYPT"])
def test_private_evaluation_comes_to_the_same(ray, encrypt_type):
    encrypt = {"encrypt_type": encrypt_type, "privacy_eval_type": "LAPLACE", "laplace_eval_eps": 50}
    settings = settings_for(
        task="digits_unsupervised",
        encrypt=encrypt,
        unsupervised={"cluster_client_num": 12},
        simulation={"insecure_noise_seed": 3},
        engine={"kind": "ray"},
        rounds=2,
    )
    memory, here, spread, there = both(settings)
    assert_same_model(memory, spread)
    scores = [event for event in there.events if isinstance(event, Evaluated)]
    assert len(scores) == 2
    assert told(here) == told(there)


def killed_once(settings: Settings, marker: Path) -> tuple[RayEngine, Kept]:
    """A run in which the process of a client's worker is killed while that client trains."""
    kept, pids = Kept(), set()
    task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    engine = RayEngine(settings, task, kept, started=pids.update)

    def kill() -> None:
        while not marker.exists():
            time.sleep(0.02)
        victim = int(marker.read_text())
        assert victim in pids
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    engine.run()
    killer.join(HANGS)
    assert not killer.is_alive()
    assert any(isinstance(event, Noted) and "died" in event.text for event in kept.events)
    return engine, kept


@pytest.mark.slow
@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "DP_ENCRYPT"])
def test_a_worker_killed_in_a_round_changes_nothing_without_masks(ray, encrypt_type, tmp_path):
    keys = {"encrypt": {"encrypt_type": encrypt_type}, "simulation": {"insecure_noise_seed": 3}, "rounds": 2}
    marker = tmp_path / "marker"
    settings = settings_for(
        task="tests.kinds.horizontal.simulate.stumbling:make_task",
        task_options={"marker": str(marker)},
        engine={"kind": "ray"},
        **keys,
    )
    engine, kept = killed_once(settings, marker)
    assert [event.survivors for event in finished(kept)] == [12, 12]
    plain = settings_for(**keys)
    memory = MemoryEngine(plain, tasks.make("digits", 12, 0, {}), Kept())
    memory.run()
    assert_same_model(memory, engine)


@pytest.mark.slow
def test_the_clients_of_a_worker_killed_under_masks_have_left_and_the_sum_is_right(ray, tmp_path):
    marker = tmp_path / "marker"
    settings = settings_for(
        task="tests.kinds.horizontal.simulate.stumbling:make_task",
        task_options={"marker": str(marker)},
        engine={"kind": "ray", "workers": 4},
        encrypt={"encrypt_type": "PW_ENCRYPT"},
        rounds=1,
    )
    engine, kept = killed_once(settings, marker)
    (event,) = finished(kept)
    assert event.survivors == 10
    gone = {7, 8}  # the third of four workers had 6, 7 and 8, and had sent on what 6 uploaded
    assert STUMBLES in gone
    digits = tasks.make("digits", 12, 0, {})
    alone = MemoryEngine(settings_for(rounds=1), digits, Kept())
    work = alone.coordinator.begin(0.0)
    for client, message in work:
        if client in gone:
            alone.coordinator.left(client)
        else:
            for answer in alone._answer(client, message, "stays"):
                alone.coordinator.receive(client, answer, 0.0)
    for name, array in alone.coordinator.model.items():
        assert engine.coordinator.model[name] == pytest.approx(array, abs=1e-6)


@pytest.mark.slow
def test_too_many_deaths_abort_the_round_and_the_next_goes_on(ray, tmp_path):
    marker = tmp_path / "marker"
    settings = settings_for(
        task="tests.kinds.horizontal.simulate.stumbling:make_task",
        task_options={"marker": str(marker)},
        engine={"kind": "ray", "workers": 2},
        encrypt={"encrypt_type": "PW_ENCRYPT"},
        rounds=2,
    )
    _, kept = killed_once(settings, marker)
    (aborted,) = [event for event in kept.events if isinstance(event, RoundAborted)]
    assert aborted.reason == "fewer than 7 shares of a secret were revealed"
    assert [(event.round, event.survivors) for event in finished(kept)] == [(1, 12)]


@pytest.mark.slow
def test_a_mistake_in_the_task_is_raised_as_it_is(ray):
    settings = settings_for(
        task="tests.kinds.horizontal.simulate.stumbling:make_task",
        task_options={"marker": "/nonexistent/marker"},
        engine={"kind": "ray"},
    )
    task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    with pytest.raises(FileNotFoundError, match="marker"):
        RayEngine(settings, task, Kept()).run()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unmasking_by_tasks_gives_the_same_bits(ray, dtype, monkeypatch):
    monkeypatch.setattr("tacit.ray.cluster._WORTHWHILE", 0)
    rng = np.random.default_rng(5)
    keys = [(rng.bytes(16), int(sign)) for sign in rng.choice([-1, 1], 20)]
    words = rng.integers(0, 2**16, 200_003, dtype=dtype)
    spread = words.copy()
    unmask(words, plan_of(keys))
    SpreadUnmasking(ray, 2)(spread, plan_of(keys), [0, 7, 100_000, 200_003])
    assert (words == spread).all()


@given(columns=st.integers(1, 10**8), parts=st.integers(1, 64), data=st.data())
def test_ranges_cover_every_column_once(columns, parts, data):
    inner = data.draw(st.lists(st.integers(1, columns), max_size=3))
    edges = sorted({0, columns, *inner})
    ranges = column_ranges(columns, edges, parts, np.uint32)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == columns
    assert all(last == first for (_, last), (first, _) in pairwise(ranges))
    assert all(0 < last - first <= max(1 << 20, page_columns(np.uint32)) for first, last in ranges)


def test_without_ray_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    settings = settings_for(engine={"kind": "ray"})
    with pytest.raises(ValueError, match=r"pip install 'tacit-learning\[ray\]'"):
        engine_for(settings, tasks.make("digits", 12, 0, {}), Kept())


def fleet(tmp_path: Path) -> str:
    file = tmp_path / "fleet.yaml"
    file.write_text("{kind: horizontal, task: digits, rounds: 2, clients: 12}")
    return str(file)


def test_the_command_says_so_too(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    done = invoke("run", fleet(tmp_path), "--engine", "ray", "--runs", str(tmp_path / "runs"))
    assert done.exit_code == 2
    assert "pip install 'tacit-learning[ray]'" in done.output


@pytest.mark.slow
def test_the_command_runs_a_file_on_ray_and_resumes_it_in_memory(ray, tmp_path):
    runs = tmp_path / "runs"
    done = invoke("run", fleet(tmp_path), "--engine", "ray", "--runs", str(runs), "--quiet")
    assert done.exit_code == 0, done.output
    (run,) = runs.iterdir()
    more = invoke("run", "--resume", str(run), "--engine", "memory", "--set", "rounds=3", "--quiet")
    assert more.exit_code == 0, more.output
    assert (run / "events.jsonl").read_text().count('"RoundFinished"') == 3


@pytest.mark.slow
def test_an_interrupted_run_ends_between_two_clients(ray):
    settings = settings_for(engine={"kind": "ray"})
    engine = RayEngine(settings, tasks.make("digits", 12, 0, {}), Kept())
    asked = iter([False, False, False])
    with pytest.raises(KeyboardInterrupt):
        engine.run(should_stop=lambda: next(asked, True))
    assert engine.coordinator.state()["under_way"]


@pytest.mark.parametrize("address", ["somewhere", "host:0", "", "host:99999"])
def test_an_address_is_local_auto_or_a_host_and_port(address):
    with pytest.raises(ValueError, match="local, auto or HOST:PORT"):
        Engine(kind="ray", address=address)
    assert Engine(address="10.0.0.1:6379").address == "10.0.0.1:6379"
