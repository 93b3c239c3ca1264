"""A bar is for terminals: a command in a notebook prints lines, although Jupyter asks for colours."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tacit.cli.progress import Bar, Plain, screen
from tests.commands import invoke

FILE = "kind: horizontal\ntask: digits\nrounds: 1\nclients: 5\nencrypt: {encrypt_type: NOT_ENCRYPT}\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def colours(monkeypatch):
    """The environment that Jupyter gives to the commands of a cell."""
    for name, value in {"TERM": "xterm-color", "CLICOLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}.items():
        monkeypatch.setenv(name, value)


def test_a_terminal_gets_a_bar_and_a_pipe_gets_lines(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert isinstance(screen(), Bar)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert isinstance(screen(), Plain)


def test_a_command_in_a_notebook_prints_lines_without_escape_codes(here):
    Path("fleet.yaml").write_text(FILE)
    run = invoke("run", "fleet.yaml")
    audit = invoke("audit", "fleet.yaml", "--quick")
    for done in (run, audit):
        assert done.exit_code == 0, done.output
        assert "\x1b" not in done.output
    assert "round 1/1 survivors 5" in run.stdout
    assert "step 1/" in audit.stderr
