"""A flood at the port of the coordinator, in a process of its own: the fleet goes on, and a client can join."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tacit.events import PortWatched, RoundFinished
from tacit.net.identity import Authority, request
from tacit.store.directory import read_events

LIMIT = 600.0  # seconds after which a test that hangs fails
DESCRIPTORS = 256  # of the coordinator
TASK = """
import time
import numpy as np
from tacit.kinds.horizontal.task import Fitted

class Numbers:
    def model(self):
        return {"weights": np.zeros(50)}
    def fit(self, client, model, work):
        time.sleep(0.3)
        return Fitted({"weights": model["weights"] + 0.1 * client}, client + 1)

def make_task(clients, seed):
    return Numbers()
"""


class Fleet:
    """A coordinator and clients with certificates, as processes in a folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as other:
            self.port, self.metrics = free.getsockname()[1], other.getsockname()[1]
        authority = Authority.create()
        (folder / "authority.pem").write_bytes(authority.certificate_pem)
        for name in ("coordinator", *(f"client-{i}" for i in range(4))):
            self._certify(authority, name, name)
            local = {"keys": {"private": f"{name}.key", "certificate": f"{name}.pem", "authority": "authority.pem"}}
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(local))
        self._certify(authority, "visitor", "visitor")
        self._certify(Authority.create(), "client-1", "unknown")
        (folder / "numbered.py").write_text(TASK)
        settings = {
            "kind": "horizontal",
            "task": "numbered:make_task",
            "rounds": 3,
            "clients": 4,
            "network": {"coordinator": f"127.0.0.1:{self.port}"},
            "round": {"start_fl_job_time_window": 550_000, "update_model_time_window": 200_000},
            "encrypt": {"encrypt_type": "PW_ENCRYPT", "cipher_time_window": 200_000},
        }
        (folder / "file.yaml").write_text(yaml.safe_dump(settings))

    def _certify(self, authority: Authority, name: str, file: str) -> None:
        private, asked = request(name)
        key = self.folder / f"{file}.key"
        key.write_bytes(private)
        key.chmod(0o600)
        (self.folder / f"{file}.pem").write_bytes(authority.sign(asked))

    def start(self, *command: str, descriptors: int | None = None, **more) -> subprocess.Popen[str]:
        path = os.pathsep.join(filter(None, sys.path))

        def limited() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": path},
            text=True,
            preexec_fn=limited if descriptors else None,
            **more,
        )
        self._stack.callback(end, process)
        return process

    def join(self, name: str, **more) -> subprocess.Popen[str]:
        who = ["coordinator"] if name == "coordinator" else ["client", "--id", name.removeprefix("client-")]
        out = self._stack.enter_context((self.folder / f"{name}.out").open("w"))
        command = ["tacit", "join", "file.yaml", "--party", *who, "--local", f"{name}.yaml", "--runs", name, "--quiet"]
        if name == "coordinator":
            command += ["--metrics", str(self.metrics)]
        return self.start(*command, stdout=out, stderr=subprocess.STDOUT, **more)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text() + "".join(
            path.read_text() for path in (self.folder / name).glob("*/run.log")
        )

    def wait_for(self, name: str, text: str, process: subprocess.Popen[str]) -> None:
        start = time.monotonic()
        while text not in self.said(name):
            assert process.poll() is None, self.said(name)
            assert time.monotonic() - start < LIMIT, self.said(name)
            time.sleep(0.05)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("127.0.0.1", id="from the same address", marks=pytest.mark.slow),
        pytest.param("127.0.0.2", id="from another one", marks=pytest.mark.slow),  # 30 s
    ],
)
def test_the_fleet_goes_on_during_a_flood_and_a_client_joins(address, tmp_path):
    """With 256 descriptors in all: 3000 strangers would take them many times over."""
    with ExitStack() as stack:
        fleet = Fleet(tmp_path, stack)
        coordinator = fleet.join("coordinator", descriptors=DESCRIPTORS)
        fleet.wait_for("coordinator", "listening on", coordinator)
        clients = [fleet.join(f"client-{i}") for i in range(3)]
        for number, client in enumerate(clients):
            fleet.wait_for(f"client-{number}", "connected to the coordinator", client)
        flood = fleet.start(
            "tests.net.flood",
            *map(str, (fleet.port, address, 1500, tmp_path)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert flood.stdout is not None
        assert flood.stdout.readline() == "flooding\n"
        fleet.wait_for("coordinator", "refused at the port", coordinator)
        coordinator.send_signal(signal.SIGHUP)  # which has it read its certificates, and no more
        with urllib.request.urlopen(f"http://127.0.0.1:{fleet.metrics}/metrics", timeout=LIMIT) as page:
            figures = page.read().decode()
        clients.append(fleet.join("client-3"))  # without which no round begins
        codes = [process.wait(LIMIT) for process in (coordinator, *clients)]
        assert flood.poll() is None
        said = "\n".join(fleet.said(name) for name in ("coordinator", *(f"client-{i}" for i in range(4))))
    assert codes == [0, 0, 0, 0, 0], said
    (run,) = (tmp_path / "coordinator").iterdir()
    events = list(read_events(run / "events.jsonl"))
    assert [event.survivors for event in events if isinstance(event, RoundFinished)] == [4] * 3
    watched = [event for event in events if isinstance(event, PortWatched)]
    assert watched[-1].refused["connections"] + watched[-1].refused["address"] > 1000
    assert max(event.open for event in watched) <= DESCRIPTORS // 3
    assert "open files leaves room for" in said
    refused = re.findall(r'tacit_connections_refused_total\{reason="(?:address|connections)"\} (\d+)', figures)
    assert sum(map(int, refused)) > 0
