"""A cap on how often a client takes part: clients keep it, the coordinator plans with it, the noise is sized for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import rdp
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit.config.source import ConfigError
from tacit.errors import BudgetError, PeerError, Unfit
from tacit.events import ClientRefused, Kept, RoundAborted
from tacit.kind import fingerprint
from tacit.kinds.horizontal import boundary, join
from tacit.kinds.horizontal import run as carrying_out
from tacit.kinds.horizontal.bounded_participation import expected_samples
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.frames import FramedCoordinator, to_coordinator
from tacit.kinds.horizontal.masked import secure_context
from tacit.kinds.horizontal.messages import Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.protections.distributed_dp import skellam_encoding
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.simulate.ray_worker import Head, Worker
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.messages import Abort, Masked
from tacit.secagg.server import Server
from tacit.secagg.server import State as Stage
from tests.commands import invoke
from tests.kinds.horizontal.federations import Inferring, Numbers, finished, run, settings_for

DDP = {"encrypt_type": "DDP_ENCRYPT", "ddp_eps": 4.0, "ddp_delta": 1e-5}
MODEL = np.zeros(5)


def capped(most: int | None = 2, *, rounds: int = 6, clients: int = 24, sampled: int = 6, **keys) -> Settings:
    round = {"start_fl_job_threshold": sampled} | ({} if most is None else {"participations": most})
    keys["round"] = round | keys.get("round", {})
    return settings_for(**({"rounds": rounds, "clients": clients, "encrypt": DDP} | keys))


class Watched:
    """Who uploaded how often, by what left the clients."""

    def __init__(self) -> None:
        self.uploads: Counter[int] = Counter()

    def __call__(self, client, message) -> None:
        self.uploads[client] += isinstance(message, Masked)


# --- what the file says


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT"])
def test_only_noise_that_is_sized_for_sums_takes_a_cap(encrypt_type):
    with pytest.raises(ValueError, match=rf"participations is 2, and {encrypt_type} has no noise .* DDP_ENCRYPT"):
        capped(encrypt={"encrypt_type": encrypt_type})


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"most": 2, "clients": 6}, "every client is in each round"),
        (
            {"most": 1, "clients": 8, "rounds": 5},
            r"8 clients upload 8 times at most, and 5 rounds need 15 .* to 2 or more",
        ),
        ({"most": 0}, "greater than or equal to 1"),
        ({"most": True}, "valid integer"),
    ],
)
def test_a_cap_that_cannot_work_is_refused(keys, words):
    with pytest.raises(ValueError, match=words):
        capped(**keys)


def test_without_the_key_neither_the_file_nor_its_fingerprint_has_it():
    settings = capped(None)
    assert "participations" not in settings.model_dump()["round"]
    assert "participations" not in settings.model_dump(mode="json")["round"]
    assert fingerprint(settings) != fingerprint(capped(2)) != fingerprint(capped(3))
    again = Settings.model_validate(capped(2).model_dump())
    assert again.round.participations == 2
    assert again.networked().round.participations == 2


def test_the_boundary_names_the_cap_and_what_it_rests_on():
    assert any("a client uploads 2 times at most" in line for line in boundary.sentences(capped(2)))
    (said,) = [line for line in boundary.unprotected(capped(2)) if "round.participations" in line]
    assert "started anew without its folder, or with an old copy of it" in said
    assert not any(
        "uploads" in line for line in (*boundary.sentences(capped(None)), *boundary.unprotected(capped(None)))
    )


def test_of_a_resumed_run_the_rounds_may_change_and_the_cap_may_not():
    assert "round.participations" not in carrying_out.may_change(capped(2))
    assert "rounds" in carrying_out.may_change(capped(2))
    assert skellam_encoding(capped(2, rounds=10), 5) == skellam_encoding(capped(2, rounds=6), 5)
    for sized_for_rounds in (capped(None), capped(6), capped(9)):
        assert "rounds" not in carrying_out.may_change(sized_for_rounds)
    assert fingerprint(capped(2, rounds=10)) == fingerprint(capped(2, rounds=6)) != fingerprint(capped(2, rounds=2))


# --- what it costs


@pytest.mark.parametrize(("most", "rounds"), [(1, 6), (4, 40), (20, 100)])
def test_the_noise_is_the_least_for_which_so_many_sums_cost_the_epsilon_of_the_run(most, rounds):
    """The oracle: the bound of Agarwal, Kairouz and Liu for whole orders, composed and converted by dp-accounting."""
    settings = capped(most, rounds=rounds, clients=1000, sampled=100)
    event = skellam_encoding(settings, 650).event()
    orders = np.arange(2, 300)
    square, variance = event.l2_sensitivity**2, event.variance
    extra = ((2 * orders - 1) * square + 6 * event.l1_sensitivity) / (4 * variance**2)
    one = orders * square / (2 * variance) + np.minimum(extra, 3 * event.l1_sensitivity / (2 * variance))
    whole, _ = rdp.rdp_privacy_accountant.compute_epsilon(orders, most * one, 1e-5)
    more, _ = rdp.rdp_privacy_accountant.compute_epsilon(orders, (most + 1) * one, 1e-5)
    assert whole == pytest.approx(4.0, rel=0.02)
    assert more > 4.0
    (spent,) = Costs(settings, 650).spent(most, most)
    assert 3.99 < spent.epsilon <= 4.0
    assert Costs(settings, 650).beyond(most + 1, most + 1) is not None


def test_the_noise_falls_by_the_root_of_the_sums():
    with_cap, without = (skellam_encoding(capped(n, rounds=100, clients=1000, sampled=100), 650) for n in (20, None))
    assert with_cap.noise_multiplier / without.noise_multiplier == pytest.approx(np.sqrt(0.2), rel=0.01)


def test_a_cap_above_the_rounds_changes_no_noise():
    assert skellam_encoding(capped(50), 5) == skellam_encoding(capped(None), 5)


# --- a coordinator that cheats: it asks the same clients in every round


class Asking:
    """Real clients with real state files, asked by a coordinator that keeps no rule of its own."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder, self.task = settings, folder, Numbers()
        self.layout = Layout.of(self.task.model())
        self.costs = Costs(settings, self.layout.size)
        self.left: Counter[int] = Counter()  # uploads, which leave after they are stored
        self.reasons: dict[int, str] = {}

    def client(self, identity: int) -> Client:
        client = Client(self.settings, identity, self.task.fit, self.layout)
        if (stored := join._stored(self.folder, identity, fingerprint(self.settings))) is not None:
            client.restore(stored)
        return client

    def ask(self, number: int, clients: list[int], *, lose: str = "") -> bool:
        """One round of these clients, each as its folder has it; whether its sum is opened. `lose`: messages that do
        not reach the coordinator."""
        there = {identity: self.client(identity) for identity in clients}
        stores = {each: join._storer(self.folder, each, self.costs, fingerprint(self.settings)) for each in clients}
        server = Server(secure_context(self.settings, self.layout, MODEL, number), clients)
        server.start(0.0)
        outgoing = [(client, Work(number, MODEL)) for client in clients]
        now = 0.0
        while server.state < Stage.READY:
            if not outgoing:
                now += 1e6
                outgoing = server.tick(now)
                continue
            answers = []
            for client, message in outgoing:
                try:
                    found = there[client].receive(message, now)
                except (PeerError, BudgetError) as error:
                    found = [Abort(str(error))]
                if found:
                    stores[client](there[client])
                for answer in found:
                    self.left[client] += isinstance(answer, Masked)
                    if isinstance(answer, Abort):
                        self.reasons[client] = answer.reason
                    if type(answer).__name__ != lose:
                        answers += server.receive(client, answer, now)
            outgoing = answers
        return server.state is Stage.READY


@pytest.mark.parametrize("lose", ["", "Masked"])
def test_a_coordinator_that_asks_in_every_round_gets_no_more_uploads_than_the_cap(tmp_path, lose):
    """Clients are started again from their files in each round. An upload that was lost counts: others may have it."""
    settings = capped(3, rounds=10)
    asking = Asking(settings, tmp_path)
    opened = [asking.ask(number, list(range(6)), lose=lose) for number in range(settings.answers)]
    assert asking.left == dict.fromkeys(range(6), 3)
    assert opened == [not lose] * 3 + [False] * (settings.answers - 3)
    assert set(asking.reasons) == set(range(6))
    assert asking.reasons[2] == (
        "it has taken part in 3 rounds, and takes part in at most 3 of a run (round.participations): it answers no more"
    )
    assert asking.ask(5, [6, 7, 8, 9, 10, 11])  # others are not concerned


def test_without_the_cap_it_gets_as_many_as_the_noise_is_sized_for(tmp_path):
    """The control: the attack asks as often as clients answer at all."""
    asking = Asking(capped(None, rounds=6), tmp_path)
    opened = [asking.ask(number, list(range(6))) for number in range(8)]
    assert opened == [True] * 6 + [False] * 2
    assert asking.left[0] == 6


def test_a_round_number_that_was_asked_before_gives_nothing(tmp_path):
    asking = Asking(capped(3, rounds=10), tmp_path)
    assert asking.ask(4, list(range(6)))
    for number in (4, 4, 0, 3):
        assert not asking.ask(number, list(range(6)))
    assert asking.left[0] == 1


def test_rounds_that_end_before_the_upload_do_not_count(tmp_path):
    asking = Asking(capped(1, rounds=6), tmp_path)
    for number in range(3):
        assert not asking.ask(number, list(range(6)), lose="Shares")
    assert asking.ask(3, list(range(6)))
    assert not asking.ask(4, list(range(6)))


def test_a_file_with_a_larger_cap_does_not_open_the_state_of_the_run(tmp_path):
    asking = Asking(capped(2, rounds=10), tmp_path)
    assert asking.ask(0, list(range(6)))
    with pytest.raises(ConfigError, match=r"client-0.json: config.yaml was changed since"):
        Asking(capped(9, rounds=10), tmp_path).ask(1, list(range(6)))
    with pytest.raises(ConfigError, match="spent under the old settings"):
        Asking(capped(None, rounds=10), tmp_path).ask(1, list(range(6)))


_KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.kinds.horizontal import test_bounded_participation as the
folder = Path(sys.argv[1])
asking, number = the.Asking(the.capped(2, rounds=10), folder), folder / "number"
receive = the.Server.receive

def and_die(server, client, message, now):
    if isinstance(message, the.Masked):
        with open(folder / "uploads", "a") as file:
            file.write(f"{client}\\n")
        os.kill(os.getpid(), signal.SIGKILL)
    return receive(server, client, message, now)

the.Server.receive = and_die
while (asked := int(number.read_text()) if number.exists() else 0) < 4:
    number.write_text(str(asked + 1))
    asking.ask(asked, list(range(6)))
"""


def test_a_client_that_is_killed_once_its_upload_left_still_counts_it(tmp_path):
    """The process with the clients ends by SIGKILL when an upload has left, and its clients start from their files."""
    root = Path(__file__).parents[3]
    endings = []
    while not endings or endings[-1] == -signal.SIGKILL:
        command = [sys.executable, "-c", _KILLED, str(tmp_path), str(root)]
        endings.append(subprocess.run(command, check=False, env=os.environ).returncode)
    assert endings == [-signal.SIGKILL] * (len(endings) - 1) + [0]
    uploads = Counter((tmp_path / "uploads").read_text().split())
    assert uploads["0"] == max(uploads.values()) == 2
    assert json.loads((tmp_path / "client-0.json").read_text())["state"]["sums"] == 2


# --- a coordinator that is honest


@pytest.mark.parametrize("over_select", [1.0, 1.5])
def test_no_client_is_asked_beyond_the_cap_and_none_declines(over_select):
    settings = capped(2, rounds=6, clients=40, round={"over_select": over_select})
    watched = Watched()
    engine, kept = run(settings, Numbers(), watch=watched)
    assert len(finished(kept)) == 6
    assert max(watched.uploads.values()) == 2
    assert sum(watched.uploads.values()) == 6 * settings.sampled
    assert not [event for event in kept.events if isinstance(event, ClientRefused)]
    (spent,) = engine.coordinator.spent()
    assert spent.epsilon == Costs(settings, 5).spent(0, 2)[0].epsilon <= 4.0


def test_the_ledger_is_that_of_the_client_in_most_sums():
    settings = capped(5, rounds=4, clients=200)
    watched = Watched()
    engine, kept = run(settings, Numbers(), watch=watched)
    most = max(watched.uploads.values())
    assert most < 4
    (spent,) = engine.coordinator.spent()
    assert spent.epsilon == Costs(settings, 5).spent(0, most)[0].epsilon
    assert finished(kept)[-1].epsilon == spent.epsilon


def test_a_sum_that_was_not_opened_costs_the_coordinator_nothing():
    settings = capped(
        2, encrypt=DDP | {"n_min": 4}, simulation={"dropout": 0.9}, round={"update_model_ratio": 0.1}, rounds=2
    )
    engine, kept = run(settings, Numbers())
    assert [event for event in kept.events if isinstance(event, RoundAborted)]
    assert not finished(kept)
    assert engine.coordinator.spent()[0].epsilon == 0


def test_rounds_are_smaller_when_few_are_left_and_the_run_ends_when_too_few_are():
    settings = capped(1, rounds=3, clients=10, sampled=6, round={"update_model_ratio": 0.5})
    kept = Kept()
    engine = MemoryEngine(settings, Numbers(), kept)
    with pytest.raises(
        Unfit,
        match=r"6 clients took part as often as a client does \(round.participations is 1\), 4 are left, and a round "
        r"needs 5: start a new run with a larger round.participations, more clients or fewer rounds",
    ):
        engine.run()
    assert len(finished(kept)) == 1
    smaller = capped(1, rounds=2, clients=11, sampled=6, round={"update_model_ratio": 0.5})
    _, kept = run(smaller, Numbers())
    assert [event.survivors for event in finished(kept)] == [6, 5]


def test_an_abandoned_round_counts_for_those_that_were_sampled():
    settings = capped(2, rounds=6, clients=60)
    watched = Watched()
    engine, kept = run(settings, Numbers(), watch=watched, abandoned=3)
    assert len(finished(kept)) == 6  # the noise is not sized for the abandoned rounds, and none is missing
    counts = engine.coordinator._answers.participations
    assert all(counts[client] >= uploads for client, uploads in watched.uploads.items())
    assert max(watched.uploads.values()) <= 2
    assert sum(counts[client] for client in range(60)) == 9 * 6


@pytest.mark.parametrize("stop", range(1, 12))
def test_a_resumed_simulation_keeps_the_cap(stop):
    """Stopped before and after each round in turn."""
    settings, task, watched = capped(2, rounds=6), Numbers(), Watched()
    states = []

    def store(coordinator: Coordinator) -> None:
        states.append((coordinator.state(), coordinator.model))
        if len(states) == stop:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        MemoryEngine(settings, task, Kept(), watch=watched).run(store)
    second = MemoryEngine(settings, task, Kept(), watch=watched)
    second.restore(*states[-1])
    second.run()
    assert max(watched.uploads.values()) == 2
    assert second.coordinator.round == 6
    assert second.coordinator.spent()[0].epsilon <= 4.0


def test_a_run_that_lacks_clients_ends_in_a_sentence_and_keeps_its_rounds(tmp_path):
    file = tmp_path / "fleet.yaml"
    settings = capped(1, rounds=3, clients=10, sampled=6, round={"update_model_ratio": 0.5})
    file.write_text(json.dumps(settings.model_dump(mode="json")))
    for command in (["run", str(file), "--state", str(tmp_path / "run")],) * 2:
        ended = invoke(*command)
        assert ended.exit_code == 2
        assert (
            "(round.participations is 1), 4 are left, and a round needs 5: start a new run with a larger"
            in ended.output
        )
    assert json.loads((tmp_path / "run" / "ledger.json").read_text())["sums"] == 1


def test_a_run_trained_on_keeps_the_cap(tmp_path):
    settings = capped(2, rounds=3, clients=60)
    first = tacit.run(settings.model_dump(), runs=tmp_path)
    longer = tacit.run(resume=first.directory, overrides=["rounds=9"])
    assert longer.history[-1].round == 8
    (ledger,) = longer.ledger["ledgers"]
    assert ledger["lines"][0]["count"] == 2
    assert 3.99 < ledger["epsilon"] <= 4.0


def test_after_a_damaged_state_everybody_counts_as_if_it_had_uploaded():
    settings = capped(3, rounds=6)
    engine, _ = run(capped(3, rounds=6), Numbers())
    state = engine.coordinator.state()
    earlier = {**state, "attempts": 4, "round": 4, "sums": 4, "clients": np.array([], np.int64)}
    earlier |= {"participants": np.array([1, 5]), "participations": np.array([2, 1]), "uploads": np.array([], np.int64)}
    found = carrying_out.caught_up(settings, earlier, {"attempts": 6, "sums": 6})
    expected = dict.fromkeys(range(24), 2) | {1: 4, 5: 3}
    assert dict(zip(found["participants"].tolist(), found["participations"].tolist(), strict=True)) == expected
    again = MemoryEngine(settings, Numbers(), Kept())
    again.restore(found, engine.coordinator.model)
    assert again.coordinator.left_out == {1, 5}
    assert "participants" not in carrying_out.caught_up(
        capped(None), run(capped(None), Numbers())[0].coordinator.state(), {"attempts": 6, "sums": 6}
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"participants": None}, "missing or damaged"),
        ({"participations": np.array([1])}, "missing or damaged"),
        ({"participants": np.array([3, 3]), "participations": np.array([1, 1])}, "missing or damaged"),
        ({"participants": np.array([24]), "participations": np.array([1])}, "beyond 24"),
        ({"participants": np.array([-1]), "participations": np.array([1])}, "beyond 24"),
        ({"participants": np.array([3]), "participations": np.array([7])}, "more often than 6 rounds"),
        ({"participants": np.array([3]), "participations": np.array([0])}, "more often than 6 rounds"),
    ],
)
def test_a_stored_state_that_cannot_be_is_refused(change, words):
    engine, _ = run(capped(2), Numbers())
    state = engine.coordinator.state() | change
    with pytest.raises(ValueError, match=words):
        MemoryEngine(capped(2), Numbers(), Kept()).restore(state, engine.coordinator.model)


def test_a_client_that_counts_more_than_the_coordinator_declines_once():
    """Its upload left it and was lost: it is asked once more, and then not again."""
    settings = capped(1, rounds=4, clients=24, sampled=6, round={"update_model_ratio": 0.3})
    victim = next(expected_samples(settings))[0]
    kept = Kept()
    engine = MemoryEngine(settings, Numbers(), kept)
    engine._clients[victim] = engine._client(victim)
    engine._clients[victim].restore({"attempts": 0, "uploads": 0, "sums": 1})
    engine.run()
    (refused,) = [event for event in kept.events if isinstance(event, ClientRefused)]
    assert (refused.client, refused.round) == (victim, 0)
    assert "takes part in at most 1 of a run" in refused.reason
    assert [event.survivors for event in finished(kept)] == [5, 6, 6, 6]
    assert victim in engine.coordinator.left_out


def test_on_a_cluster_clients_that_are_made_in_each_round_know_their_count():
    settings, task = capped(2, rounds=6, task="digits"), None
    engine, _ = run(settings, task)
    coordinator = engine.coordinator
    counts = coordinator._answers.participations
    before = coordinator.answered(range(24))
    assert {client: state["sums"] for client, state in before.items()} == {i: counts[i] for i in range(24)}
    worker = Worker(settings, [], {})
    model = coordinator.layout.flatten(coordinator.model)
    report = worker.start(Head(6, None), {client: {**state, "attempts": 6} for client, state in before.items()}, model)
    classes = Prepared.of(settings, worker._prepared.task).classes
    for client, (frame,) in report.frames:
        answer = to_coordinator(frame, coordinator.layout, classes, 10**6)
        assert isinstance(answer, Abort) == (counts[client] == 2)
    assert {client for client, _ in report.frames} == set(range(24))


def test_over_a_network_a_client_at_the_cap_is_not_waited_for():
    settings = capped(1, rounds=2, clients=12)
    star = FramedCoordinator(Prepared.of(settings, Numbers()), Kept(), lambda: 0.0)
    engine, _ = run(settings, Numbers())
    first, second = expected_samples(settings)
    star.coordinator.restore(engine.coordinator.state(), engine.coordinator.model)
    assert star.excluded == {*first, *second} == set(range(12))
    with pytest.raises(Unfit, match=r"round\.participations is 1"):
        star.check_left()


def test_inference_vectors_are_composed_with_the_sums_of_one_client():
    encrypt = DDP | {"privacy_eval_type": "LAPLACE", "laplace_eval_eps": 0.1}
    wanted = {"cluster_client_num": 3, "vectors": 2}
    settings = capped(2, rounds=4, clients=12, sampled=5, encrypt=encrypt, unsupervised=wanted)
    engine, _ = run(settings, Inferring())
    most = max(engine.coordinator.uploads.values())
    spent = {each.view: each.epsilon for each in engine.coordinator.spent()}
    assert spent == {each.view: each.epsilon for each in Costs(settings, 650).spent(most, 2)}
    assert most == 2


@given(st.integers(0, 100), st.integers(1, 4), st.integers(8, 30), st.integers(2, 12))
def test_no_sample_has_a_client_at_the_cap_and_they_end_when_too_few_are_left(seed, most, clients, rounds):
    sampled = max(3, clients // 3)
    if clients * most < rounds * sampled:
        return
    settings = capped(
        most, rounds=rounds, clients=clients, sampled=sampled, seed=seed, round={"update_model_ratio": 1.0}
    )
    asked = list(expected_samples(settings))
    counts = Counter(client for each in asked for client in each)
    assert max(counts.values()) <= most
    assert all(len(set(each)) == len(each) <= sampled for each in asked)
    if len(asked) < rounds:
        assert sum(counts[client] < most for client in range(clients)) < settings.least
