"""The processes that tests start, the ports that they listen on, and how tests wait: for events, up to a long limit.

What a test leaves running, because it failed or because it meant to, is ended after it: see `conftest.py`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

HANGS = 300.0  # seconds: a limit for what hangs. It says nothing about how fast anything is
_started: list[subprocess.Popen[Any]] = []
_reserved: list[socket.socket] = []


def launch(command: Sequence[Any], **options: Any) -> subprocess.Popen[Any]:
    """Start a process, in a group of its own: `end_all` ends it and its children."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    _started.append(process)
    return process


def free_port() -> int:
    """A port on loopback that nobody else is given before this test is over.

    The socket stays bound and does not listen. The system does not choose its port for another socket, and a server
    that sets SO_REUSEADDR, as ours and gRPC's do, can still listen on it.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    _reserved.append(reserved)
    return int(reserved.getsockname()[1])


def until(holds: Callable[[], Any], *alive: subprocess.Popen[Any]) -> None:
    """Wait for something that processes do. They must be alive until then."""
    deadline = time.monotonic() + HANGS
    while not holds():
        assert time.monotonic() < deadline, f"it did not happen in {HANGS:.0f} s"
        for process in alive:
            assert process.poll() is None or holds(), (process.args, process.communicate())
        time.sleep(0.01)


def kill(process: subprocess.Popen[Any]) -> None:
    """SIGKILL for a process and its children, and wait for its end."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait(HANGS)


def end_all() -> None:
    """End what is still running of all that was launched, and give the ports back."""
    while _started:
        process = _started.pop()
        kill(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
    while _reserved:
        _reserved.pop().close()
