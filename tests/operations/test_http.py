"""The pages over HTTP: to whom they are shown, and a server that cannot be kept busy."""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager

import pytest

from tacit.operations import http as module
from tacit.operations.endpoint import Endpoint, endpoint_of
from tacit.operations.exposition import CONTENT_TYPE
from tacit.operations.http import serve
from tests.commands import certify
from tests.operations import promtool
from tests.operations.views import view
from tests.subprocesses import HANGS, until

HERE = Endpoint("127.0.0.1", 0)
TOKEN = secrets.token_hex(16)


def ask(port, path="/metrics", method="GET", *, context=None, **headers):
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=HANGS, context=context)
    try:
        connection.request(method, path, headers={key.title(): value for key, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def secured(tmp_path):
    """An endpoint with a token and TLS, and a context that trusts it."""
    keys = certify(tmp_path, "coordinator")["coordinator"]
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    endpoint = endpoint_of("127.0.0.1:1", tmp_path, "token", keys["certificate"], keys["private"])
    context = ssl.create_default_context(cafile=tmp_path / keys["authority"])
    context.check_hostname = False
    return Endpoint("127.0.0.1", 0, endpoint.token, endpoint.secure), context


def test_four_pages_and_nothing_else():
    with serve(view(), HERE) as port:
        code, kind, page = ask(port)
        assert (code, kind) == (200, CONTENT_TYPE)
        assert promtool.lint(page) == []
        code, kind, told = ask(port, "/status")
        assert (code, kind) == (200, "application/json")
        assert json.loads(told)["round"] == 5
        assert ask(port, "/healthz") == (200, "text/plain; charset=utf-8", "ok\n")
        assert ask(port, "/readyz?verbose") == (200, "text/plain; charset=utf-8", "ok\n")
        for method, path in (
            ("GET", "/"),
            ("GET", "/metrics/x"),
            ("GET", "/../etc/passwd"),
            ("POST", "/metrics"),
            ("HEAD", "/status"),
            ("DELETE", "/status"),
        ):
            assert ask(port, path, method)[0] == 404
    with pytest.raises(ConnectionRefusedError):
        ask(port)


def test_what_is_not_well_is_said_with_503():
    with serve(view(stored=lambda: "the disk is full"), HERE) as port:
        assert ask(port, "/readyz") == (503, "text/plain; charset=utf-8", "the disk is full\n")
        assert ask(port, "/healthz")[0] == 200


def test_a_port_in_use_is_the_callers_mistake():
    with (
        serve(view(), HERE) as port,
        pytest.raises(
            ValueError, match=r"cannot be listened on \(Address already in use\): choose another port, or stop"
        ),
        serve(view(), Endpoint("127.0.0.1", port)),
    ):
        pass


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "10.0.0.1:80"])
def test_a_page_of_elsewhere_cannot_read_it_through_a_browser_here(host):
    """DNS rebinding: the name of its host leads to this machine."""
    with serve(view(), HERE) as port:
        for path in ("/status", "/metrics", "/healthz"):
            code, _, text = ask(port, path, host=host)
            assert code == 403
            assert "tacit" not in text
        for name in ("127.0.0.1", "localhost", f"localhost:{port}", "[::1]", "[::1]:80"):
            assert ask(port, host=name)[0] == 200


def test_two_names_at_once_are_refused():
    with serve(view(), HERE) as port, socket.create_connection(("127.0.0.1", port), HANGS) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n")
        assert b" 403 " in connection.recv(100)


def test_without_the_token_nothing_is_shown(secured):
    endpoint, context = secured
    with serve(view(), endpoint) as port:
        for path in ("/status", "/metrics", "/healthz", "/readyz", "/nothing"):
            for shown in ("", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}0", f"Basic {TOKEN}", TOKEN):
                code, _, text = ask(port, path, context=context, authorization=shown)
                assert (code, "Authorization: Bearer" in text) == (401, True)
        assert ask(port, context=context)[0] == 401
        code, _, page = ask(port, context=context, authorization=f"Bearer {TOKEN}", host="anything.example")
        assert code == 200
        assert promtool.lint(page) == []


def test_only_tls_1_3_is_spoken_where_there_is_a_certificate(secured):
    endpoint, context = secured
    with serve(view(), endpoint) as port:
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(port, authorization=f"Bearer {TOKEN}")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
        with pytest.raises(OSError, match=r"(?i)protocol version|handshake failure|alert"):
            ask(port, context=context, authorization=f"Bearer {TOKEN}")


def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(tmp_path, secured):
    endpoint, context = secured
    certificate = tmp_path / "coordinator" / "c.pem"
    first = certificate.read_bytes()
    assert endpoint.secure is not None

    def served():
        with socket.create_connection(("127.0.0.1", port), HANGS) as plain, context.wrap_socket(plain) as secure:
            return secure.getpeercert(binary_form=True)

    with serve(view(), endpoint) as port:
        before = served()
        certificate.write_bytes(b"broken")
        assert served() == before
        from tacit.net import key_files

        certificate.unlink()
        key_files.sign_request(tmp_path / "ca", tmp_path / "coordinator" / "coordinator.request.pem", certificate)
        assert certificate.read_bytes() != first
        assert served() != before


def ended(connection):
    """Whether the server ends the connection, before the limit for what hangs."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        return True
    return True


@contextmanager
def trickle(connection):
    """One byte after the other, as long as the server takes them."""
    over = threading.Event()

    def send():
        try:
            while not over.wait(0.05):
                connection.sendall(b"x")
        except OSError:
            pass

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join(HANGS)


def test_a_request_is_bounded_in_size_and_in_time(monkeypatch):
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 0.3)
    with serve(view(), HERE) as port:
        with socket.create_connection(("127.0.0.1", port), HANGS) as long:
            long.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000)
            assert ended(long)
        with socket.create_connection(("127.0.0.1", port), HANGS) as slow, trickle(slow):
            assert ended(slow)
        assert ask(port)[0] == 200


def test_a_handshake_is_bounded_in_time(monkeypatch, secured):
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 0.5)
    endpoint, _ = secured
    with serve(view(), endpoint) as port:
        for opening in (b"", b"\x16\x03\x01\x02\x00\x01", b"GET /metrics HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), HANGS) as slow:
                slow.sendall(opening)
                assert ended(slow)


@pytest.mark.parametrize("secure", [False, True])
def test_idle_readers_do_not_keep_a_run_from_ending_or_take_all_its_threads(monkeypatch, secured, secure):
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 10 * HANGS)
    monkeypatch.setattr(module._Handler, "timeout", 10 * HANGS)
    told, over = [], threading.Event()

    def run_it():
        with serve(view(), secured[0] if secure else HERE) as port:
            told.append(port)
            over.wait(HANGS)

    run = threading.Thread(target=run_it, daemon=True)
    run.start()
    until(lambda: told)
    idle = [socket.create_connection(("127.0.0.1", told[0]), HANGS) for _ in range(12)]
    assert all(ended(connection) for connection in idle[:4])
    over.set()
    run.join(HANGS)
    assert not run.is_alive()
    for connection in idle:
        connection.close()


@pytest.mark.parametrize("secure", [False, True])
def test_a_reader_is_answered_while_others_hold_all_connections(monkeypatch, secured, secure):
    """Each new reader closes the oldest of those who have asked for nothing."""
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 10 * HANGS)
    monkeypatch.setattr(module._Handler, "timeout", 10 * HANGS)
    endpoint, context = secured if secure else (HERE, None)
    with ExitStack() as stack:
        port = stack.enter_context(serve(view(), endpoint))

        def hold():
            held = stack.enter_context(socket.create_connection(("127.0.0.1", port), HANGS))
            held.sendall(b"GET /metrics HTTP/1.1\r\nX: " if not secure else b"\x16\x03\x01")

        for _ in range(8):
            hold()
        for _ in range(20):
            hold()
            assert ask(port, context=context, authorization=f"Bearer {TOKEN}")[0] == 200
