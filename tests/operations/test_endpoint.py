"""Where pages may be served, and which tokens protect them."""

from __future__ import annotations

import os
import secrets

import pytest

from tacit.config.source import ConfigError
from tacit.operations.endpoint import endpoint_of, read_token
from tests.commands import certify


def token_in(folder, text, mode=0o600):
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("address", ["127.0.0.1:9100", "[::1]:9100", "localhost:9100", "127.9.9.9:1"])
def test_on_this_machine_nothing_else_is_needed(tmp_path, address):
    endpoint = endpoint_of(address, tmp_path, None, None, None)
    assert endpoint.token is None
    assert endpoint.secure is None


@pytest.mark.parametrize("address", ["0.0.0.0:9100", "10.0.0.5:9100", "[::]:9100", "machine.example:9100"])
def test_elsewhere_a_token_and_tls_are_needed(tmp_path, address):
    token = token_in(tmp_path, secrets.token_hex(32)).name
    keys = certify(tmp_path, "coordinator")["coordinator"]
    certificate, private = keys["certificate"], keys["private"]
    for given in ((None, None, None), (token, None, None), (None, certificate, private)):
        with pytest.raises(ConfigError, match=r"which other machines reach: give metrics\.token_file"):
            endpoint_of(address, tmp_path, *given)
    endpoint = endpoint_of(address, tmp_path, token, certificate, private)
    assert endpoint.token is not None
    assert endpoint.secure is not None


def test_a_certificate_and_its_key_belong_together(tmp_path):
    keys = certify(tmp_path, "coordinator", "client-0")
    with pytest.raises(ConfigError, match="belong together"):
        endpoint_of("127.0.0.1:1", tmp_path, None, keys["coordinator"]["certificate"], None)
    with pytest.raises(ConfigError, match="cannot be served"):
        endpoint_of("127.0.0.1:1", tmp_path, None, keys["coordinator"]["certificate"], keys["client-0"]["private"])
    (tmp_path / keys["coordinator"]["private"]).chmod(0o644)
    with pytest.raises(ConfigError, match="other users can read it: chmod 600"):
        endpoint_of("127.0.0.1:1", tmp_path, None, keys["coordinator"]["certificate"], keys["coordinator"]["private"])


RANDOM = [secrets.token_hex(16), secrets.token_urlsafe(22), f"{secrets.token_hex(32)}\n"]  # refused once in 10^7


@pytest.mark.parametrize("text", RANDOM, ids=["hex", "base64", "a line"])
def test_128_bits_are_enough(tmp_path, text):
    token = read_token(token_in(tmp_path, text))
    assert token.opens(f"Bearer {text.strip()}")
    assert token.opens(f"bearer {text.strip()}")
    for wrong in (
        "",
        "Bearer",
        "Bearer ",
        text.strip(),
        f"Basic {text.strip()}",
        f"Bearer {text.strip()}x",
        "Bearer é",
    ):
        assert not token.opens(wrong)
    assert text.strip() not in repr(token)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "one line of printable ASCII"),
        ("two words", "one line of printable ASCII"),
        ("é" * 40, "one line of printable ASCII"),
        ("a\nb" * 20, "one line of printable ASCII"),
        ("x" * 5000, "one line of printable ASCII"),
        (f"{0x123456789ABCDEF0123456789ABCDE:030x}", "has 120 at most"),
        ("correct-horse-battery", "has 126 at most"),
        ("1" * 10 + "23456789" * 3, "has 112 at most"),
        ("a" * 64, "needs 128 random bits"),
    ],
)
def test_a_token_that_can_be_guessed_is_refused(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        read_token(token_in(tmp_path, text))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666])
def test_a_token_that_others_may_read_is_refused(tmp_path, mode):
    with pytest.raises(ConfigError, match="other users can read it: chmod 600"):
        read_token(token_in(tmp_path, secrets.token_hex(32), mode))


def test_a_token_that_is_not_there_or_no_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_token(tmp_path / "token")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigError, match="not a file"):
        read_token(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_token_of_another_user_is_refused(tmp_path):
    path = token_in(tmp_path, secrets.token_hex(32))
    os.chown(path, 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to another user"):
        read_token(path)
