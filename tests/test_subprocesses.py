"""What tests start ends with them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.subprocesses import end_all, free_port, launch, until

SLEEPS = "import time; time.sleep(3600)"
PARENT = (
    "import subprocess, sys\n"
    f"child = subprocess.Popen([sys.executable, '-c', {SLEEPS!r}])\n"
    "print(child.pid, flush=True)\n"
    "child.wait()\n"
)


def test_processes_end_with_their_children():
    process = launch([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    with os.fdopen(os.dup(process.stdout.fileno())) as pipe:
        assert int(pipe.readline()) > 0
        end_all()
        assert process.returncode == -signal.SIGKILL
        assert pipe.read() == ""  # nobody holds its other end any more, the child neither


def test_who_waits_for_a_process_that_ended_is_told_what_it_said():
    process = launch([sys.executable, "-c", "print('why')"], stdout=subprocess.PIPE, text=True)
    with pytest.raises(AssertionError, match="why"):
        until(lambda: False, process)


def test_a_port_is_given_once_and_can_be_listened_on():
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", ports[0]))
    with socket.create_server(("127.0.0.1", ports[0])), socket.create_connection(("127.0.0.1", ports[0])):
        pass
