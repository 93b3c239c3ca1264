"""The socket for commands: who is heard, and what garbage, floods and other users come to."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.config.source import ConfigError
from tacit.operations import control
from tacit.operations.control import NAME, ask, listening
from tests.subprocesses import HANGS, until

by_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.yaml").touch()
    return tmp_path


def echo(word):
    return {"text": word}, None


def connected(folder):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(HANGS)
    connection.connect(str(folder / NAME))
    return connection


def said(folder, data):
    """What is answered to these bytes."""
    with connected(folder) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # it was too much, and has been cut
            pass
        found = b""
        try:
            while piece := connection.recv(4096):
                found += piece
        except ConnectionResetError:
            pass
        return found


def test_a_word_is_answered_and_the_socket_goes_with_the_party(folder):
    with listening(folder, echo):
        assert ask(folder, "status") == {"text": "status"}
        mode = (folder / NAME).stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
    assert not (folder / NAME).exists()
    with pytest.raises(ConfigError, match="no process is running there"):
        ask(folder, "status")


def test_what_is_to_be_done_comes_after_the_answer(folder):
    done = threading.Event()

    def answer(word):
        return {"text": word}, done.set

    with listening(folder, answer):
        assert ask(folder, "stop") == {"text": "stop"}
        assert done.wait(HANGS)


def test_no_run_and_no_folder_are_said_in_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match="this is not the folder of a run"):
        ask(tmp_path, "status")
    with pytest.raises(ConfigError, match="this is not the folder of a run"):
        ask(tmp_path / "nothing", "status")


def test_the_socket_of_a_killed_process_is_replaced(folder):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(folder / NAME))
    left.close()
    with pytest.raises(ConfigError, match="no process is running there"):
        ask(folder, "status")
    with listening(folder, echo):
        assert ask(folder, "status") == {"text": "status"}


@pytest.mark.parametrize(
    "make", [lambda path: path.write_text("precious"), lambda path: path.symlink_to("/etc/passwd")]
)
def test_anything_else_of_that_name_stays(folder, make):
    make(folder / NAME)
    with pytest.raises(ValueError, match="is no socket"), listening(folder, echo):
        pass
    assert os.path.lexists(folder / NAME)


def test_a_long_path_is_no_obstacle(folder):
    long = folder
    for _ in range(5):
        long = long / ("x" * 60)
    long.mkdir(parents=True)
    (long / "config.yaml").touch()
    with socket.socket(socket.AF_UNIX) as other, pytest.raises(OSError, match="path too long"):
        other.bind(str(long / NAME))
    with listening(long, echo):
        assert ask(long, "status") == {"text": "status"}


def test_a_folder_that_anyone_can_write_into_gets_no_socket(folder):
    folder.chmod(0o777)
    with pytest.raises(ValueError, match="other users can write"), listening(folder, echo):
        pass
    assert not (folder / NAME).exists()


@given(st.binary(max_size=600))
def test_garbage_is_answered_with_nothing_worse_than_a_word_that_is_not_known(folder_of_module, data):
    folder, heard = folder_of_module
    heard.clear()
    answered = said(folder, data)
    assert len(heard) <= 1
    assert all(isinstance(word, str) for word in heard)
    assert answered == b"" or json.loads(answered) == {"text": heard[0]}


@pytest.fixture(scope="module")
def folder_of_module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "config.yaml").touch()
    heard = []

    def answer(word):
        heard.append(word)
        return echo(word)

    with listening(folder, answer):
        yield folder, heard


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"[]\n", b"{}\n", b'{"ask": 3}\n', b'{"ask": ["stop"]}\n', b"[" * 255, b"\xff\n", b"stop\n"]
)
def test_what_is_no_question_is_no_word(folder_of_module, data):
    assert json.loads(said(folder_of_module[0], data)) == {"text": ""}


def test_a_question_is_bounded_in_size_and_in_time(folder, monkeypatch):
    monkeypatch.setattr(control, "_SECONDS", 0.3)
    with listening(folder, echo):
        assert said(folder, b" " * 100_000) in (b"", b'{"text": ""}\n')
        with connected(folder) as idle:
            assert idle.recv(10) == b""
        assert ask(folder, "status") == {"text": "status"}


def test_a_flood_delays_others_and_no_more(folder, monkeypatch):
    monkeypatch.setattr(control, "_SECONDS", 0.05)
    with listening(folder, echo):
        before = threading.active_count()
        flood = []
        for _ in range(200):
            connection = socket.socket(socket.AF_UNIX)
            connection.setblocking(False)
            with suppress(BlockingIOError):  # as many wait as may
                connection.connect(str(folder / NAME))
            flood.append(connection)
        assert threading.active_count() == before
        for connection in flood:
            connection.close()
        assert ask(folder, "status") == {"text": "status"}


def test_a_party_that_ends_with_connections_open_ends(folder):
    with listening(folder, echo):
        idle = connected(folder)
    idle.close()
    assert not (folder / NAME).exists()


AS_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
connection = socket.socket(socket.AF_UNIX)
try:
    connection.connect(sys.argv[1])
    connection.sendall(b'{"ask": "stop"}\\n')
    print("answered", connection.recv(100))
except OSError as error:
    print("error", type(error).__name__)
"""


def as_nobody(folder):
    command = [sys.executable, "-S", "-c", AS_NOBODY, NAME]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=True, cwd=folder).stdout


@by_root
def test_another_user_is_not_heard(folder):
    folder.chmod(0o755)
    heard = []

    def answer(word):
        heard.append(word)
        return echo(word)

    with listening(folder, answer):
        assert "PermissionError" in as_nobody(folder)
        (folder / NAME).chmod(0o777)  # even if the mode were lost, the kernel says who it is
        found = as_nobody(folder)
        assert "answered b''" in found or "error" in found
        assert ask(folder, "status") == {"text": "status"}
    assert heard == ["status"]


POSING = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1]); server.listen(); open("there", "w").close()
server.accept()[0].sendall(b'{"text": "all is well"}\\n')
"""


@by_root
def test_another_user_who_poses_as_the_party_is_not_believed(folder):
    folder.chmod(0o777)
    command = [sys.executable, "-S", "-c", POSING, NAME]
    posing = subprocess.Popen(command, cwd=folder)
    try:
        until(lambda: (folder / "there").exists(), posing)
        with pytest.raises(ConfigError, match="of another user: it is not believed"):
            ask(folder, "status")
    finally:
        posing.kill()
        posing.wait()


@pytest.mark.parametrize("answer", [b"", b"no json\n", b"[1]\n", b"x" * (1 << 17)])
def test_an_answer_that_makes_no_sense_is_said_in_a_sentence(folder, answer):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / NAME))
    server.listen()

    def reply():
        with server.accept()[0] as connection:
            connection.recv(100)
            with suppress(OSError):
                connection.sendall(answer)

    thread = threading.Thread(target=reply, daemon=True)
    thread.start()
    with pytest.raises(ConfigError, match="gave no answer"):
        ask(folder, "status")
    thread.join(HANGS)
    server.close()


def test_a_fault_in_an_answer_is_not_the_end_of_all_commands(folder):
    def answer(word):
        if word == "status":
            raise KeyError("secret")
        return echo(word)

    with listening(folder, answer):
        assert ask(folder, "status") == {"error": "this could not be answered (KeyError): see its log"}
        assert ask(folder, "stop") == {"text": "stop"}


def test_no_more_descriptors_are_no_end(folder, monkeypatch):
    failures = iter([OSError(24, "Too many open files")] * 2)
    monkeypatch.setattr(control, "_PAUSE", 0.01)
    accept = socket.socket.accept

    def poor(self):
        for error in failures:
            raise error
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", poor)
    with listening(folder, echo):
        assert ask(folder, "status") == {"text": "status"}
