"""`tacit keys`: what it prints, asks and refuses."""

import os
import pty
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

import tacit
from tacit.cli import main
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


def test_many_names_are_issued_and_one_is_revoked(here):
    tacit_keys("init")
    Path("clients.txt").write_text("client-0\nclient-1\n")
    made = tacit_keys("issue", "--names", "clients.txt")
    assert made.stdout.startswith("2 new certificates in issued\n")
    assert "it holds private keys" in made.stdout
    assert tacit_keys("issue", "--names", "clients.txt").stdout.startswith("0 new certificates in issued; 2 names had")
    revoked = tacit_keys("revoke", "client-1", "--reason", "superseded")
    assert "authority/revoked.pem is revocation list 2 of" in revoked.stdout
    assert " now, with 1 certificate.\n" in revoked.stdout
    assert tacit_keys("show", "authority/revoked.pem").stdout.endswith("with 1 certificate\n")
    assert [result.exit_code for result in (made, revoked)] == [0, 0]
    again = tacit_keys("issue", "--names", "clients.txt")
    assert again.stdout == "0 new certificates in issued; 2 names had one\n"
    warning, advice = again.stderr.splitlines()
    assert warning.startswith("Warning: the certificate of client-1 was not replaced, and is of no use: it was revoked")
    assert advice == "Issue such names alone, with --force."
    twice = tacit_keys("revoke", "client-1")
    assert (twice.exit_code, twice.stderr.count("\n")) == (2, 1)
    assert "the certificates of client-1 are revoked already, by revocation list 2" in twice.stderr


def test_a_name_that_has_only_tokens_is_revoked_without_another_list(here):
    tacit_keys("init")
    for _ in range(2):
        tacit_keys("token", "client-1", "--address", "a:1")
    before = Path("authority/revoked.pem").read_bytes()
    assert tacit_keys("revoke", "client-1").stdout == (
        "2 unused tokens of client-1 are void.\nclient-1 had no certificate: the revocation list is as it was.\n"
    )
    assert Path("authority/revoked.pem").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("issue", "--names", "gone.txt"), "no such file"),
        (("issue", "--names", "bad.txt"), "bad.txt:2: 'B' is not a valid name"),
        (("issue", "--names", "good.txt", "--days", "4000"), "a certificate lasts from 1 to"),
        (("issue", "--names", "good.txt", "--authority", "gone"), "no such file"),
        (("issue", "--names", "good.txt", "--out", "good.txt"), "good.txt is a file: give a folder by --out"),
        (("revoke", "client-9"), "client-9 has no certificate in the register of authority"),
        (("revoke", "client-3", "--certificate", "authority/authority.pem"), "authority/authority.pem: "),
        (("token", "Client", "--address", "a:1"), "not a valid name for a party"),
        (("token", "client-3", "--address", "nowhere"), "give HOST:PORT"),
        (("token", "client-3", "--address", "a:²"), "give HOST:PORT"),
        (("token", "client-3", "--address", "a:1", "--days", "200"), "a token lasts from 1 to 90"),
        (("token", "client-3", "--address", "a:1", "--certificate-days", "3650"), "longer than the authority lasts"),
        (("serve", "--address", "127.0.0.1:99999"), "give HOST:PORT"),
        (("enrol", "tacit-token-x"), "not a whole token"),
    ],
)
def test_mistakes_with_many_keys_end_in_one_sentence(here, arguments, why):
    tacit_keys("init")
    Path("bad.txt").write_text("a\nB\n")
    Path("good.txt").write_text("a\n")
    result = tacit_keys(*arguments)
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1
    assert isinstance(result.exception, SystemExit)


def test_a_token_is_read_from_the_input_too(here):
    result = CliRunner().invoke(main, ["keys", "enrol", "-"], input="tacit-token-nonsense\n")
    assert result.exit_code == 2
    assert "not a whole token" in result.stderr


def test_commands_for_keys_load_no_numpy():
    """They are run for each party: what they load is most of what they cost."""
    script = "import sys, tacit.cli.keys, tacit.net.key_files, tacit.net.issuing; print('numpy' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(tacit.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "False\n"
