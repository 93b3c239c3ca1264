"""`tacit keys`: what it prints, asks and refuses."""

import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

import tacit
from tacit.net import key_files
from tests.commands import invoke
from tests.subprocesses import HANGS

tacit_keys = partial(invoke, "keys")


def test_each_step_says_what_to_send_to_whom_and_shows_nothing_secret(here):
    made = tacit_keys("init")
    assert "Send authority/authority.pem to every party" in made.output
    assert "authority/authority.private.pem never leaves this machine" in made.output
    asked = tacit_keys("request", "client-3")
    assert "Send client-3.request.pem to the authority" in asked.output
    assert "client-3.private.pem never leaves this machine" in asked.output
    signed = tacit_keys("sign", "client-3.request.pem", "--authority", "authority", "--yes")
    assert "asks for the name client-3" in signed.output
    assert "Send client-3.certificate.pem and authority/authority.pem to client-3" in signed.output
    shown = tacit_keys("show", *map(str, sorted(here.rglob("*.pem"))))
    assert "certificate client-3, expires on" in shown.output
    assert [result.exit_code for result in (made, asked, signed, shown)] == [0, 0, 0, 0]

    printed = "".join(result.output for result in (made, asked, signed, shown))
    fingerprint = key_files.describe(Path("client-3.request.pem")).fingerprint
    assert printed.count(fingerprint) == 5  # asked, signed; shown of the request, the certificate, the private file
    secrets = [line for file in here.rglob("*.private.pem") for line in file.read_text().split("\n") if line]
    assert not [line for line in secrets if line in printed]


def test_without_a_terminal_yes_has_to_be_given(here):
    tacit_keys("init")
    tacit_keys("request", "client-3")
    result = tacit_keys("sign", "client-3.request.pem", "--authority", "authority")
    assert result.exit_code == 2
    assert "--yes" in result.output
    assert not Path("client-3.certificate.pem").exists()


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_on_a_terminal_a_person_is_asked(here, answer, code):
    tacit_keys("init")
    tacit_keys("request", "client-3")
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    command = [sys.executable, "-m", "tacit", "keys", "sign", "client-3.request.pem", "--authority", "authority"]
    environment = {**os.environ, "PYTHONPATH": str(Path(tacit.__file__).parents[1])}
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, env=environment, timeout=HANGS)
    os.close(ours)
    os.close(theirs)
    assert "Did client-3 tell you this fingerprint?" in done.stdout
    assert done.returncode == code
    assert Path("client-3.certificate.pem").exists() == (code == 0)


def test_show_warns_before_a_certificate_expires(here):
    long_ago = datetime.now(UTC) - timedelta(days=50)
    key_files.init_authority(here / "authority", now=long_ago)
    for name, days in (("soon", 60), ("over", 20), ("fine", 365)):
        key_files.make_request(name, here)
        key_files.sign_request(here / "authority", here / f"{name}.request.pem", days=days, now=long_ago)
    result = tacit_keys("show", "soon.certificate.pem", "over.certificate.pem", "fine.certificate.pem")
    assert "Warning: soon.certificate.pem expires in 9 days" in result.stderr
    assert "Warning: over.certificate.pem is expired" in result.stderr
    assert "fine" not in result.stderr
    assert "314 days left" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("request", "Client 3"), "not a valid name for a party"),
        (("init", "--days", "0", "new"), "a certificate lasts from 1 to"),
        (("sign", "gone.pem", "--authority", "authority", "--yes"), "no such file"),
        (("sign", "client-3.request.pem", "--authority", "gone", "--yes"), "no such file"),
        (("sign", "client-3.request.pem", "--authority", "authority", "--yes", "--days", "4000"), "lasts from 1 to"),
        (("sign", "authority/authority.pem", "--authority", "authority", "--yes"), "not a readable request"),
        (("request", "client-3"), "exists"),
        (("init",), "exists"),
        (("show", "gone.pem"), "no such file"),
    ],
)
def test_mistakes_end_in_one_sentence(here, arguments, why):
    tacit_keys("init")
    tacit_keys("request", "client-3")
    result = tacit_keys(*arguments)
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1
    assert isinstance(result.exception, SystemExit)
