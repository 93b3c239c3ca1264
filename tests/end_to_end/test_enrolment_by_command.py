"""Enrolment as an operator runs it: processes of their own, two at once, and a server that is killed at any moment."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tacit.net.authority_folder import AuthorityFolder
from tacit.net.identity import identity_of
from tacit.net.key_files import load_credentials
from tests.commands import done, ended, free_port, invoke, start
from tests.subprocesses import kill, launch, until

# A server that kills itself at one moment of the first enrolment.
DOOMED = """
import os, signal, sys
from tacit.cli import main
from tacit.net import authority_folder, enrolment_server, enrolment_tokens

place, moment, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
del sys.argv[1:4]
calls = 0

def doomed(function):
    def called(*arguments):
        global calls
        calls += 1
        if calls == count and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        made = function(*arguments)
        if calls == count and moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return made
    return called

module, _, name = place.rpartition(".")
owner = {"tokens": enrolment_tokens, "register": authority_folder.AuthorityFolder, "server": enrolment_server}[module]
setattr(owner, name, doomed(getattr(owner, name)))
main()
"""


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


MOMENTS = [
    slow("tokens._write", "before", 1),  # the token is not marked yet
    ("tokens._write", "after", 1),  # it is marked, and nothing is signed
    slow("register._add", "before", 1),  # it is signed, and not in the register
    slow("register._add", "after", 1),
    slow("tokens._write", "before", 2),  # it is in the register, and not with the token
    slow("tokens._write", "after", 2),
    slow("server._send", "before", 2),  # the answer
]


def logged(*command: object, log: str):
    """A process of Python that writes to files."""
    with Path(f"{log}.log").open("a") as out, Path("errors.log").open("a") as errors:
        return launch(
            [sys.executable, *map(str, command)],
            stdout=out,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"},
        )


def serve(port: int, *doom: object):
    before = Path("serve.log").read_text().count("enrolment on") if Path("serve.log").exists() else 0
    how = ["-c", DOOMED, *doom] if doom else ["-m", "tacit"]
    process = logged(*how, "keys", "serve", "--address", f"127.0.0.1:{port}", log="serve")
    until(lambda: Path("serve.log").read_text().count("enrolment on") > before, process)
    return process


def token(name: str, port: int) -> str:
    return done("keys", "token", name, "--address", f"127.0.0.1:{port}").split("\n")[0]


def held(name: str, folder: str):
    at = Path(folder)
    return load_credentials(at / f"{name}.private.pem", at / f"{name}.certificate.pem", at / "authority.pem")


@pytest.mark.parametrize(("place", "moment", "count"), MOMENTS)
def test_a_server_that_is_killed_gives_one_certificate_for_one_pair_of_keys(here, place, moment, count):
    """The party repeats its command and gets it; another with the same token gets none."""
    port = free_port()
    done("keys", "init")
    text = token("site-1", port)
    doomed = serve(port, place, moment, count)
    cut = invoke("keys", "enrol", text, "--out", "site")
    assert cut.exit_code == 2
    assert "repeat the command" in cut.stderr
    assert doomed.wait() == -9
    serve(port)
    marked = (place, moment) != ("tokens._write", "before") or count == 2
    if marked:
        thief = invoke("keys", "enrol", text, "--out", "thief")
        assert thief.exit_code == 2
        assert "used already, for other keys" in thief.stderr
        done("keys", "enrol", text, "--out", "site")
    else:  # nothing had happened: the first that comes
        done("keys", "enrol", text, "--out", "site")
        assert "used already" in invoke("keys", "enrol", text, "--out", "thief").stderr
    fingerprint = held("site-1", "site").identify(held("site-1", "site").certificate).fingerprint
    assert {each.fingerprint for each in AuthorityFolder(Path("authority")).issued("site-1")} == {fingerprint}
    certificates = list(here.rglob("site-1.certificate.pem"))
    assert len(certificates) == 1
    assert Path("errors.log").read_text() == ""


def test_of_two_processes_with_one_token_one_is_enrolled(here):
    port = free_port()
    done("keys", "init")
    text = token("site-1", port)
    serve(port)
    both = [start("keys", "enrol", text, "--out", out) for out in ("one", "two")]
    for process in both:
        process.wait()
    assert sorted(process.returncode for process in both) == [0, 2]
    (lost,) = [process for process in both if process.returncode]
    assert "used already, for other keys: if not by you, tell the authority" in lost.communicate()[1]
    assert len(list(here.rglob("site-1.certificate.pem"))) == 1


@pytest.mark.slow
def test_many_parties_enrol_while_the_server_runs_and_its_log_names_them(here):
    port = free_port()
    done("keys", "init")
    texts = {f"site-{number}": token(f"site-{number}", port) for number in range(5)}
    server = serve(port)
    running = [start("keys", "enrol", text, "--out", name) for name, text in texts.items()]
    for process in running:
        ended(process)
    for name in texts:
        assert held(name, name).name == name
        assert f"{name} has a certificate for keys" in Path("serve.log").read_text()
    server.terminate()
    assert server.wait() == 0
    assert Path("serve.log").read_text().endswith("Stopped.\n")
    secrets = [text[-60:] for text in texts.values()]
    assert not [secret for secret in secrets if secret in Path("serve.log").read_text()]


@pytest.mark.slow
def test_a_coordinator_does_not_enrol_anybody(here):
    """Its port is another, its process has not loaded the code, and a token is not told to it."""
    port = free_port()
    done("keys", "init")
    done("keys", "request", "coordinator")
    done("keys", "sign", "coordinator.request.pem", "--authority", "authority", "--yes")
    Path("fleet.yaml").write_text(
        "kind: horizontal\nname: d\ntask: digits\nrounds: 1\nclients: 2\n"
        f"network: {{coordinator: '127.0.0.1:{port}'}}\n"
    )
    keys = {kind: f"coordinator.{kind}.pem" for kind in ("private", "certificate")} | {
        "authority": "authority/authority.pem"
    }
    Path("c.yaml").write_text(json.dumps({"keys": keys}))
    script = (
        "import sys, threading, time\n"
        "ENROLMENT = {'tacit.net.enrolment', 'tacit.net.enrolment_server', 'tacit.net.enrolment_tokens'}\n"
        "def look():\n"
        "    while 'tacit.net.grpc.server' not in sys.modules: time.sleep(0.05)\n"
        "    time.sleep(1)\n"
        "    print('loaded', sorted(m for m in sys.modules if m in ENROLMENT), flush=True)\n"
        "threading.Thread(target=look, daemon=True).start()\n"
        "from tacit.cli import main\nmain()\n"
    )
    joined = ["join", "fleet.yaml", "--party", "coordinator", "--local", "c.yaml"]
    coordinator = logged("-c", script, *joined, log="out")
    until(lambda: "listening on" in Path("out.log").read_text(), coordinator)
    until(lambda: "loaded" in Path("out.log").read_text(), coordinator)
    assert "loaded []" in Path("out.log").read_text()
    refused = invoke("keys", "enrol", token("client-0", port), "--out", "site")
    assert refused.exit_code == 2
    assert "does not answer as an enrolment server" in refused.stderr
    kill(coordinator)


def test_a_name_is_revoked_and_enrols_again(here):
    port = free_port()
    done("keys", "init")
    serve(port)
    done("keys", "enrol", token("site-1", port), "--out", "old")
    unused = token("site-1", port)
    assert "1 unused token of site-1 is void" in done("keys", "revoke", "site-1", "--reason", "key-compromise")
    assert "not known here" in invoke("keys", "enrol", unused, "--out", "new").stderr
    for path in Path("new").iterdir():
        path.unlink()
    printed = done("keys", "enrol", token("site-1", port), "--out", "new")
    assert "revoked: new/revoked.pem" in printed
    with_list = Path("new/revoked.pem")
    new = load_credentials(
        Path("new/site-1.private.pem"), Path("new/site-1.certificate.pem"), Path("new/authority.pem"), revoked=with_list
    )
    assert new.revocations.newest.number == 2
    old = identity_of(Path("old/site-1.certificate.pem").read_bytes(), new.authority)
    assert "key compromise" in (new.revocations.reason_against(old) or "")
