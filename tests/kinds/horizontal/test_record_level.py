"""Private training in whole federations: what is paid, stored, refused and sent, under every protection."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import tacit
from tacit.config.source import ConfigError
from tacit.dp.accounting import Ledger
from tacit.dp.release import GaussianEvent
from tacit.errors import BudgetError
from tacit.events import ClientRefused
from tacit.kind import fingerprint
from tacit.kinds.horizontal import join
from tacit.kinds.horizontal.boundary import covered, releases, sentences
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.messages import Update, Work
from tacit.kinds.horizontal.record_level import RecordLedger, promised
from tacit.kinds.horizontal.record_plan import round_plan
from tacit.kinds.horizontal.record_privacy import most_answers
from tacit.kinds.horizontal.run import may_change
from tacit.kinds.horizontal.task import Fitted, FitWork
from tacit.kinds.horizontal.vector import Layout
from tacit.store.files import write_twice
from tests.commands import invoke
from tests.kinds.horizontal.federations import Numbers, finished, run, settings_for
from tests.kinds.horizontal.torch_tasks.nets import plain_net, records, task_of
from tests.kinds.horizontal.torch_tasks.private_nets import many

TYPES = ["NOT_ENCRYPT", "DP_ENCRYPT", "PW_ENCRYPT", "DDP_ENCRYPT"]
PRIVACY = {"epsilon": 4.0, "clip": 1.0}
TRAIN = {"epochs": 1, "batch": 32, "learning_rate": 0.5, "privacy": PRIVACY}
NETS = "tests.kinds.horizontal.torch_tasks.private_nets"
FILE = {
    "kind": "horizontal",
    "name": "fleet",
    "task": f"{NETS}:task",
    "clients": 4,
    "rounds": 2,
    "train": TRAIN,
}


def private(**keys):
    return settings_for(**{"clients": 4, "rounds": 2, "train": TRAIN} | keys)


@pytest.mark.parametrize("encrypt_type", TYPES)
def test_every_protection_of_updates_goes_along(encrypt_type):
    """Each client has a ledger of its own records over all rounds; no count and no loss leaves it."""
    sent = []
    settings = private(encrypt={"encrypt_type": encrypt_type})
    engine, kept = run(
        settings, task_of(model=plain_net, data=many), watch=lambda client, message: sent.append(message)
    )
    assert len(finished(kept)) == 2
    assert all(event.training_loss is None for event in finished(kept))
    for identity, client in engine._clients.items():
        spent = client.spent()[-1]
        plan = round_plan(settings.train, most_answers(settings), 200 + identity)
        assert spent.ledger.lines == ((plan.event(0), 2 * plan.steps),)
        assert 0 < spent.epsilon < 4.0
        assert (spent.ledger.unit, spent.ledger.relation) == ("record", "add-remove")
    for message in sent:
        if isinstance(message, Update):
            assert message.samples in (1, None)
            assert message.loss is None
    of_records = engine.coordinator.spent()[-1]
    assert (of_records.epsilon, of_records.delta, of_records.covers) == (4.0, 1e-5, ("training records",))
    assert of_records.ledger.lines == ()  # how many records a client has is in its events
    others = [each for each in engine.coordinator.spent() if each.ledger.unit == "client"]
    assert bool(others) == settings.updates.promises


@pytest.mark.parametrize("encrypt_type", TYPES)
def test_all_that_leaves_is_on_the_list(encrypt_type):
    settings = private(encrypt={"encrypt_type": encrypt_type})
    listed = {(each.message, each.field) for each in releases(settings)}
    sent = set()

    def watch(client, message):
        names = getattr(message, "__dataclass_fields__", None) or message.__struct_fields__
        sent.update((type(message).__name__, name) for name in names if getattr(message, name) is not None)

    run(settings, task_of(model=plain_net, data=many), watch=watch)
    carrier = {("Masked", "words")} if settings.masked else {("Update", "vector")}
    assert carrier <= sent
    assert sent <= listed
    assert ("Update", "loss") not in listed
    how = [each.protection for each in releases(settings) if (each.message, each.field) in carrier]
    assert all(
        "trained by private SGD: epsilon 4 at delta 1e-05 for each record over all rounds" in each for each in how
    )
    assert any("learns about a single record no more than epsilon 4" in each for each in sentences(settings))
    assert covered(settings) >= {"metrics", "update_norm"}


def test_clients_of_all_sizes_weigh_the_same():
    """Without noise, the mean of what clients learnt, though one has ten times the records of another."""
    task = task_of(model=plain_net, data=lambda client: records(client, 20 * (1 + 9 * client)))

    def silence(optimizer, loader):
        optimizer._sum._source.normal = lambda flat, deviation: flat.zero_()

    task.attached = silence
    settings = private(clients=2, rounds=1, train=TRAIN | {"batch": 1000})
    learnt = [task.fit(client, task.model(), _work(settings)).model for client in (0, 1)]
    engine, _ = run(settings, task)
    for name, array in engine.coordinator.model.items():
        np.testing.assert_allclose(array, (learnt[0][name] + learnt[1][name]) / 2, atol=1e-5)


def _work(settings):
    return FitWork(0, settings.train, (0, 12, 0, 0), answers=most_answers(settings))


def test_a_larger_weight_than_one_is_refused():
    settings = private(rounds=1, clients=3)
    _, kept = run(
        settings, task_of(model=plain_net, data=many), watch=lambda client, m: _heavier(m) if client == 1 else None
    )
    assert [event.client for event in kept.events if isinstance(event, ClientRefused)] == [1]


def _heavier(message):
    if isinstance(message, Update):
        object.__setattr__(message, "samples", 50)


# --- the ledger of a client


class Counting:
    """A task that trains nothing and says what that cost: `records` of a client may change from round to round."""

    def __init__(self, settings, records=200):
        self.settings, self.records, self.trained = settings, records, 0

    def check_private_fit(self):
        pass

    def model(self):
        return Numbers().model()

    def fit(self, client, model, work):
        self.trained += 1
        plan = round_plan(work.train, work.answers, self.records)
        return Fitted(model, self.records, 0.5, events=tuple(plan.ledger(plan.steps).lines))


def client_of(settings, task):
    return Client(settings, 0, task.fit, Layout.of(task.model()))


def ask(client, number):
    return client.receive(Work(number, np.zeros(5) + number), 0.0)


def test_all_answers_cost_epsilon_and_not_more():
    settings = private(rounds=3, round={"abandoned_rounds": 2})
    client = client_of(settings, Counting(settings))
    epsilons = []
    for number in range(5):
        assert ask(client, number)[0].samples == 1
        epsilons.append(client.spent()[0].epsilon)
    assert epsilons == sorted(epsilons)
    assert 3.99 < epsilons[-1] <= 4.0 * (1 + 1e-9)


def test_a_client_ends_its_part_when_its_budget_is_spent():
    """Its data shrink: each round costs more than the noise was sized for, and the ledger knows."""
    settings = private(rounds=5, round={"abandoned_rounds": 0})
    task = Counting(settings, 5000)
    client = client_of(settings, task)
    ask(client, 0)
    client._fit = _costlier
    ask(client, 1)
    with pytest.raises(BudgetError, match=r"above train.privacy.epsilon 4: this client answers no more"):
        ask(client, 2)
    assert 2.0 < client.spent()[0].epsilon <= 4.0
    assert client.state()["trained"] == 2


def _costlier(client, model, work):
    return Fitted(model, 10, events=((GaussianEvent(1.7, "record", "add-remove"), 1),))


def test_a_restart_forgets_nothing_that_was_spent():
    settings = private(rounds=4, round={"abandoned_rounds": 0})
    task = Counting(settings)
    first = client_of(settings, task)
    ask(first, 0), ask(first, 1)
    again = client_of(settings, task)
    again.restore(first.state())
    assert [each.ledger.to_json() for each in again.spent()] == [each.ledger.to_json() for each in first.spent()]
    ask(again, 2), ask(again, 3)
    assert 3.99 < again.spent()[0].epsilon <= 4.0 * (1 + 1e-9)
    state = dict(again.state(), attempts=0)  # asked anew, by a coordinator that forgot
    cheated = client_of(settings, task)
    cheated.restore(state)
    with pytest.raises(BudgetError, match=r"paid for 4 trainings, and train.privacy.epsilon 4 was sized for 4"):
        ask(cheated, 0)


def test_a_simulated_client_is_taken_to_have_paid_for_all_that_it_was_asked():
    settings = private(rounds=4, round={"abandoned_rounds": 0})
    client = client_of(settings, Counting(settings))
    client.restore({"attempts": 3, "uploads": 3, "sums": 0})
    ask(client, 3)
    assert 3.99 < client.spent()[0].epsilon <= 4.0 * (1 + 1e-9)


def test_a_training_without_events_or_of_another_unit_is_refused():
    settings = private()
    client = client_of(settings, Numbers())
    with pytest.raises(TypeError, match=r"fit must return Fitted\(..., events=...\)"):
        ask(client, 0)
    ledger = RecordLedger(settings)
    with pytest.raises(ValueError, match="this ledger is for records under add-remove"):
        ledger.pay(((GaussianEvent(9.0, "owner", "add-remove"), 1),))


def test_a_training_whose_model_cannot_be_sent_is_paid_for():
    """What it leaves at the client, such as local parameters, is in later uploads."""
    settings = private(encrypt={"encrypt_type": "DP_ENCRYPT"})
    client = client_of(settings, Counting(settings))
    client._fit = lambda identity, model, work: Fitted(
        {"other": np.zeros(3)}, 10, events=_costlier(0, model, work).events
    )
    ask(client, 0)
    assert client.withheld
    assert client.state()["trained"] == 1
    assert len(client.spent()[-1].ledger.lines) == 1


def test_the_ledger_of_records_is_stored_and_read(tmp_path):
    settings = private(rounds=3)
    client = client_of(settings, Counting(settings))
    ask(client, 0)
    under = fingerprint(settings)
    join._storer(tmp_path, 0, Costs(settings, 5), under)(client)
    stored = join._stored(tmp_path, 0, under)
    assert stored == client.state()
    (ledger,) = json.loads((tmp_path / "client-0.json").read_text())["ledger"]["ledgers"]
    assert (ledger["view"], ledger["unit"], ledger["covers"]) == ("records", "record", ["training records"])
    assert Ledger.from_json(ledger).lines == client.spent()[0].ledger.lines
    for name, wrong in (("records", [{"kind": "gaussian"}]), ("records", 7), ("trained", -1), ("trained", "x")):
        data = {"state": client.state() | {name: wrong}, "ledger": {}, "settings": under}
        write_twice(tmp_path / "client-0.json", data)
        with pytest.raises(ConfigError, match="what was spent cannot be read from it"):
            join._stored(tmp_path, 0, under)


_KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.kinds.horizontal import test_record_level as the
folder = Path(sys.argv[1])
settings = the.private(rounds=1, round={"abandoned_rounds": 1})
under = the.fingerprint(settings)
number = folder / "number"
asked = int(number.read_text()) if number.exists() else 0
number.write_text(str(asked + 1))
client = the.client_of(settings, the.Counting(settings))
if (stored := the.join._stored(folder, 0, under)) is not None:
    client.restore(stored)
client.restore(client.state() | {"attempts": 0})  # a coordinator that asks for the same round again and again
answers = the.ask(client, 0)
the.join._storer(folder, 0, the.Costs(settings, 5), under)(client)
with open(folder / "uploads", "a") as file:
    file.write("left")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_client_that_is_killed_once_its_upload_left_has_paid_for_it(tmp_path):
    """Each process is killed when an upload has left; the third start finds the budget of two spent."""
    root = str(Path(__file__).parents[3])
    endings = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, str(tmp_path), root],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), root])},
            capture_output=True,
            text=True,
            check=False,
        )
        endings.append(done.returncode)
    assert endings == [-signal.SIGKILL] * 2 + [1]
    assert "BudgetError" in done.stderr
    assert (tmp_path / "uploads").read_text() == "left" * 2


# --- the file


def test_noise_that_is_sized_for_all_answers_fixes_them():
    assert {"rounds", "round.abandoned_rounds"} <= may_change(settings_for())
    assert not {"rounds", "round.abandoned_rounds"} & may_change(private())


def test_files_without_privacy_are_stored_as_before():
    assert "privacy" not in settings_for().model_dump()["train"]
    stored = private().model_dump()["train"]["privacy"]
    assert stored == {"epsilon": 4.0, "delta": 1e-5, "clip": 1.0, "tier": "fast", "unit": "record"}
    assert type(private()).model_validate(private().model_dump()) == private()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"unit": "owner"}, "unit: owner goes with owner and records_per_owner"),
        ({"owner": "person"}, "unit: owner goes with owner and records_per_owner"),
        ({"epsilon": 0}, "epsilon"),
        ({"noise": 3}, "noise"),
    ],
)
def test_values_that_do_not_fit_are_refused(changed, said):
    with pytest.raises(ValueError, match=said):
        private(train=TRAIN | {"privacy": PRIVACY | changed})


def test_inference_vectors_are_not_covered_and_refused():
    with pytest.raises(ValueError, match=r"train.privacy does not cover inference vectors"):
        private(unsupervised={"cluster_client_num": 3})


def test_a_cap_on_participations_is_what_noise_is_sized_for():
    capped = private(
        clients=12,
        rounds=6,
        round={"participations": 2, "start_fl_job_threshold": 4},
        encrypt={"encrypt_type": "DDP_ENCRYPT"},
    )
    assert most_answers(capped) == 2
    assert most_answers(private()) == 12


def test_the_page_shows_records_and_clients_side_by_side(tmp_path):
    finished_run = tacit.run(FILE | {"encrypt": {"encrypt_type": "DDP_ENCRYPT"}}, runs=tmp_path)
    page = (finished_run.directory / "report.html").read_text()
    assert "for each record of a client, for adding it or leaving it out, against anyone who sees all uploads" in page
    assert "for each client, for leaving its update out of the sums" in page
    assert "For a whole client nothing is promised" not in page
    alone = tacit.run(FILE, runs=tmp_path)
    page = (alone.directory / "report.html").read_text()
    assert "for each record of a client" in page
    assert "For a whole client nothing is promised" in page
    assert "nothing that leaves a client has an ε" not in page


def test_owners_at_clients(tmp_path):
    privacy = PRIVACY | {"unit": "owner", "owner": "person", "records_per_owner": 3}
    file = FILE | {"task": f"{NETS}:owned_task", "train": TRAIN | {"privacy": privacy}}
    (ledger,) = tacit.run(file, runs=tmp_path).ledger["ledgers"]
    assert (ledger["unit"], ledger["relation"], ledger["epsilon"]) == ("owner", "add-remove", 4.0)
    assert ledger["against"].startswith("for each owner of a client's records, with all of them")


def test_a_run_is_resumed_within_its_budget(tmp_path):
    stopped = tacit.run(FILE, runs=tmp_path)
    refused = invoke("run", "--resume", stopped.directory, "--set", "rounds=9")
    assert refused.exit_code == 2
    assert "rounds" in refused.stderr


def test_a_task_that_does_not_train_privately_is_refused_at_load(tmp_path):
    for command in ("plan", "run"):
        path = tmp_path / "fleet.yaml"
        path.write_text(
            "kind: horizontal\nname: fleet\ntask: digits\nclients: 4\nrounds: 1\n"
            "train: {privacy: {epsilon: 3, clip: 1}}\n"
        )
        refused = invoke(command, path)
        assert refused.exit_code == 2
        assert "task digits does not train privately" in refused.stderr


def test_what_is_promised_names_unit_relation_and_against_whom():
    (made,) = promised(private())
    assert made.to_json()["against"].endswith(
        "against anyone who sees all uploads of that client, the coordinator included"
    )
    assert promised(settings_for()) == []
    assert made.ledger.budget.epsilon == 4.0
