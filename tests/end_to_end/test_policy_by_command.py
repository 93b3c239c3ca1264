"""A site's policy, as its operator and a coordinator that asks for more meet it."""

from __future__ import annotations

import json
import shutil
import socket
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests import commands
from tests.commands import done, ended, invoke, start_doomed
from tests.subprocesses import free_port, kill, until

FLEET = """\
kind: horizontal
name: small
task: digits
rounds: 2
clients: 3
encrypt: {encrypt_type: DP_ENCRYPT, dp_eps: 5}
round: {abandoned_rounds: 0}
network: {coordinator: "127.0.0.1:PORT"}
"""
DEAL = """\
kind: split
name: deal
task: split_cancer
parties:
  bank: {role: leader, address: "127.0.0.1:PORT"}
  shop: {role: follower}
topology: V
embedding_dp: {eps: 0.01}
train: {epochs: 1}
"""
LOGISTIC = """\
kind: vertical_logistic
name: deal
task: cancer
parties:
  bank: {role: active, address: "127.0.0.1:PORT"}
  shop: {role: passive}
train: {epochs: 1}
"""
TREES = """\
kind: vertical_trees
name: deal
task: cancer
parties:
  bank: {role: active, address: "127.0.0.1:PORT"}
  shop: {role: passive}
train: {trees: 1, depth: 2}
"""
OWN = """\
import sys
print("this code was run", file=sys.stderr)
from tacit.kinds.horizontal.tasks.digits import make_task
"""
JOINS = ("--party", "client", "--id", "0", "--insecure", "--local", "site.yaml")

join, start = partial(commands.invoke, "join"), partial(commands.start, "join")


@pytest.fixture(autouse=True)
def _files(here):
    Path("fleet.yaml").write_text(FLEET.replace("PORT", str(free_port())))


def local(text):
    Path("site.yaml").write_text(f"policy: {{folder: site, {text}}}\n")


@contextmanager
def listening(file=FLEET):
    """What a coordinator's address, or that of another party, hears, in asks.yaml."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        Path("asks.yaml").write_text(file.replace("PORT", str(server.getsockname()[1])))
        yield server


def connected(server):
    server.setblocking(False)
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


LIFETIME = "lifetime: {epsilon: 12, delta: 1.0e-5}"


@pytest.mark.parametrize(
    ("policy", "overrides", "words"),
    [
        ("kinds: [split]", [], "policy.kinds: this site does not take part in kind horizontal: only with split"),
        ("encrypt_types: [DDP_ENCRYPT]", [], "with encrypt_type DP_ENCRYPT: only with DDP_ENCRYPT"),
        ("epsilon: 7", [], "would be 7.537 at delta 1e-05, and this site allows 7: nothing is sent"),
        ("epsilon: 8", ["rounds=9"], "of this run would be 19.36"),
        ("epsilon: 8", ["encrypt.encrypt_type=NOT_ENCRYPT"], "add NOT_ENCRYPT to policy.without_epsilon"),
        (LIFETIME, ["rounds=5"], "at delta 1e-05, of which 0 is spent or reserved by others, and the limit is 12"),
        ("approve: ask", [], "not approved at this site: tacit approve asks.yaml --party client --id 0 --local"),
        (f"tasks: ['sha256:{'0' * 64}']", ["task=own:make_task"], "the source file of own has the digest sha256:"),
    ],
)
def test_a_join_that_breaks_it_ends_before_a_connection_is_made(policy, overrides, words):
    Path("own.py").write_text(OWN)
    local(policy)
    done("ledger", "site.yaml", "--begin")
    with listening() as server:
        refused = join("asks.yaml", *JOINS, *(word for each in overrides for word in ("--set", each)))
        assert refused.exit_code == 2, refused.output
        assert words in refused.stderr
        assert "Traceback" not in refused.output
        assert "this code was run" not in refused.stderr
        assert not connected(server)
    assert not list(Path().glob("runs/*"))
    assert "No run yet" in done("ledger", "site.yaml")


@pytest.mark.parametrize(
    ("file", "policy", "words"),
    [
        (DEAL, "kinds: [horizontal]", "policy.kinds: this site does not take part in kind split: only with horizontal"),
        (DEAL, "epsilon: 0.05", "policy.epsilon: the local epsilon of records of this run would be 0.08"),
        (DEAL, "lifetime: {epsilon: 0.1, delta: 1.0e-5}", "would be 0.16"),
        (LOGISTIC, "kinds: [split]", "does not take part in kind vertical_logistic"),
        (
            LOGISTIC,
            "epsilon: 1",
            "promises no epsilon, and the policy limits it: add vertical_logistic to policy.without",
        ),
        (
            TREES,
            LIFETIME,
            "promises no epsilon, and the policy limits it: add vertical_trees to policy.without_epsilon",
        ),
        (TREES, f"tasks: ['sha256:{'0' * 64}']", "policy.tasks: the package tacit has the digest sha256:"),
    ],
)
def test_a_party_of_two_companies_refuses_before_a_connection_is_made(file, policy, words):
    if file is DEAL:
        pytest.importorskip("torch")
    local(policy)
    done("ledger", "site.yaml", "--begin")
    with listening(file) as server:
        verbs = [("join",), *([("predict", "--run", "nowhere")] if policy.startswith(("kinds", "tasks")) else [])]
        for verb in verbs:
            refused = invoke(*verb, "asks.yaml", "--party", "shop", "--insecure", "--local", "site.yaml")
            assert refused.exit_code == 2, refused.output
            assert words in refused.stderr
            assert "Traceback" not in refused.output
        assert not connected(server)
    assert not list(Path().glob("runs/*"))
    assert "No run yet" in done("ledger", "site.yaml")


@pytest.mark.parametrize("file", [DEAL, LOGISTIC, TREES], ids=["split", "logistic", "trees"])
@pytest.mark.parametrize("policy", ["epsilon: 1", LIFETIME])
def test_a_prediction_is_refused_where_its_epsilon_would_not_be_counted(file, policy):
    local(policy)
    done("ledger", "site.yaml", "--begin")
    with listening(file) as server:
        predict = partial(invoke, "predict", "asks.yaml", "--run", "nowhere", "--party", "shop", "--insecure")
        refused = predict("--local", "site.yaml")
        assert refused.exit_code == 2, refused.output
        assert "policy: it counts what tacit join pays, and not a prediction" in refused.stderr
        assert not connected(server)


def test_a_prediction_is_refused_until_its_plan_is_approved():
    local("approve: ask")
    done("ledger", "site.yaml", "--begin")
    asks = ("asks.yaml", "--party", "shop", "--local", "site.yaml")
    with listening(LOGISTIC) as server:
        predict = partial(invoke, "predict", *asks, "--run", "nowhere", "--insecure")
        refused = predict()
        assert refused.exit_code == 2, refused.output
        assert "not approved at this site: tacit approve asks.yaml --party shop --local site.yaml" in refused.stderr
        assert done("approve", *asks, "--yes")
        assert "approve" not in predict().stderr
        assert "not approved" in predict("--set", "train.epochs=2").stderr
        assert not connected(server)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (
            "policy: {folder: site, tasks: [abc]}",
            "policy.tasks.0 is 'abc': it must be sha256: and 64 hexadecimal digits",
        ),
        ("policy: {folder: fleet.yaml}", "fleet.yaml: policy.folder is a file: name a folder"),
        ("policy: {folder: site, liftime: {}}", "policy.liftime is not a known key: did you mean lifetime?"),
        ("policy: {lifetime: {epsilon: 1, delta: 1.0e-5}}", "need a folder that outlives runs: add folder: PATH"),
        ("{}", "names no policy.folder, which holds the ledger"),
    ],
)
def test_a_mistake_in_the_policy_is_one_sentence(policy, words):
    Path("site.yaml").write_text(policy)
    for more in ([], ["--begin"]):
        refused = invoke("ledger", "site.yaml", *more)
        assert refused.exit_code == 2
        assert words in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def test_clients_of_one_process_are_refused():
    local(LIFETIME)
    done("ledger", "site.yaml", "--begin")
    with listening() as server:
        refused = join("asks.yaml", *JOINS[:3], "0-2", *JOINS[4:])
        assert (refused.exit_code, "start one process for each" in refused.stderr) == (2, True)
        assert not connected(server)


def test_a_missing_ledger_refuses_and_is_begun_by_hand_only():
    local(LIFETIME)
    with listening() as server:
        assert "tacit ledger SITE --begin" in join("asks.yaml", *JOINS).stderr
        assert not connected(server)
    assert invoke("ledger", "site.yaml").exit_code == 2
    done("ledger", "site.yaml", "--begin")
    again = invoke("ledger", "site.yaml", "--begin")
    assert (again.exit_code, "never begun anew" in again.stderr) == (2, True)


def test_what_the_policy_allows_connects():
    local(LIFETIME)
    done("ledger", "site.yaml", "--begin")
    with listening() as server:
        process = start("asks.yaml", *JOINS)
        until(lambda: connected(server), process)
        kill(process)
    assert json.loads(done("ledger", "site.yaml", "--json"))["runs"][0]["state"] == "open"


def test_two_that_race_for_the_last_of_a_budget_do_not_both_get_it():
    local(LIFETIME)
    done("ledger", "site.yaml", "--begin")
    both = [start("fleet.yaml", *JOINS, "--state", name) for name in ("first", "second")]
    until(lambda: any(each.poll() is not None for each in both))
    refused = next(each for each in both if each.poll() is not None)
    other = both[1 - both.index(refused)]
    assert "policy.lifetime" in ended(refused, 2)[1]
    assert other.poll() is None
    until(lambda: json.loads(done("ledger", "site.yaml", "--json"))["runs"], other)
    kill(other)
    assert len(json.loads(done("ledger", "site.yaml", "--json"))["runs"]) == 1


def test_the_plan_says_what_the_policy_will_say():
    local("epsilon: 8, " + LIFETIME)
    done("ledger", "site.yaml", "--begin")
    plan = partial(done, "plan", "fleet.yaml", "--party", "client-0", "--local", "site.yaml")
    said = " ".join(plan().split())
    assert "A run may cost epsilon 8; this one comes to 7.537 at most." in said
    assert "0 before this run, 8.107 if it is new. - Allowed." in said
    assert "Refused. policy.epsilon: the local epsilon of updates of this run" in plan("--set", "rounds=3")


def test_only_an_approved_plan_with_the_same_code_joins():
    Path("own.py").write_text(f"import helper\n{OWN}")
    Path("helper.py").write_text("")
    local("approve: ask")
    done("ledger", "site.yaml", "--begin")
    asks = ("--set", "task=own:make_task")
    approve = partial(invoke, "approve", *JOINS[:4], "--local", "site.yaml", *asks)
    with listening() as server:
        shown = approve("asks.yaml", "--yes")
        assert shown.exit_code == 0, shown.output
        assert "source file of own: sha256:" in shown.stdout
        assert "Allowed." in shown.stdout
        process = start("asks.yaml", *JOINS, *asks)
        until(lambda: connected(server), process)
        kill(process)
        for changed in (["--set", "rounds=3"], ["--set", "encrypt.dp_eps=6"], ["--set", "task=digits"]):
            assert "was not approved" in join("asks.yaml", *JOINS, *asks, *changed).stderr
        other = (*JOINS[:3], "1", *JOINS[4:])
        assert "was not approved" in join("asks.yaml", *other, *asks).stderr
        Path("helper.py").write_text(Path("helper.py").read_text() + "# changed\n")
        assert "was not approved" in join("asks.yaml", *JOINS, *asks).stderr
        Path("helper.py").write_text("")
        Path("own.py").write_text(OWN + "# changed\n")
        assert "was not approved" in join("asks.yaml", *JOINS, *asks).stderr
        assert not connected(server)


def test_a_plan_is_not_approved_by_saying_no():
    local("approve: ask")
    done("ledger", "site.yaml", "--begin")
    refused = invoke("approve", "fleet.yaml", *JOINS[:4], "--local", "site.yaml")
    assert (refused.exit_code, "Nothing was approved" in refused.stderr) == (2, True)
    assert not Path("site/approved.json").exists()


def federation(client):
    """The coordinator and the other clients, while one client is what a test makes of it."""
    others = [start("fleet.yaml", "--party", "client", "--id", name, "--insecure", "--quiet") for name in ("1", "2")]
    return start("fleet.yaml", "--party", "coordinator", "--insecure", "--state", "co", "--quiet"), *others, client


@pytest.mark.slow
def test_a_client_that_is_killed_between_its_ledger_and_its_sites_resumes_and_counts_once():
    text = Path("fleet.yaml").read_text().replace("abandoned_rounds: 0", "start_fl_job_time_window: 600000")
    Path("fleet.yaml").write_text(text.replace("network: {", "network: {lost_after: 600, "))
    local("lifetime: {epsilon: 26, delta: 1.0e-5}")
    done("ledger", "site.yaml", "--begin")
    own = ("fleet.yaml", *JOINS, "--state", "own", "--quiet")
    doomed = start_doomed("client-0.json", "after", "join", *own)
    processes = federation(doomed)
    doomed.wait(300)
    assert doomed.returncode == -9
    (run,) = json.loads(done("ledger", "site.yaml", "--json"))["runs"]
    assert (run["state"], run["paid"]) == ("open", 0)
    assert run["counted"] == pytest.approx(24.93, abs=0.01)
    shutil.copytree("own", "early", ignore=shutil.ignore_patterns("*.sock"))
    ended(start(*own))
    for each in processes[:3]:
        ended(each)
    (run,) = json.loads(done("ledger", "site.yaml", "--json"))["runs"]
    assert run["state"] == "closed"
    assert 8.1 < run["paid"] == run["counted"] < 24
    # The folder as it was after the first answer, put back: it would answer the second time for the same price.
    early = join("fleet.yaml", *JOINS, "--resume", "early")
    assert (early.exit_code, "older than the site's ledger" in early.stderr) == (2, True)
    # Deleting the run and starting again counts again.
    shutil.rmtree("own")
    again = join(*own)
    assert (again.exit_code, "policy.lifetime" in again.stderr) == (2, True)


@pytest.mark.slow
def test_a_split_party_reserves_and_pays_as_it_goes():
    Path("deal.yaml").write_text(DEAL.replace("PORT", str(free_port())))
    local("epsilon: 1000, lifetime: {epsilon: 1000, delta: 1.0e-5}")
    done("ledger", "site.yaml", "--begin")
    shop = start("deal.yaml", "--party", "shop", "--insecure", "--local", "site.yaml", "--state", "own", "--quiet")
    ended(start("deal.yaml", "--party", "bank", "--insecure", "--quiet"))
    ended(shop)
    stored = json.loads(Path("own/ledger.json").read_text())["ledgers"]
    (run,) = json.loads(Path("site/ledger.json").read_text())["runs"]
    assert stored
    assert [each["lines"] for each in run["paid"]] == [each["lines"] for each in stored]
    assert [each["lines"] for each in run["most"]] == [each["lines"] for each in stored]
    assert run["state"] == "closed"
