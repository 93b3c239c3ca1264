"""`tacit completion`: real shells complete verbs, options and the commands below a verb."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import done, invoke

ASK = """
source {script}
ask() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _tacit_completion tacit; echo "${{COMPREPLY[*]}}"; }}
ask tacit ru
ask tacit run --resu
ask tacit keys ini
ask tacit completion --in
complete -p tacit
"""


@pytest.fixture
def command(here):
    """`tacit` on the path, as this interpreter runs it."""
    script = here / "bin" / "tacit"
    script.parent.mkdir()
    run = "import sys; sys.argv[0] = 'tacit'; from tacit.cli import main; main(prog_name='tacit')"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{run}" "$@"\n')
    script.chmod(0o755)
    path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(here)}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_verbs_options_and_inner_commands(here, command, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(here / "data"))
    said = done("completion", "bash", "--install")
    script = here / "data" / "bash-completion" / "completions" / "tacit"
    assert str(script) in said
    asked = subprocess.run(
        [shutil.which("bash"), "--norc", "-c", ASK.format(script=script)], env=command, capture_output=True, text=True
    )
    assert asked.stderr == ""
    *found, registered = asked.stdout.splitlines()
    assert found == ["run runs", "--resume", "init", "--install"]
    assert registered.endswith("-F _tacit_completion tacit")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_the_script(here, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (here / "script").write_text(done("completion", shell))
    checked = subprocess.run([shell, "-n", "script"], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("shell", "place", "first"),
    [
        ("bash", "data/bash-completion/completions/tacit", "_tacit_completion() {"),
        ("zsh", "data/zsh/site-functions/_tacit", "#compdef tacit"),
        ("fish", "config/fish/completions/tacit.fish", "function _tacit_completion;"),
    ],
)
def test_each_script_goes_where_its_shell_looks(here, monkeypatch, shell, place, first):
    monkeypatch.setenv("XDG_DATA_HOME", str(here / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    printed = done("completion")
    done("completion", "--install")
    assert Path(place).read_text() == printed
    assert printed.startswith(first)
    assert "_TACIT_COMPLETE" in printed


def test_a_shell_that_is_not_known_and_a_place_that_cannot_be_written(here, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    unknown = invoke("completion")
    assert (unknown.exit_code, unknown.stderr.count("\n")) == (2, 1)
    (here / "data").write_text("a file")
    monkeypatch.setenv("XDG_DATA_HOME", str(here / "data"))
    refused = invoke("completion", "bash", "--install")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "cannot be written there" in refused.stderr
