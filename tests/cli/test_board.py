"""`tacit board` as a process: it prints its address, ends on signals with 0, and refuses in one sentence."""

import http.client
import re
import signal

import pytest

from tests.commands import ended, free_port, invoke, start
from tests.inside import inside
from tests.report.sample_runs import settings, write
from tests.subprocesses import HANGS


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_and_ends_well_on_a_signal(here, how):
    (here / "runs").mkdir()
    port = free_port()
    board = start("board", "--port", str(port))
    line = board.stdout.readline()
    found = re.fullmatch(rf"Board of runs: (http://127\.0\.0\.1:{port})(/\?token=[\w-]{{43}})\n", line)
    assert found, line
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS)
    connection.request("GET", found[2])
    assert connection.getresponse().status == 303
    connection.close()
    board.send_signal(how)
    out, err = ended(board, 0)
    assert (out, err) == ("The board is closed.\n", "")


def test_a_port_in_use_is_one_sentence(here):
    (here / "runs").mkdir()
    port = free_port()
    first = start("board", "--port", str(port))
    first.stdout.readline()
    second = start("board", "--port", str(port))
    out, err = ended(second, 2)
    assert out == ""
    assert re.fullmatch(rf"127\.0\.0\.1:{port} cannot be listened on \(.*\): choose another --port\n", err)


def test_what_is_no_folder_of_runs_is_one_sentence(here):
    run = write(here / "runs", settings(), [])
    for folder, words in (
        (run, "is itself a run"),
        (run / "config.yaml", "no such folder"),
        ("none", "no such folder"),
    ):
        refused = invoke("board", folder)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert words in refused.stderr


def test_a_browser_is_opened_with_an_address_that_is_not_the_printed_one(here, monkeypatch):
    from tacit.cli import board

    opened = []

    def then_stop(address):
        opened.append(address)
        raise KeyboardInterrupt

    monkeypatch.setattr(inside(board).webbrowser, "open", then_stop)
    (here / "runs").mkdir()
    shown = invoke("board", "--open")
    assert shown.exit_code == 0
    (address,) = opened
    assert address.startswith("http://127.0.0.1:")
    assert address not in shown.output
