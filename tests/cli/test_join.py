"""`tacit join` as a user meets it: mistakes end in a sentence, and two processes make a federation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import tacit
from tacit.net import key_files
from tacit.net.hub import Hub
from tacit.net.spoke import Spoke
from tacit.net.star_guest import StarGuest
from tacit.net.star_host import StarHost
from tests import commands
from tests.commands import ended, free_port

FILE = """\
kind: horizontal
name: small
task: digits
rounds: 2
clients: 4
encrypt: {encrypt_type: PW_ENCRYPT, cipher_time_window: 600000}
network: {coordinator: "127.0.0.1:PORT"}
round: {start_fl_job_time_window: 600000}
"""
DEAL = """\
kind: vertical_logistic
name: deal
task: cancer
parties:
  hospital: {role: active, address: "127.0.0.1:PORT"}
  laboratory: {role: passive}
paillier: {bits: 512}
"""


join, start = partial(commands.invoke, "join"), partial(commands.start, "join")


@pytest.fixture(autouse=True)
def file(here):
    Path("fleet.yaml").write_text(FILE.replace("PORT", str(free_port())))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.yaml", "--party", "coordinator"], "none.yaml: there is no such file"),
        (["fleet.yaml", "--party", "bank"], "--party is 'bank': give coordinator, or client with --id"),
        (["fleet.yaml", "--party", "client"], "--id is missing: give the client's number, from 0 to 3"),
        (["fleet.yaml", "--party", "client-2"], "did you mean --party client --id 2?"),
        (
            ["fleet.yaml", "--party", "coordinator", "--insecure", "--set", "network.coordinator=127.0.0.1:99999"],
            "HOST:PORT, with a port from 1 to 65535",
        ),
        (["fleet.yaml", "--party", "client", "--id", "4"], "the file has clients 0 to 3"),
        (["fleet.yaml", "--party", "client", "--id", "2-1"], "the file has clients 0 to 3"),
        (["fleet.yaml", "--party", "coordinator", "--id", "1"], "--id is for clients"),
        (["fleet.yaml", "--party", "coordinator", "--metrics", "65536"], "65536 is not in the range 1<=x<=65535"),
        (["fleet.yaml", "--party", "coordinator"], "keys are missing: name them in the --local file"),
        (
            ["fleet.yaml", "--party", "coordinator", "--insecure", "--set", "network.coordinator=fleet.example:8443"],
            "--insecure is for this machine only, and fleet.example:8443 is not 127.0.0.1",
        ),
        (
            ["fleet.yaml", "--party", "coordinator", "--insecure", "--set", "simulation.insecure_noise_seed=1"],
            "simulation.insecure_noise_seed fixes the noise of real parties",
        ),
        (["fleet.yaml", "--party", "coordinator", "--local", "none.yaml"], "none.yaml: there is no such file"),
        (["fleet.yaml", "--party", "coordinator", "--local", "bad.yaml"], "bad.yaml:1: keyz is not a known key"),
        (["fleet.yaml", "--party", "coordinator", "--local", "lost.yaml"], "lost/private.pem"),
        (
            ["fleet.yaml", "--party", "client", "--id", "0", "--insecure", "--local", "hasty.yaml"],
            "hasty.yaml:2: network.patience is 'soon': it must be seconds above 0 and at most 1e9, or forever\n",
        ),
    ],
)
def test_mistakes_end_with_2_and_leave_nothing(arguments, words):
    Path("bad.yaml").write_text("keyz: {}\n")
    Path("hasty.yaml").write_text("network:\n  patience: soon\n")
    Path("lost.yaml").write_text("keys: {private: lost/private.pem, certificate: c.pem, authority: a.pem}\n")
    done = join(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "Traceback" not in done.output
    assert not Path("runs").exists()


def test_a_certificate_of_another_party_is_not_taken(here):
    key_files.init_authority(here / "ca")
    key_files.make_request("client-1", here / "site")
    key_files.sign_request(here / "ca", here / "site" / "client-1.request.pem", here / "site" / "c.pem")
    Path("site.yaml").write_text(
        "keys: {private: site/client-1.private.pem, certificate: site/c.pem, authority: ca/authority.pem}\n"
    )
    done = join("fleet.yaml", "--party", "client", "--id", "0", "--local", "site.yaml")
    assert done.exit_code == 2
    assert "the certificate is of client-1, and you want to be client-0" in done.stderr


@pytest.mark.parametrize("party", ["coordinator", "client", "hospital", "laboratory"])
def test_a_party_that_is_out_of_memory_ends_with_5(monkeypatch, party):
    def fail(*_):
        raise MemoryError

    file = "deal.yaml" if party in ("hospital", "laboratory") else "fleet.yaml"
    Path("deal.yaml").write_text(DEAL.replace("PORT", str(free_port())))
    monkeypatch.setattr(StarHost, "_there", fail)
    monkeypatch.setattr(StarGuest, "_away", fail)
    monkeypatch.setattr(Hub, "meet", fail)
    monkeypatch.setattr(Spoke, "meet", fail)
    identity = ["--id", "0"] if party == "client" else []
    done = join(file, "--party", party, *identity, "--insecure", "--state", "state")
    assert done.exit_code == 5, done.output
    assert done.stderr == "This machine has too little memory: start again once more is available.\n"
    assert "stopped after 0" in done.stdout or party == "client"  # whose end stands in its log alone


def test_two_processes_make_the_federation_that_one_makes():
    coordinator = start("fleet.yaml", "--party", "coordinator", "--insecure")
    clients = start("fleet.yaml", "--party", "client", "--id", "0-3", "--insecure")
    output, errors = ended(coordinator)
    told, client_errors = ended(clients)
    assert (errors, client_errors) == ("", "")
    assert "without certificates (--insecure)" in output
    assert "round 2/2 survivors 4" in output
    assert "round 2 client 3 uploaded" in told
    assert "done after 2 rounds" in told
    (folder,) = Path("runs").glob("*-small-coordinator")
    stored = safetensors.numpy.load_file(folder / "model.safetensors")
    alone = tacit.run("fleet.yaml", runs="alone")
    for name, array in alone.model.items():
        np.testing.assert_array_equal(stored[name], array)
    assert (folder / "report.html").exists()
    for arguments in (
        ["--party", "client", "--id", "0-3", "--resume", str(folder)],
        ["--party", "client", "--id", "1", "--resume", str(next(Path("runs").glob("*-small-client-0")))],
        ["--party", "coordinator", "--resume", str(next(Path("runs").glob("*-small-client-0")))],
    ):
        done = join("fleet.yaml", "--insecure", *arguments)
        assert done.exit_code == 2
        assert "this is the run of" in done.stderr


def test_files_that_differ_stop_whoever_joins_with_the_key():
    start("fleet.yaml", "--party", "coordinator", "--insecure")
    client = start("fleet.yaml", "--party", "client", "--id", "0", "--insecure", "--set", "train.learning_rate=0.7")
    _, errors = ended(client, 3)
    assert "the files differ: train.learning_rate is 0.1 at the coordinator and 0.7 here" in errors
    assert "Traceback" not in errors
