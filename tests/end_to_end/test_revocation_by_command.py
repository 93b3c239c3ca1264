"""A revocation as operators do it: `tacit keys revoke` while `tacit join` runs, in processes of their own, with TLS."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.commands import done
from tests.subprocesses import HANGS, free_port, launch, until

CLIENTS, ROUNDS = 5, 3
# A task of numbers. In a round that is held, clients train until the file GO-… of that round is there.
TASK = """
import os, time
from pathlib import Path

import numpy as np

from tacit.kinds.horizontal.task import Fitted
from tacit.net.grpc import connection


class Numbers:
    def model(self):
        return {"weights": np.zeros(50)}

    def fit(self, client, model, work):
        Path("training-%d-%d" % (work.round, client)).touch()
        while work.round and not os.path.exists("GO-%d" % work.round):
            time.sleep(0.02)
        return Fitted({"weights": model["weights"] + 0.1 * client}, client + 1, 1.0)


def make_task(clients, seed):
    connection._LONGEST_PAUSE = 0.2
    return Numbers()
"""


@pytest.fixture
def fleet(here):
    """Files of a fleet: an authority, a coordinator whose local file names the list, and clients whose files do not."""
    Path("numbered.py").write_text(TASK)
    Path("file.yaml").write_text(
        yaml.safe_dump(
            {
                "kind": "horizontal",
                "task": "numbered:make_task",
                "rounds": ROUNDS,
                "clients": CLIENTS,
                "network": {"coordinator": f"127.0.0.1:{free_port()}", "patience": "forever", "lost_after": 1.0},
                "round": {
                    "start_fl_job_time_window": 600_000,
                    "update_model_ratio": 0.8,
                    "update_model_time_window": 600_000,
                },
                "encrypt": {
                    "encrypt_type": "PW_ENCRYPT",
                    "mode": "active",
                    "pw_encrypt": {"share_secrets_ratio": 0.8, "cipher_time_window": 600_000},
                },
            }
        )
    )
    done("keys", "init")
    names = ["coordinator", *(f"client-{identity}" for identity in range(CLIENTS))]
    Path("names.txt").write_text("\n".join(names))
    done("keys", "issue", "--names", "names.txt", "--out", "site")
    for name in names:
        keys = {kind: f"site/{name}/{name}.{kind}.pem" for kind in ("private", "certificate")}
        keys |= {"authority": f"site/{name}/authority.pem"}
        Path(f"{name}.yaml").write_text(json.dumps({"keys": keys}))
    shutil.copy("authority/revoked.pem", "revoked.pem")
    keys = json.loads(Path("coordinator.yaml").read_text())["keys"] | {"revoked": "revoked.pem"}
    Path("coordinator.yaml").write_text(json.dumps({"keys": keys}))
    return here


def join(name: str, *arguments: str):
    who = (
        ["--party", "coordinator"] if name == "coordinator" else ["--party", "client", "--id", name.rpartition("-")[2]]
    )
    with Path(f"{name}.log").open("a") as log:
        return launch(
            [sys.executable, "-m", "tacit", "join", "file.yaml", *who, "--local", f"{name}.yaml", *arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "1"},
            stdout=log,
            stderr=log,
        )


def log(name: str) -> str:
    return Path(f"{name}.log").read_text()


def put_list() -> None:
    """As the operator copies it to the coordinator's machine."""
    shutil.copy("authority/revoked.pem", "revoked.new")
    os.replace("revoked.new", "revoked.pem")


@pytest.mark.slow
def test_a_client_is_revoked_within_a_round_and_returns_with_new_keys(fleet):
    """Its connection ends while it trains. The others complete the round; it is back, in the same run, later."""
    coordinator = join("coordinator", "--state", "c")
    others = {
        f"client-{identity}": join(f"client-{identity}", "--state", f"s{identity}") for identity in range(CLIENTS)
    }
    until(lambda: all(Path(f"training-1-{identity}").exists() for identity in range(CLIENTS)), coordinator)
    done("keys", "revoke", "client-4", "--reason", "key-compromise")
    put_list()
    stolen = others.pop("client-4")
    until(lambda: "the certificate of client-4 was revoked on" in Path("c/events.jsonl").read_text(), coordinator)
    Path("GO-1").touch()
    assert stolen.wait(HANGS) == 3
    assert "coordinator refused: the certificate of client-4 was revoked on" in log("client-4")
    until(lambda: all("the coordinator sent revocation list 2" in log(name) for name in others), coordinator)
    until(lambda: any(Path().glob("training-2-*")), coordinator)
    assert not Path("training-2-4").exists()

    # A thief who has the old files does not get in; the party, with new keys, does.
    thief = join("client-4", "--state", "thief")
    assert thief.wait(HANGS) == 3
    Path("names.txt").write_text("client-4")
    done("keys", "issue", "--names", "names.txt", "--out", "site", "--force")
    again = join("client-4", "--state", "s4")
    until(lambda: log("client-4").count("connected to the coordinator") == 2, again)
    Path("GO-2").touch()
    for process in (coordinator, again, *others.values()):
        assert process.wait(HANGS) == 0, log("coordinator")
    events = [json.loads(line) for line in Path("c/events.jsonl").read_text().splitlines()]
    survivors = [
        event["survivors"] for event in events if event.get("event") == "RoundFinished" or "survivors" in event
    ]
    assert survivors[0] == CLIENTS
    assert survivors[-1] == CLIENTS - 1
    for name in others:  # it is kept for the next start
        assert "X509 CRL" in Path(f"s{name[-1]}/revoked.json").read_text()


@pytest.mark.slow
def test_a_party_says_what_is_wrong_with_its_list_and_does_not_start(fleet):
    put_list()
    whole = Path("revoked.pem").read_bytes()
    done("keys", "revoke", "coordinator")
    for data, why in (
        (None, "revoked.pem: there is no such file"),
        (whole[:-60], "revoked.pem: this is not a readable revocation list: get the newest from the authority"),
        (Path("authority/revoked.pem").read_bytes(), "the certificate of coordinator was revoked on"),
    ):
        Path("revoked.pem").unlink(missing_ok=True)
        if data is not None:
            Path("revoked.pem").write_bytes(data)
        Path("coordinator.log").unlink(missing_ok=True)
        assert join("coordinator").wait(HANGS) == 2
        assert why in log("coordinator")
        assert log("coordinator").count("\n") == 1
