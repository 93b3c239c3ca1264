"""`tacit plan` as a user meets it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.commands import invoke

FILE = """\
kind: horizontal
name: small
task: digits
rounds: 3
clients: 12
encrypt: {encrypt_type: DP_ENCRYPT, dp_eps: 0.5, dp_delta: 1.0e-3}
"""


plan = partial(invoke, "plan")


@pytest.fixture(autouse=True)
def file(here):
    Path("fleet.yaml").write_text(FILE)


def test_it_tells_costs_noise_traffic_and_who_sees_what():
    done = plan("fleet.yaml")
    assert done.exit_code == 0
    for words in (
        "small: 12 clients, 12 in a round, 3 rounds, DP_ENCRYPT, 650 parameters",
        "one round   epsilon 0.5 at delta 0.001",
        "(3 rounds, for the client that is asked most often)",
        "at 1%",
        "1 exchange with the coordinator",
        "up 2.63 kB: Update 2.63 kB",
        "The coordinator is sent the update of each client, clipped to norm 1, with Gaussian noise",
        "A client that lies about its update can spoil the model",
        "MindSpore Federated advises more than 50",
    ):
        assert words in done.output
    assert max(len(line) for line in done.output.splitlines()) <= 110
    assert not Path("runs").exists()


def test_without_a_protection_it_says_so():
    done = plan("fleet.yaml", "--set", "encrypt.encrypt_type=NOT_ENCRYPT")
    assert "Nothing that leaves a client has an epsilon." in done.output


def test_as_json():
    made = json.loads(plan("fleet.yaml", "--json").output)
    (price,) = made["prices"]
    assert price["epsilon_round"] == pytest.approx(0.5)
    assert price["times"] == 3
    assert made["traffic"]["exchanges"] == 1
    insecure = json.loads(plan("fleet.yaml", "--json", "--set", "simulation.insecure_noise_seed=1").output)
    assert insecure["prices"][0]["epsilon_run"] == "infinite"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.yaml"], "none.yaml: there is no such file"),
        (["fleet.yaml", "--set", "rounds=0"], "rounds is 0"),
        (["fleet.yaml", "--set", "task=nothing"], "task 'nothing' is not known"),
        (["fleet.yaml", "--set", "unsupervised.cluster_client_num=3"], "has no infer()"),
    ],
)
def test_mistakes_end_with_2(arguments, words):
    done = plan(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "Traceback" not in done.output
