"""The protocol on Flower: a stage at a time, with state that is bytes; and once on a real SuperLink."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

from tacit.errors import PeerError
from tacit.events import ClientRefused, Evaluated, Kept, Noted, RoundAborted
from tacit.flower import TELEMETRY_OFF
from tacit.flower.fleet import FleetEngine
from tacit.flower.node import NEW, STAGES, Node, State
from tacit.flower.once import Once
from tacit.kinds.horizontal.coordinator import Phase
from tacit.kinds.horizontal.frames import to_coordinator, to_frame
from tacit.kinds.horizontal.messages import Work
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.net.identity import Credentials
from tacit.net.key_files import init_authority, make_request, sign_request
from tacit.net.star import client_name
from tacit.secagg.messages import Abort, Reveal, Survivors, pack_ids, unpack_ids
from tacit.wire import decode, encode
from tests.commands import invoke
from tests.flower.fleets import Wire, credentials, fleet
from tests.kinds.horizontal.federations import Failing, another_model_after, finished, settings_for
from tests.subprocesses import HANGS, free_port, kill, launch


def expected_mean(settings: Settings, gone: set[int]) -> dict[str, np.ndarray]:
    """The model after one round in the clear, without `gone`: the oracle of an exact weighted mean."""
    from tacit.kinds.horizontal.simulate.memory import MemoryEngine

    plain = settings.model_copy(update={"encrypt": settings_for().encrypt})
    engine = MemoryEngine(plain, tasks.make("digits", settings.clients, settings.seed, {}), Kept())
    for client, message in engine.coordinator.begin(0.0):
        if client in gone:
            engine.coordinator.left(client)
        else:
            for answer in engine._answer(client, message, "stays"):
                engine.coordinator.receive(client, answer, 0.0)
    return engine.coordinator.model


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"])
@pytest.mark.parametrize("mode", ["active", "semi_honest"])
def test_every_protection_runs_a_stage_at_a_time(encrypt_type, mode):
    settings = settings_for(clients=6, rounds=2, encrypt={"encrypt_type": encrypt_type, "mode": mode})
    engine, kept, wire = fleet(settings)
    engine.run()
    assert [event.survivors for event in finished(kept)] == [6, 6]
    for stored in wire.states.values():  # nothing of a round is left
        state = decode(stored, State, 10_000)
        assert (state.seed, state.known, state.frames) == (b"", b"", [])
        assert (state.now.attempts, state.now.uploads) == (2, 2)
    if encrypt_type in ("NOT_ENCRYPT", "PW_ENCRYPT"):
        once, _, _ = fleet(settings.model_copy(update={"rounds": 1}))
        once.run()
        for name, array in expected_mean(settings, set()).items():
            assert once.coordinator.model[name] == pytest.approx(array, abs=1e-6)


@pytest.mark.parametrize("stage", list(STAGES)[:-1])
@pytest.mark.parametrize("mode", ["active", "semi_honest"])
def test_a_node_that_drops_in_any_stage_is_left_out_or_kept_and_the_sum_is_right(stage, mode):
    if stage == "query.agreements" and mode == "semi_honest":
        pytest.skip("there is no such stage")
    settings = settings_for(clients=5, rounds=1, encrypt={"encrypt_type": "PW_ENCRYPT", "mode": mode})
    engine, kept, _ = fleet(settings, lost={1002: stage})
    engine.run()
    (event,) = finished(kept)
    uploaded = stage in ("query.survivors", "query.agreements")
    assert event.survivors == (5 if uploaded else 4)
    for name, array in expected_mean(settings, set() if uploaded else {2}).items():
        assert engine.coordinator.model[name] == pytest.approx(array, abs=1e-6)


@pytest.mark.parametrize("mode", ["active", "semi_honest"])
def test_few_bits_and_a_node_that_drops(mode):
    masks = {"bits": 12, "clip": 1.0, "largest_weight": 300, "mode": mode}
    encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": masks}
    settings = settings_for(clients=5, rounds=1, encrypt=encrypt, round={"down": 12})
    engine, kept, _ = fleet(settings, lost={1002: "train.inbox"})
    engine.run()
    assert [event.survivors for event in finished(kept)] == [4]
    for name, array in expected_mean(settings, {2}).items():
        # Each client of about 290 samples rounds to a step of its part of largest_weight.
        assert engine.coordinator.model[name] == pytest.approx(array, abs=300 / 280 / 2047)


def test_too_many_drops_abort_cleanly():
    settings = settings_for(clients=5, rounds=1, encrypt={"encrypt_type": "PW_ENCRYPT", "mode": "active"})
    engine, kept, wire = fleet(settings, lost={1001: "query.roster", 1002: "query.roster"})
    engine.run()
    (aborted,) = [event for event in kept.events if isinstance(event, RoundAborted)]
    assert aborted.reason == "3 clients shared their secrets, 4 are needed"
    for node in (1000, 1003, 1004):
        assert not decode(wire.states[node], State, 10_000).seed


def test_private_evaluation():
    settings = settings_for(
        task="digits_unsupervised",
        clients=5,
        rounds=1,
        encrypt={
            "encrypt_type": "PW_ENCRYPT",
            "mode": "semi_honest",
            "privacy_eval_type": "LAPLACE",
            "laplace_eval_eps": 9,
        },
        unsupervised={"cluster_client_num": 5},
    )
    engine, kept, _ = fleet(settings)
    engine.run()
    (score,) = [event for event in kept.events if isinstance(event, Evaluated)]
    assert (score.clients, score.vectors) == (5, 40)


class Broken:
    def __init__(self) -> None:
        self._digits = tasks.make("digits", 5, 0, {})

    def model(self):
        return self._digits.model()

    def fit(self, client, model, work):
        if client == 3:
            raise RuntimeError("record 17 of Mr Smith is empty")
        return self._digits.fit(client, model, work)


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "PW_ENCRYPT"])
def test_a_task_that_fails_says_nothing_of_its_records(encrypt_type):
    settings = settings_for(clients=5, rounds=1, encrypt={"encrypt_type": encrypt_type, "mode": "active"})
    engine, kept, wire = fleet(settings, task=Broken())
    engine.run()
    assert [event.survivors for event in finished(kept)] == [4]
    (refused,) = [event for event in kept.events if isinstance(event, ClientRefused)]
    assert (refused.client, refused.reason) == (3, "its training failed")
    assert "Smith" in str(wire._nodes[1003].failure)


def secret_round(stop: str) -> tuple[Wire, FleetEngine, list[tuple[int, str, dict[str, bytes], bytes]]]:
    """A masked round in active mode, and all that was sent."""
    settings = settings_for(clients=5, rounds=1, encrypt={"encrypt_type": "PW_ENCRYPT", "mode": "semi_honest"})
    engine, _, wire = fleet(settings)
    sent = []
    send = wire.send

    def watched(node, stage, group, parts):
        before = wire.states[node]
        name = send(node, stage, group, parts)
        sent.append((node, stage, parts, before))
        return name

    wire.send = watched
    engine.run()
    return wire, engine, [entry for entry in sent if entry[1] == stop]


def test_a_node_reveals_once_whatever_it_is_asked_again():
    wire, _, sent = secret_round("query.survivors")
    node, stage, parts, _ = sent[0]
    survivors = decode(parts["frame"], Survivors, 10_000)
    alive = unpack_ids(survivors.alive)
    other = Survivors(survivors.session, survivors.total, pack_ids(alive[:-1]), pack_ids(alive[-1:]))
    for asked in (parts["frame"], encode(other)):
        frames, state = wire._nodes[node].answer(stage, asked, b"", wire.states[node])
        (message,) = [decode(frame, Abort, 1000) for frame in frames]
        assert "without a round" in message.reason
        assert not decode(state, State, 10_000).seed


def test_the_same_message_and_state_give_the_same_answer():
    """Flower may hand a message over again when a process died before it answered."""
    wire, engine, sent = secret_round("query.survivors")
    node, stage, parts, before = sent[0]
    first, second = (wire._nodes[node].answer(stage, parts["frame"], b"", before) for _ in range(2))
    assert first == second
    assert isinstance(to_coordinator(first[0][0], engine.coordinator.layout, None, 10_000), Reveal)


def test_what_was_answered_is_not_answered_again_from_an_old_context(tmp_path):
    """As if Flower had lost what the client stored after its answer."""
    settings = settings_for(clients=5, rounds=1, encrypt={"encrypt_type": "PW_ENCRYPT", "mode": "semi_honest"})
    engine, kept, wire = fleet(settings)
    node = wire._nodes[1000]
    node._once = Once(tmp_path / "answered.json")
    asked: dict[str, tuple[bytes, bytes]] = {}
    answer = node.answer

    def watched(stage, message, known, stored):
        asked[stage] = (message, stored)
        return answer(stage, message, known, stored)

    node.answer = watched
    engine.run()
    assert [event.survivors for event in finished(kept)] == [5]
    message, stored = asked["query.survivors"]
    frames, _ = answer("query.survivors", message, b"", stored)
    assert decode(frames[0], Abort, 1000).reason == "this stage was answered before"
    message, stored = asked["train.work"]
    frames, _ = answer("train.work", message, b"", stored)
    assert "round 0 was answered before" in decode(frames[0], Abort, 1000).reason


@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("mode", ["active", "semi_honest"])
def test_a_client_that_declines_a_model_says_why_and_answers_the_next(tmp_path, mode, forgets):
    """Also if Flower loses what the clients stored in a round: what they uploaded for is on their own disk."""
    masks = {"encrypt_type": "PW_ENCRYPT", "mode": mode, "pw_encrypt": {"bound": 64.0}}
    settings = settings_for(clients=6, rounds=3, encrypt=masks, round={"update_model_ratio": 1.0, "repeats": 0})
    engine, kept, wire = fleet(settings, task=Failing({0}))
    for number, node in enumerate(wire._nodes.values()):
        node._once = Once(tmp_path / f"{number}.json")
    another_model_after(engine.coordinator, 2)

    def store(coordinator):
        for stored in wire.states.values() if coordinator.phase is Phase.BETWEEN else ():
            if stored:  # nothing of the round is left, whether it was declined or not
                assert not decode(stored, State, 10_000).seed
        if forgets:
            wire.states = dict.fromkeys(wire.states, b"")

    engine.run(store)
    assert [event.round for event in finished(kept)] == [2]
    declined = {e.client: e.reason for e in kept.events if isinstance(e, ClientRefused) and e.round == 1}
    assert sorted(declined) == [0, 1, 2, 3, 4]
    assert all("uploaded for this very model before" in reason for reason in declined.values())
    standing = decode(wire.states[1001], State, 10_000).now if not forgets else None
    assert standing is None or (len(standing.models), standing.repeats, standing.attempts) == (2, 0, 3)


@pytest.mark.parametrize("forgets", [False, True])
def test_no_client_takes_part_more_often_than_its_cap(tmp_path, forgets):
    """Neither for an honest coordinator, nor if Flower loses what the clients stored and one is asked in each round."""
    settings = settings_for(
        clients=9,
        rounds=3,
        encrypt={"encrypt_type": "DDP_ENCRYPT", "mode": "semi_honest"},
        round={"start_fl_job_threshold": 4, "participations": 2},
    )
    engine, kept, wire = fleet(settings)
    for number, node in enumerate(wire._nodes.values()):
        node._once = Once(tmp_path / f"{number}.json")

    def store(coordinator):
        if forgets:
            wire.states = dict.fromkeys(wire.states, b"")

    engine.run(store)
    assert [event.survivors for event in finished(kept)] == [4, 4, 4]
    counts = [node._once.kept() or {"sums": 0} for node in wire._nodes.values()]
    assert max(state["sums"] for state in counts) == 2
    assert sum(state["sums"] for state in counts) == 12
    assert len(engine.coordinator.left_out) == sum(state["sums"] == 2 for state in counts) > 0
    capped = min(engine.coordinator.left_out)
    model = engine.coordinator.layout.flatten(engine.coordinator.model)
    for number in range(3, settings.answers):
        work = to_frame(Work(number, model))
        (frame,), wire.states[1000 + capped] = wire._nodes[1000 + capped].answer(
            "train.work", work, b"", b"" if forgets else wire.states[1000 + capped]
        )
        assert "at most 2 of a run (round.participations)" in decode(frame, Abort, 1000).reason


def test_a_context_of_an_earlier_release_is_read():
    """It had three counters in place of what a client has answered."""
    old = b"\x01" + msgspec.msgpack.encode([62, [3, 3, 1], [4, 4, 2], b"", b"", []])
    state = decode(old, State, 100)
    assert (state.now.attempts, state.now.sums, state.now.models, state.now.repeats) == (4, 2, [], 0)


def test_a_round_is_answered_once():
    wire, _, sent = secret_round("train.work")
    node, stage, parts, _ = sent[0]
    frames, _ = wire._nodes[node].answer(stage, parts["frame"], b"", wire.states[node])
    assert "and 1 to" in decode(frames[0], Abort, 1000).reason


@pytest.mark.parametrize("frame", [b"", b"\x01", b"\x01\xff" * 20, to_frame(Abort("x"))])
def test_nonsense_is_answered_by_leaving(frame):
    settings = settings_for(clients=5)
    node = Node(settings, 0, tasks.make("digits", 5, 0, {}), None)
    for stage in list(STAGES)[:-1]:
        (answer,), state = node.answer(stage, frame, b"", b"")
        assert isinstance(decode(answer, Abort, 1000), Abort)
        assert decode(state, State, 1000) == NEW


def test_a_node_with_somebody_elses_certificate_takes_no_part():
    settings = settings_for(clients=4, rounds=1, encrypt={"encrypt_type": "PW_ENCRYPT", "mode": "active"})
    engine, kept, wire = fleet(settings)
    stolen = wire._nodes[1001]._credentials.certificate
    thief = credentials("client-9")
    wire._nodes[2000] = Node(settings, 1, tasks.make("digits", 4, 0, {}), thief)
    wire._nodes[2000]._credentials = Credentials(
        "client-1", thief.private_key, stolen, thief.authority, thief.signing_key, thief.expires
    )
    wire._nodes = {2000: wire._nodes[2000], **{n: wire._nodes[n] for n in (1000, 1001, 1002, 1003)}}
    wire.states[2000] = b""
    engine.run()
    assert [event.survivors for event in finished(kept)] == [4]
    notes = [event.text for event in kept.events if isinstance(event, Noted) and "node 2000" in event.text]
    assert len(notes) == 1


def test_active_mode_needs_keys_on_both_sides():
    settings = settings_for(clients=4, encrypt={"encrypt_type": "PW_ENCRYPT", "mode": "active"})
    task = tasks.make("digits", 4, 0, {})
    with pytest.raises(ValueError, match="tacit-local"):
        Node(settings, 0, task, None)
    with pytest.raises(ValueError, match="no authority"):
        FleetEngine(settings, task, Kept(), Wire({}), None)


def test_too_few_nodes_end_the_run_in_a_sentence():
    settings = settings_for(clients=4, round={"start_fl_job_time_window": 1000})
    engine, _, wire = fleet(settings)
    wire._nodes = {1000: wire._nodes[1000]}
    with pytest.raises(PeerError, match="1 clients are there, a round needs 2"):
        engine.run()


# --- the app directory


def written(tmp_path: Path, **keys: object) -> Path:
    file = tmp_path / "fleet.yaml"
    file.write_text(yaml.safe_dump({"kind": "horizontal", "task": "digits", "rounds": 1, "clients": 4, **keys}))
    return file


def test_init_writes_what_flwr_run_takes(tmp_path):
    file = written(tmp_path, encrypt={"encrypt_type": "PW_ENCRYPT"})
    done = invoke("flower", "init", str(file), str(tmp_path / "app"))
    assert done.exit_code == 0, done.output
    assert "cipher_time_window is 10000 ms" in done.output
    assert "need keys" in done.output
    assert sorted(str(p.relative_to(tmp_path / "app")) for p in (tmp_path / "app").rglob("*") if p.is_file()) == [
        "pyproject.toml",
        "tacit_app/__init__.py",
        "tacit_app/client.py",
        "tacit_app/federation.yaml",
        "tacit_app/server.py",
    ]
    again = invoke("flower", "init", str(file), str(tmp_path / "app"))
    assert again.exit_code == 2
    assert "exists" in again.output
    pytest.importorskip("flwr", reason="needs the extra flower")
    built = subprocess.run(
        [Path(sys.executable).with_name("flwr"), "build"],
        cwd=tmp_path / "app",
        env={**os.environ, **TELEMETRY_OFF, "FLWR_HOME": str(tmp_path / "home"), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert list((tmp_path / "app").glob("*.fab"))


def test_init_takes_a_task_beside_the_file_and_refuses_fixed_noise(tmp_path):
    (tmp_path / "mine.py").write_text("def make_task(clients, seed): ...\n")
    done = invoke("flower", "init", str(written(tmp_path, task="mine:make_task")), str(tmp_path / "a"))
    assert done.exit_code == 0
    assert (tmp_path / "a" / "tacit_app" / "mine.py").exists()
    file = written(tmp_path, simulation={"insecure_noise_seed": 1})
    done = invoke("flower", "init", str(file), str(tmp_path / "b"))
    assert done.exit_code == 2
    assert "insecure_noise_seed" in done.output


# --- a real fleet

NODES = 4
DROPS = 2
_TASK = """
import os, time
from pathlib import Path
from tacit import tasks

class Stumbling:
    def __init__(self, clients, seed, marker):
        self._digits, self._marker = tasks.make("digits", clients, seed, {}), Path(marker)

    def model(self):
        return self._digits.model()

    def fit(self, client, model, work):
        if client == %d:
            self._marker.write_text("here")
            time.sleep(600)
        return self._digits.fit(client, model, work)

def make_task(clients, seed, marker):
    return Stumbling(clients, seed, marker)
"""


class Fleet:
    """A SuperLink and SuperNodes on loopback, with nothing of the user's own and nothing sent home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        home = folder / "home"
        home.mkdir()
        (home / "config.toml").write_text(f'[superlink.loopback]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n')
        here = str(Path(sys.executable).parent)
        self._environment = {
            **os.environ,
            **TELEMETRY_OFF,
            "FLWR_HOME": str(home),
            "PATH": f"{here}:{os.environ['PATH']}",
            "PYTHONWARNINGS": "ignore",
            "OMP_NUM_THREADS": "1",
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes[name] = launch(
                command, cwd=self._folder, env=self._environment, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self, name: str) -> None:
        kill(self._processes.pop(name))

    def call(self, *command: str) -> str:
        done = subprocess.run(command, cwd=self._folder, env=self._environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def logs(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self._folder.glob("*.log")))

    def stop(self) -> None:
        for name in list(self._processes):
            self.kill(name)


def _wait_for(what: Callable[[], bool], fleet: Fleet) -> None:
    deadline = time.monotonic() + HANGS
    while not what():
        assert time.monotonic() < deadline, fleet.logs()
        time.sleep(0.2)


@pytest.fixture
def flower_fleet(tmp_path):
    pytest.importorskip("flwr", reason="needs the extra flower")
    made = Fleet(tmp_path)
    yield made
    made.stop()


def _site(folder: Path, name: str) -> Path:
    """Keys of a party, and the local file that names them."""
    _, asked = make_request(name, folder / "keys")
    sign_request(folder / "authority", asked.file)
    keys = {"private": f"keys/{name}.private.pem", "certificate": f"keys/{name}.certificate.pem"}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"keys": {**keys, "authority": "authority/authority.pem"}}))
    return path


@pytest.mark.slow
def test_a_masked_round_on_a_real_superlink_goes_on_without_a_node_that_is_killed(flower_fleet, tmp_path):
    init_authority(tmp_path / "authority")
    sites = [_site(tmp_path, client_name(client)) for client in range(NODES)]
    own = _site(tmp_path, "coordinator")
    (tmp_path / "stumbling_task.py").write_text(_TASK % DROPS)
    marker = tmp_path / "marker"
    file = written(
        tmp_path,
        task="stumbling_task:make_task",
        task_options={"marker": str(marker)},
        train={"epochs": 1, "batch": 16, "learning_rate": 0.5},
        update_model_time_window=120_000,
        encrypt={"encrypt_type": "PW_ENCRYPT", "cipher_time_window": 120_000, "share_secrets_ratio": 1.0},
    )
    tools = Path(sys.executable).parent
    flower_fleet.call(str(tools / "tacit"), "flower", "init", str(file), str(tmp_path / "app"))
    flower_fleet.start(
        "superlink",
        str(tools / "flower-superlink"),
        *("--insecure", "--host", "127.0.0.1", "--port", str(flower_fleet.port)),
        "--disable-runtime-dependency-installation",
    )
    for client, site in enumerate(sites):
        flower_fleet.start(
            f"node-{client}",
            str(tools / "flower-supernode"),
            *("--insecure", "--superlink", f"127.0.0.1:{flower_fleet.port}", "--host", "127.0.0.1"),
            *("--port", str(free_port()), "--node-config", f'tacit-local="{site}"'),
        )
    _wait_for(lambda: _listens(flower_fleet.port), flower_fleet)
    config = f'runs="{tmp_path / "runs"}" local="{own}"'
    flower_fleet.call(str(tools / "flwr"), "run", str(tmp_path / "app"), "loopback", "--run-config", config)
    _wait_for(marker.exists, flower_fleet)
    flower_fleet.kill(f"node-{DROPS}")
    _wait_for(lambda: "RunFinished" in _events(tmp_path), flower_fleet)
    happened = [json.loads(line) for line in _events(tmp_path).splitlines()]
    (done,) = [event for event in happened if event["event"] == "RoundFinished"]
    assert done["survivors"] == NODES - 1
    (run,) = (tmp_path / "runs").iterdir()
    model = load_file(run / "model.safetensors")
    settings = settings_for(clients=NODES, rounds=1)
    for name, array in expected_mean(settings, {DROPS}).items():
        assert model[name] == pytest.approx(array, abs=1e-6)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _events(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("runs/*/events.jsonl"))
