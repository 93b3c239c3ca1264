"""What one site sees of a run: its own report, the model it keeps, and its own plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from tacit.events import Answered
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.store.directory import read_events, read_model
from tests.commands import certify, ended, free_port, invoke, start
from tests.runs.test_report import Page

FILE = """\
kind: horizontal
name: small
task: digits_unsupervised
rounds: 2
clients: 3
unsupervised: {cluster_client_num: 2, vectors: 4}
encrypt: {ENCRYPT, privacy_eval_type: LAPLACE, laplace_eval_eps: 0.5}
network: {coordinator: "127.0.0.1:PORT"}
round: {start_fl_job_time_window: 600000}
"""
LOCAL = "encrypt_type: DP_ENCRYPT, dp_eps: 2"
DISTRIBUTED = "encrypt_type: DDP_ENCRYPT, ddp_eps: 4, cipher_time_window: 600000"


@pytest.fixture(autouse=True)
def file(here):
    written(LOCAL)


def written(encrypt: str) -> None:
    Path("fleet.yaml").write_text(FILE.replace("PORT", str(free_port())).replace("ENCRYPT", encrypt, 1))


def federated(*overrides: str) -> dict[str, Path]:
    """A federation of a coordinator, client 0 and the clients 1 and 2 of another site: their folders."""
    options = [part for each in overrides for part in ("--set", each)]
    parties = [["coordinator"], ["client", "--id", "0"], ["client", "--id", "1-2"]]
    started = [start("join", "fleet.yaml", "--insecure", "--party", *party, *options) for party in parties]
    for process in started:
        ended(process)
    return {name: next(Path("runs").glob(f"*-small-{name}")) for name in ("coordinator", "client-0", "client-1")}


def ledger(folder: Path, client: int) -> dict:
    return json.loads((folder / f"client-{client}.json").read_text())["ledger"]["ledgers"]


@pytest.mark.parametrize("encrypt", [LOCAL, pytest.param(DISTRIBUTED, marks=pytest.mark.slow)])  # 15 s each
def test_a_clients_report_shows_what_it_did_paid_and_sent(encrypt):
    written(encrypt)
    folders = federated()
    mine = folders["client-0"]
    left_by_join = (mine / "report.html").read_text()
    done = invoke("report", str(mine))
    assert done.exit_code == 0, done.output
    page = Page(mine / "report.html")
    assert page.source == left_by_join
    cards = page.cards()
    assert (cards["Rounds"], cards["Uploads"], cards["Refused"]) == ("2", "2", "0")
    paid = ledger(mine, 0)[-1]
    assert f"ε of the updates and inference vectors: {paid['epsilon']:.4g} at δ = 10⁻⁵" in page.text
    assert "It holds for client-0, for" in page.text
    assert "an attacker is right at most" in page.text
    told = [event for event in read_events(mine / "events.jsonl") if isinstance(event, Answered)]
    assert {event.client for event in told} == {0}
    sent = {name for event in told for name in event.sent}
    upload = "Update" if encrypt == LOCAL else "Masked"
    assert {"Inference", upload} <= sent
    vectors = sum(event.sent.get("Inference", 0) for event in told)
    assert f"with Laplace noise: epsilon 0.5 for each vector 2 {vectors} B" in page.text
    assert "No round was finished" not in page.text
    assert "model.safetensors is the last model that was sent here: the one after 1 round." in page.text
    assert "Nothing: it did what it was asked" in page.text
    # Two clients of one site: a row each, and each its own ledger.
    other = Page(folders["client-1"] / "report.html")
    assert other.cards()["Uploads"] == "4"
    for client in (1, 2):
        assert f"client-{client} 1–2 2" in other.text
        assert f"The ledger of client-{client}" in other.text
    # The model is the one that the last round began with.
    before = safetensors.numpy.load_file(folders["coordinator"] / "model.previous.safetensors")
    for name, array in read_model(mine / "model.safetensors").items():
        np.testing.assert_array_equal(array, before[name])
    # What is for sharing tells the promise, and nothing of who took part when.
    assert invoke("report", str(mine), "--share").exit_code == 0
    shared = Page(mine / "report-share.html")
    assert "Uploads" not in shared.cards()
    assert set(shared.headings) >= {"Privacy", "Who sees what", "Settings"}
    assert "Taking part" not in shared.headings
    refused = invoke("report", str(mine), str(folders["coordinator"]))
    assert refused.exit_code == 2
    assert "the folder of clients, which has a page of its own" in refused.stderr
    # A client that has nothing left to do says so, with its model in the folder.
    again = invoke("join", "fleet.yaml", "--party", "client", "--id", "0", "--insecure", "--resume", str(mine))
    assert (again.exit_code, "the coordinator said that the run is done" in again.output) == (0, True)
    exported = invoke("export", str(mine), "--tensorboard", "tb")
    assert exported.exit_code == 0, exported.output


@pytest.mark.slow  # 20 s; tests/net/test_star_guest.py and tests/kinds/horizontal/test_last_model.py need no processes
def test_without_share_model_nothing_is_kept():
    Path("fleet.yaml").write_text(Path("fleet.yaml").read_text() + "share_model: false\n")
    folders = federated("rounds=1")
    assert not (folders["client-0"] / "model.safetensors").exists()
    assert "No model is kept here: the file says share_model: false." in Page(folders["client-0"] / "report.html").text
    refused = invoke("plan", "fleet.yaml", "--party", "client-0")
    assert "It does not keep the last model that it was sent (share_model: false)." in refused.output
    # What it paid is part of its plan; the other site's folder is not its own.
    state = ["--set", "rounds=1", "--state", str(folders["client-1"])]
    done = invoke("plan", "fleet.yaml", "--party", "client-2", *state)
    assert done.exit_code == 0, done.output
    epsilon = ledger(folders["client-1"], 2)[0]["epsilon"]
    said = " ".join(done.output.split())
    assert f"Local epsilon of updates and inference vectors {epsilon:.4g} at delta 1e-05" in said
    assert "It was sent the model once." in said
    done = invoke("plan", "fleet.yaml", "--party", "client-0", *state)
    assert done.exit_code == 2
    assert "this is the run of client-1 to 2, not of client-0" in done.stderr
    done = invoke("plan", "fleet.yaml", "--party", "client-2", "--state", str(folders["client-1"]), "--set", "seed=3")
    assert done.exit_code == 2
    assert "its settings differ from those of the file" in done.stderr
    done = invoke(
        "plan",
        "fleet.yaml",
        "--party",
        "coordinator",
        "--set",
        "rounds=1",
        "--state",
        folders["coordinator"].as_posix(),
    )
    assert "Local epsilon of updates and inference vectors" in done.output


# --- the plan of one party


def plan(*arguments: str) -> str:
    done = invoke("plan", *arguments)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.mark.parametrize(("said", "mode"), [("", "active"), (", mode: semi_honest", "semi_honest")])
def test_a_party_is_planned_in_the_mode_in_which_it_joins(said, mode):
    written(DISTRIBUTED + said)
    for party in ("client-2", "coordinator"):
        assert f"Secure aggregation runs in mode {mode}:" in plan("fleet.yaml", "--party", party)
    trusted = "The coordinator is trusted to follow the protocol (mode: semi_honest)."
    assert (trusted in plan("fleet.yaml", "--party", "client-2")) == (mode == "semi_honest")
    assert trusted in plan("fleet.yaml")  # which is about `tacit run`


def test_a_client_is_planned_with_its_own_data_and_keys(here):
    keys = certify(here, "client-2", "client-1")
    Path("site.yaml").write_text(
        f"keys: {json.dumps(keys['client-2'])}\ncoordinator: fleet.example:8443\n"
        "task_options: {split: dirichlet, alpha: 0.05}\n"
    )
    said = plan("fleet.yaml", "--party", "client-2", "--local", "site.yaml")
    task: Any = tasks.make("digits_unsupervised", 3, 0, {"split": "dirichlet", "alpha": 0.05})
    for words in (
        "It joins with tacit join FILE --party client --id 2.",
        "It connects to the coordinator at fleet.example:8443.",
        "Its certificate is that of client-2, valid until 20",
        "made with these options of the local file: split: dirichlet, alpha: 0.05.",
        f"this client trains on {len(task.held(2)):,} records.",
        "Its ledger begins at nothing: name the folder of an earlier start with --state DIR.",
        "One more upload: local epsilon of updates and inference vectors",
    ):
        assert words in said
    made = json.loads(invoke("plan", "fleet.yaml", "--party", "client-2", "--local", "site.yaml", "--json").output)
    assert made["party"] == "client-2"
    assert "Its own data" in made["own"]
    assert made["prices"]
    done = invoke("plan", "fleet.yaml", "--party", "client-1", "--local", "site.yaml")
    assert done.exit_code == 2
    assert "the certificate is of client-2, and you want to be client-1" in done.stderr


def test_a_client_is_told_how_far_its_budget_reaches():
    Path("fleet.yaml").write_text(Path("fleet.yaml").read_text() + "budget: {epsilon: 7}\n")
    said = plan("fleet.yaml", "--party", "client-0", "--set", "rounds=9")
    assert "Its budget pays for 2 more uploads: after that it answers no more." in said
    assert "All 2 uploads that it may still make:" in said
    said = plan("fleet.yaml", "--party", "client-0", "--set", "budget.epsilon=1")
    assert "Its budget pays for no further upload: it answers no more." in said
    written(DISTRIBUTED)
    assert "ddp_eps 4 pays for 2 more uploads: after that it answers no more." in plan(
        "fleet.yaml", "--party", "client-0"
    )


MASKS = "task: digits\nrounds: 1\nclients: 3\nencrypt: {encrypt_type: PW_ENCRYPT}\n"


@pytest.mark.slow  # 5 s
def test_under_masks_alone_a_client_is_told_what_it_did_and_whether_its_samples_fit():
    Path("fleet.yaml").write_text(
        f'kind: horizontal\nname: small\n{MASKS}network: {{coordinator: "127.0.0.1:{free_port()}"}}\n'
    )
    folders = federated()
    of = ["fleet.yaml", "--party", "client-0", "--state"]
    said = plan(*of, str(folders["client-0"]))
    assert "What it did so far - It was sent the model once. - It used 0 of 2 repeats (round.repeats)" in said
    assert "Nothing: none holds nothing of client-0 yet." in plan(*of, "none")
    other = invoke("plan", *of, str(folders["coordinator"]))
    assert (other.exit_code, "this is the run of coordinator, not of client-0" in other.stderr) == (2, True)
    assert "so far" not in plan("fleet.yaml", "--party", "client-0")
    small = plan("fleet.yaml", "--party", "client-0", "--set", "encrypt.pw_encrypt.largest_weight=100")
    assert "more than pw_encrypt.largest_weight, 100: it is refused in every round" in small
    assert "it is refused in every round" not in plan("fleet.yaml", "--party", "client-0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--party", "bank"], "--party is 'bank': give coordinator, or client-K with K from 0 to 2"),
        (["--party", "client"], "--party is 'client': give coordinator, or client-K"),
        (["--party", "client-3"], "--party is 'client-3': the file has client-0 to client-2"),
        (["--local", "site.yaml"], "--local and --state are one party's own: add --party NAME"),
        (["--party", "client-0", "--local", "none.yaml"], "none.yaml: there is no such file"),
        (["--party", "client-0", "--state", "full"], "full: this is not the folder of a run, it has no config.yaml"),
    ],
)
def test_mistakes_end_with_2(arguments, words):
    Path("full").mkdir()
    Path("full/notes.txt").write_text("hello")
    done = invoke("plan", "fleet.yaml", *arguments)
    assert (done.exit_code, words in done.stderr) == (2, True), done.output


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("file", "party", "words"),
    [
        ("vertical_cancer.yaml", "laboratory", "It is passive, and joins with tacit join FILE --party laboratory."),
        ("vertical_cancer.yaml", "hospital", "What leaves hospital"),
        ("vertical_shared.yaml", "notary", "It has none, and needs none."),
        ("split_cancer.yaml", "", ""),
    ],
)
def test_parties_in_lock_step_are_described_too(file, party, words):
    path = str(EXAMPLES / file)
    if party:
        said = plan(path, "--party", party)
        assert words in said
        assert "What it costs" in said or "Who sees what" in said
    done = invoke("plan", path, "--party", "nobody")
    assert (done.exit_code, "--party is 'nobody': give" in done.stderr) == (2, True)


def test_a_kind_of_one_party_has_no_parties_to_describe():
    done = invoke("plan", str(EXAMPLES / "private_digits.yaml"), "--party", "bank")
    assert (done.exit_code, "kind private_training has one party" in done.stderr) == (2, True)
