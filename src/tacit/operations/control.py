"""Commands to a running party, over a Unix socket in the folder of its run.

    with listening(folder, answer):     the party: `answer(verb)` gives what is said, and what is done after that
    ask(folder, verb)                   another process of the same user; ConfigError if no party runs there

One line of JSON each way, {"ask": "status"} and an object; then the connection ends.

Guarantee: only processes of the same user are heard, and only the party of the same user is believed: the socket has
    mode 0600, and both ends ask the kernel who the other is (SO_PEERCRED).
Assumes: Linux, or another system with SO_PEERCRED; elsewhere there is no socket, and a note says so.

The process holds the lock of the folder (see `RunDirectory`): a socket that it finds there is of one that was killed.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tacit.config.source import ConfigError

NAME = "control.sock"
_ASKED_BYTES = 256
_ANSWER_BYTES = 1 << 16
_SECONDS = 2.0  # for one connection at the party
_WAITS = 10.0  # seconds for the party's answer, as others may be before us
_WAITING = 16  # connections
_PAUSE = 0.2  # seconds without accepting, while there are no descriptors
_PEER = struct.Struct("iII")  # process, user, group
Answer = Callable[[str], tuple[dict[str, Any], Callable[[], None] | None]]


@contextmanager
def listening(folder: Path, answer: Answer) -> Iterator[None]:
    """Answer until the end of the block. OSError, or ValueError in a sentence, if there can be no socket there.

    Args:
        answer: to one word. It must not take long; what it gives besides is done once the answer has left.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        raise ValueError("this system does not say who connects to a socket")
    with _opened(folder) as short:
        _check_folder(short)
        _remove_stale(Path(short, NAME))
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f"{short}/{NAME}")
            os.chmod(f"{short}/{NAME}", 0o600)  # before anybody can connect
            server.listen(_WAITING)
            over = threading.Event()
            thread = threading.Thread(target=_serve, args=(server, answer, over), name="control", daemon=True)
            thread.start()
            try:
                yield
            finally:
                over.set()
                with suppress(OSError):
                    server.shutdown(socket.SHUT_RDWR)  # wakes the thread
                thread.join(_SECONDS)
                with suppress(OSError):
                    os.unlink(f"{short}/{NAME}")


def ask(folder: Path, verb: str) -> dict[str, Any]:
    """What the party that runs in this folder answers to one word."""
    if not (folder / "config.yaml").is_file():
        raise ConfigError(f"{folder}: this is not the folder of a run: give the one that --state or runs/ names")
    with _opened(folder) as short, socket.socket(socket.AF_UNIX) as connection:
        deadline = time.monotonic() + _WAITS
        try:
            _connect(connection, f"{short}/{NAME}", deadline)
            if _peer(connection) != os.geteuid():
                raise ConfigError(f"{folder}: the process that listens there is of another user: it is not believed")
            connection.sendall(json.dumps({"ask": verb}).encode() + b"\n")
            line = _line(connection, _ANSWER_BYTES, deadline)
        except (FileNotFoundError, ConnectionRefusedError):
            raise ConfigError(
                f"{folder}: no process is running there: tacit runs shows how it ended, tacit join or run starts it"
            ) from None
        except PermissionError:
            raise ConfigError(f"{folder}: this run is of another user: give the command as that user") from None
        except TimeoutError:
            raise ConfigError(f"{folder}: the process that runs there does not answer: try again") from None
        except OSError as error:
            raise ConfigError(f"{folder}: the process that runs there cannot be asked: {error}") from None
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{folder}: the process that runs there gave no answer: is it of another release, or ending?")
    return found


def _connect(connection: socket.socket, path: str, deadline: float) -> None:
    """Connect, once there is room among those who wait."""
    connection.settimeout(_WAITS)
    while True:
        try:
            return connection.connect(path)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError("others are before us") from None
            time.sleep(_PAUSE)


@contextmanager
def _opened(folder: Path) -> Iterator[str]:
    """A short path to a folder: that of a socket may have 107 bytes. Nobody exchanges the folder meanwhile."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{folder}: this folder cannot be opened: {error.strerror}") from None
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _check_folder(folder: str) -> None:
    found = os.stat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
        raise ValueError("other users can write into the folder of the run")


def _remove_stale(path: Path) -> None:
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ValueError(f"{path.name} lies in the folder of the run, and is no socket")
        path.unlink()


def _serve(server: socket.socket, answer: Answer, over: threading.Event) -> None:
    """One connection after the other, none for long."""
    while not over.is_set():
        try:
            connection, _ = server.accept()
        except OSError:  # it is over, or there are no descriptors at the moment
            over.wait(_PAUSE)
            continue
        with connection, suppress(OSError):
            if _peer(connection) == os.geteuid():
                _answer_one(connection, answer)


def _answer_one(connection: socket.socket, answer: Answer) -> None:
    connection.settimeout(_SECONDS)
    line = _line(connection, _ASKED_BYTES, time.monotonic() + _SECONDS)
    try:
        asked = json.loads(line)
        verb = asked["ask"] if isinstance(asked, dict) else ""
    except (ValueError, KeyError, RecursionError):
        verb = ""
    try:
        said, then = answer(verb if isinstance(verb, str) else "")
    except Exception as error:  # whatever is wrong here must not be the end of all commands
        said, then = {"error": f"this could not be answered ({type(error).__name__}): see its log"}, None
    connection.settimeout(_SECONDS)
    connection.sendall(json.dumps(said, allow_nan=False).encode() + b"\n")
    if then is not None:
        then()


def _line(connection: socket.socket, limit: int, deadline: float) -> bytes:
    """What comes up to the end of a line, or of the connection."""
    found = b""
    while not found.endswith(b"\n") and len(found) < limit:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("it took too long")
        connection.settimeout(left)
        piece = connection.recv(min(4096, limit - len(found)))
        if not piece:
            break
        found += piece
    return found


def _peer(connection: socket.socket) -> int:
    """Of which user the process at the other end is."""
    _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(user)
