"""Packs of parties that met over a network: made and checked as their operators do it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.commands import certify, done, ended, free_port, start, start_doomed
from tests.runs.packs import unpacked

FLEET = """\
kind: horizontal
name: fleet
task: digits
rounds: 2
clients: 3
round: {start_fl_job_time_window: 600000, update_model_time_window: 10000}
encrypt: {encrypt_type: DP_ENCRYPT, dp_eps: 5}
network: {coordinator: "127.0.0.1:PORT", lost_after: 600}
"""
DEAL = """\
kind: split
name: deal
task: split_cancer
topology: V
parties:
  firstbank: {role: leader, address: "127.0.0.1:PORT"}
  cornershop: {role: follower}
embedding_dp: {eps: 5}
label_dp: {eps: 3}
train: {epochs: 2, batch: 128}
"""
TREES = """\
kind: vertical_trees
name: trees
task: cancer
parties:
  firstbank: {role: active, address: "127.0.0.1:PORT"}
  cornershop: {role: passive}
train: {trees: 2, depth: 3, bins: 9}
privacy: {bits: 8, least: 64, partition: hidden}
"""


@pytest.fixture
def port(here):
    return str(free_port())


def parties(*names):
    """The options of each party that has a certificate of one authority."""
    found = {}
    for name, keys in certify(Path(), *names).items():
        Path(f"{name}.yaml").write_text(json.dumps({"keys": keys}))
        found[name] = ("--local", f"{name}.yaml", "--state", f"{name}-run", "--quiet")
    return found


def checked(name, run, *secrets):
    """Make the pack of a party's run, check it, and look for what must not be in it. What each check came to."""
    key = ("--key", f"{name}/{name}.private.pem", "--certificate", f"{name}/c.pem")
    done("evidence", run, *key, "-o", "pack.zip")
    files = unpacked(Path("pack.zip"))
    del files["certificate.pem"]  # the signer's name is in it
    whole = b"".join(files.values())
    for secret in ("127.0.0.1", str(Path.cwd()), f"{run}", *secrets):
        assert secret.encode() not in whole, secret
    found = json.loads(done("verify", "pack.zip", "--authority", "ca/authority.pem", "--json"))
    assert found["holds"]
    assert found["signer"].startswith(name)
    return {each["what"]: each["verdict"] for each in found["checks"]}


@pytest.mark.slow
def test_coordinator_and_clients_one_of_which_was_killed_and_resumed(port):
    Path("fleet.yaml").write_text(FLEET.replace("PORT", port))
    names = ("coordinator", "client-0", "client-1", "client-2")
    options = parties(*names)
    as_party = {"coordinator": ("coordinator",)} | {f"client-{n}": ("client", "--id", str(n)) for n in range(3)}
    arguments = {name: ("fleet.yaml", "--party", *as_party[name], *options[name]) for name in names}
    doomed = start_doomed("client-0.json", "after", "join", *arguments["client-0"])
    others = [start("join", *arguments[name]) for name in names if name != "client-0"]
    doomed.wait(300)
    assert doomed.returncode == -9
    shutil.copytree("client-0-run", "killed", ignore=shutil.ignore_patterns("*.sock"))
    ended(start("join", *arguments["client-0"]))
    for process in others:
        ended(process)
    killed = checked("client-0", "killed", port)
    assert set(killed.values()) == {"holds"}
    for name in names:
        found = checked(name, f"{name}-run", port)
        assert set(found.values()) == {"holds"}
        assert "epsilon of updates (local)" in found
        assert ("epsilon of each round" if name == "coordinator" else "epsilon after each answer") in found


OF_RECORDS = {"epsilon of training records (records)", "noise of the ledger of training records"}
PRIVATE = "train: {epochs: 1, batch: 25, privacy: {epsilon: 3.0}}"
OWN = """\
import torch
from torch import nn

import tacit


def data(client):
    x = torch.randn(100 + client, 6, generator=torch.Generator().manual_seed(client))
    return x, (x[:, 0] > 0).long()


def loss(module, batch):
    return nn.functional.cross_entropy(module(batch[0]), batch[1])


task = tacit.TorchTask(model=lambda: nn.Linear(6, 2), loss=loss, data=data)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protection", "task", "more"),
    [("DP_ENCRYPT, dp_eps: 5", "digits", ""), ("DDP_ENCRYPT", "digits", ""), ("DDP_ENCRYPT", "own:task", PRIVATE)],
    ids=["local", "distributed", "records"],
)
def test_several_clients_in_one_process(port, protection, task, more):
    if more:
        pytest.importorskip("torch")
    Path("own.py").write_text(OWN)
    text = FLEET.replace("PORT", port).replace("DP_ENCRYPT, dp_eps: 5", protection).replace("clients: 3", "clients: 5")
    Path("fleet.yaml").write_text(text.replace("task: digits", f"task: '{task}'") + more)
    parties("client-0")
    ways = {"run-0": ("coordinator",), "run-1": ("client", "--id", "0"), "run-4": ("client", "--id", "1-4")}
    options = ("--insecure", "--quiet", "--state")
    for process in [start("join", "fleet.yaml", "--party", *way, *options, run) for run, way in ways.items()]:
        ended(process)
    for run in ways:
        found = checked("client-0", run, port)
        records = {each for each, verdict in found.items() if verdict != "holds"}
        assert records <= (OF_RECORDS if more else set())
        assert found["ledgers of the file"] == "holds"


@pytest.mark.slow
@pytest.mark.parametrize(("file", "told"), [(DEAL, True), (TREES, False)], ids=["split", "trees"])
def test_parties_of_a_deal(port, file, told):
    if told:
        pytest.importorskip("torch")
    Path("deal.yaml").write_text(file.replace("PORT", port))
    options = parties("firstbank", "cornershop")
    both = [start("join", "deal.yaml", "--party", name, *options[name]) for name in options]
    for process in both:
        ended(process)
    for name in options:
        found = checked(name, f"{name}-run", port, "firstbank", "cornershop")
        assert set(found.values()) == {"holds"}
        assert any(what.startswith("epsilon of") for what in found) == told
