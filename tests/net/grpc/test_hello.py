"""TLS 1.3 or nothing: a client that offers only 1.2 is refused at the port, and a client refuses such a server."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.events import PortWatched
from tacit.net import tls
from tacit.net.grpc import watch
from tacit.net.grpc.hello import HANDSHAKE, offers_tls13
from tacit.net.identity import Authority
from tests.kinds.horizontal.federations import Numbers, settings_for
from tests.net.grpc.test_front import AUTHORITY, is_cut, knock, party, serving, until
from tests.net.loopback import Federation, Proxy, certified, quickly
from tests.subprocesses import HANGS

OLD, NEW = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def context_of(newest: ssl.TLSVersion, oldest: ssl.TLSVersion = OLD) -> ssl.SSLContext:
    """A client with a good certificate, and these versions."""
    context = tls._context(certified(AUTHORITY, "client-0"))
    context.minimum_version, context.maximum_version = oldest, newest
    return context


def hello(newest: ssl.TLSVersion, oldest: ssl.TLSVersion = OLD) -> bytes:
    out = ssl.MemoryBIO()
    client = context_of(newest, oldest).wrap_bio(ssl.MemoryBIO(), out, server_hostname="coordinator.tacit.invalid")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


@pytest.mark.parametrize(("newest", "oldest", "offers"), [(NEW, NEW, True), (NEW, OLD, True), (OLD, OLD, False)])
def test_what_a_hello_offers(newest, oldest, offers):
    said = hello(newest, oldest)
    assert offers_tls13(said) is offers
    assert offers_tls13(said + b"and what comes after it") is offers
    assert [offers_tls13(said[:length]) for length in range(len(said))] == [None] * len(said)


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda rest: hello(NEW)[:40] + rest))
def test_any_bytes_are_judged_in_bounded_space(data):
    assert offers_tls13(data) in (True, False, None)
    first = bytes([HANDSHAKE]) + data
    assert offers_tls13(first + bytes(5 + 2**14)) is not None


@given(st.integers(9, 600), st.integers(1, 255))
def test_a_changed_length_offers_nothing_or_what_it_offered(at, change):
    said = bytearray(hello(OLD))
    said[at % len(said)] ^= change
    assert offers_tls13(bytes(said)) is not True or b"\x00\x2b" in said  # only the extension can say so


def handshake(port: int, context: ssl.SSLContext) -> str | None:
    """The version that is negotiated with the server."""
    with (
        socket.create_connection(("127.0.0.1", port), HANGS) as plain,
        context.wrap_socket(plain, server_hostname="coordinator.tacit.invalid") as secure,
    ):
        assert secure.recv(1)  # gRPC speaks first, once it is content
        return secure.version()


def test_a_client_that_offers_only_an_older_version_is_refused_at_the_port(monkeypatch):
    monkeypatch.setattr(watch, "_SOON", 0.0)

    async def scenario():
        async with serving(True) as (server, port, kept), party(port, secure=True) as ask:
            await ask(b"before")
            for _ in range(3):
                with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
                    await asyncio.to_thread(handshake, port, context_of(OLD))
            assert await asyncio.to_thread(handshake, port, context_of(NEW)) == "TLSv1.3"  # it offers both
            await ask(b"after")
            refused = dict(server._watch.refused)
        return refused, [event.text for event in kept.events if isinstance(event, PortWatched) and event.text]

    refused, told = quickly(scenario())
    assert refused["no TLS 1.3"] == 3
    assert any("with an older version of TLS than 1.3" in text for text in told)
    assert len(told) <= 2  # at once, and at the end: not a line for each


def test_an_older_hello_does_not_meet_grpc():
    async def scenario():
        async with serving(True, handshake=200) as (server, port, _):
            with ExitStack() as stack:
                (each,) = knock(stack, port, 1, hello(OLD))
                await until(lambda: is_cut(each) or server._watch.refused["time"])
                knock(stack, port, 1, hello(NEW)[:-1])
                await until(lambda: any(guest.hello for guest in server._front._guests.all.values()))
                return server._watch.refused["no TLS 1.3"], [guest.up for guest in server._front._guests.all.values()]

    assert quickly(scenario()) == (1, [None])


def test_a_hello_may_come_in_pieces():
    async def scenario():
        async with serving(True) as (_, port, _kept):

            async def slowly(index, way, data):
                return data

            proxy = Proxy(f"127.0.0.1:{port}", slowly)
            carry = proxy._carry

            async def in_pieces(index, way, reader, writer):
                if way == "up":
                    for byte in await reader.readexactly(200):  # each in a segment of its own
                        writer.write(bytes([byte]))
                        await writer.drain()
                        await asyncio.sleep(0)
                await carry(index, way, reader, writer)

            proxy._carry = in_pieces
            async with proxy.open() as address, party(int(address.rpartition(":")[2]), secure=True) as ask:
                await ask(b"it came through")

    quickly(scenario())


def test_parties_negotiate_tls13():
    """Read off the wire between real parties: the server's first message selects 1.3 (RFC 8446, 4.2.1)."""
    first: dict[int, bytes] = {}

    async def scenario():
        found = Federation(settings_for(clients=2, rounds=1), Numbers(), Authority.create())

        async def noted(index, way, data):
            if way == "down":
                first.setdefault(index, data)
            return data

        async with found.serve(), Proxy(found.address, noted).open() as address:
            for identity in range(2):
                found.join(identity, address)
            await found.done()

    quickly(scenario())
    assert len(first) >= 2
    assert all(data[0] == HANDSHAKE and b"\x00\x2b\x00\x02\x03\x04" in data for data in first.values())


@pytest.mark.parametrize("before", [(), ("grpc",)], ids=["Tacit first", "gRPC first"])
@pytest.mark.parametrize("newest", [OLD, NEW], ids=["server with 1.2", "server with 1.3"])
def test_a_client_refuses_a_server_without_tls13(before, newest):
    """The coordinator's own certificate, and an older TLS. If gRPC was loaded first this is not enforced, and said."""
    authority = Authority.create()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version, context.verify_mode = newest, ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.certificate_pem.decode())
    context.set_alpn_protocols(["h2"])
    own, client = certified(authority, "coordinator"), certified(authority, "client-0")
    with tls.readable(own.certificate) as certificate, tls.readable(own.private_key) as key:
        context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(HANGS)
        port = listener.getsockname()[1]
        command = [sys.executable, "-c", SCRIPT, str(port), *before]
        material = b"|".join([client.private_key, client.certificate, authority.certificate_pem])
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            process.stdin.write(material)
            process.stdin.close()
            negotiated, spoke = served(listener, context)
            said = process.stdout.read().decode()
            process.wait(HANGS)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    if newest is NEW or before:
        assert negotiated == newest.name.replace("v1_", "v1.")
        assert spoke == b"PRI"
    else:
        assert (negotiated, spoke) == (None, b"")
        assert "does not speak TLS 1.3" in said
    assert ("gRPC was imported before tacit.net.grpc" in said) == bool(before)


SCRIPT = """
import sys
if "grpc" in sys.argv:
    import grpc
material = sys.stdin.buffer.read().split(b"|")
import asyncio
from tacit.net.grpc.connection import Connection
from tacit.net.identity import Credentials
from tacit.net.transport import Conversation
from tacit.crypto.signing import SigningKey
from datetime import UTC, datetime, timedelta

own = Credentials("client-0", *material, SigningKey.generate(), datetime.now(UTC) + timedelta(days=1))

class Printed:
    def emit(self, event):
        print(event.text)

class Listener:
    async def waiting(self, reason):
        print(reason)
        running.cancel()

async def main():
    global running
    about = Conversation("client-0", b"{}", 1000, own, sink=Printed())
    made = Connection(Listener(), "127.0.0.1:" + sys.argv[1], "coordinator", about)
    running = asyncio.create_task(made.run())
    await asyncio.gather(running, return_exceptions=True)

asyncio.run(main())
"""


def served(listener: socket.socket, context: ssl.SSLContext) -> tuple[str | None, bytes]:
    """The version that the client's gRPC negotiates, and its first bytes; then nobody is served any more."""
    plain, _ = listener.accept()
    plain.settimeout(HANGS)
    found: tuple[str | None, bytes] = None, b""
    with suppress(OSError), context.wrap_socket(plain, server_side=True) as secure:
        found = secure.version(), secure.recv(3)
    # The connections with which the client looks for the reason.
    for _ in range(2):
        again, _ = listener.accept()
        with again:
            again.settimeout(HANGS)
            with suppress(OSError), context.wrap_socket(again, server_side=True):
                pass
    return found
