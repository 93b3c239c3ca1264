"""Certificates that are replaced while a party runs: new connections use them, and nobody starts again."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from tacit.events import Kept, Noted
from tacit.net import key_files
from tacit.net.grpc import connection
from tacit.net.grpc.connection import Connection
from tacit.net.grpc.server import Server
from tacit.net.identity import Authority, request
from tacit.net.tls import _context
from tacit.net.transport import Conversation
from tests.net.loopback import quickly

LONG_AGO = datetime.now(UTC) - timedelta(days=20)
AUTHORITY = Authority.create(now=LONG_AGO)


class Files:
    """A party's files in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.private, self.certificate, self.authority = (folder / f"{name}.{kind}" for kind in ("p", "c", "a"))
        private, self.asked = request(name)
        self.put(self.private, private)
        self.put(self.authority, AUTHORITY.certificate_pem)

    def put(self, path: Path, data: bytes) -> None:
        """As a whole, in the place of what is there."""
        new = path.with_suffix(".new")
        new.write_bytes(data)
        new.chmod(0o600)
        os.replace(new, path)

    def sign(self, days: int, now: datetime | None = None, asked: bytes | None = None) -> None:
        self.put(self.certificate, AUTHORITY.sign(asked or self.asked, days, now))

    def load(self, now: datetime | None = None):
        return key_files.load_credentials(self.private, self.certificate, self.authority, now)


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(connection, "_LONGEST_PAUSE", 0.3)


@pytest.fixture
def client(tmp_path):
    return Files(tmp_path, "client-0")


@pytest.fixture
def server(tmp_path):
    return Files(tmp_path, "coordinator")


class Heard:
    """A listener of either side."""

    def __init__(self) -> None:
        self.joined_with: list[datetime] = []
        self.connections = 0
        self.reasons: list[str] = []

    async def joined(self, name, hello, certificate, resumed):
        self.joined_with.append(x509.load_pem_x509_certificate(certificate).not_valid_after_utc)

    async def connected(self, resumed):
        self.connections += 1

    async def arrived(self, *what): ...

    async def broke(self, name, reason): ...

    async def lost(self, name): ...

    async def waiting(self, reason):
        self.reasons.append(reason)


@asynccontextmanager
async def serving(credentials, heard, kept):
    made = Server(heard, lambda name: True, Conversation("coordinator", b"{}", 1000, credentials, sink=kept))
    port = await made.start("127.0.0.1:0", 2)
    try:
        yield made, port
    finally:
        await made.stop()


@asynccontextmanager
async def joining(port, credentials, heard, kept):
    about = Conversation("client-0", b"{}", 1000, credentials, sink=kept)
    made = Connection(heard, f"127.0.0.1:{port}", "coordinator", about)
    running = asyncio.create_task(made.run())
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(holds) -> None:
    while not holds():
        await asyncio.sleep(0.01)


async def shown(port, credentials) -> datetime:
    """Until when the certificate is valid that the server shows now."""
    context = _context(credentials)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="coordinator")
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return x509.load_der_x509_certificate(found).not_valid_after_utc


def test_a_server_shows_its_renewed_certificate_to_new_connections(client, server):
    client.sign(50)
    server.sign(10)

    async def scenario():
        heard, kept, own = Heard(), Kept(), client.load()
        async with serving(server.load(), heard, kept) as (made, port), joining(port, own, Heard(), Kept()):
            await until(lambda: heard.joined_with)
            before = await shown(port, own)
            server.sign(100)
            after = await shown(port, own)
            server.put(server.certificate, b"half a certifica")
            broken = await shown(port, own)
            assert made.connected("client-0")  # nobody's connection was ended for it
            await until(lambda: len([e for e in kept.events if isinstance(e, Noted)]) == 2)
        return before, after, broken, [event.text for event in kept.events if isinstance(event, Noted)]

    before, after, broken, said = quickly(scenario())
    assert (after - before).days == 90
    assert broken == after
    assert said[0].startswith("the certificate of coordinator was read again: it is valid until")
    assert "stays in use" in said[1]


def test_a_client_shows_its_renewed_certificate_when_it_comes_back(client, server):
    client.sign(10)
    server.sign(50)

    async def scenario():
        heard, kept = Heard(), Kept()
        async with serving(server.load(), heard, Kept()) as (made, port), joining(port, client.load(), Heard(), kept):
            await until(lambda: made.connected("client-0"))
            client.sign(100)
            made._front._end(next(iter(made._front._guests.all.values())))
            await until(lambda: len(heard.joined_with) == 2)
        return heard.joined_with, [event.text for event in kept.events]

    (before, after), said = quickly(scenario())
    assert (after - before).days == 90
    assert len(said) == 1
    assert "read again" in said[0]


@pytest.mark.parametrize("whose", ["client", "server"])
def test_an_expired_certificate_that_is_replaced_lets_a_client_in(client, server, whose):
    """The party that has it runs on. Without files to look at it would give up after some attempts."""
    expired, good = (client, server) if whose == "client" else (server, client)
    good.sign(50)
    expired.sign(2, LONG_AGO)

    async def scenario():
        heard, there = Heard(), Heard()
        theirs = server.load(LONG_AGO if whose == "server" else None)
        own = client.load(LONG_AGO if whose == "client" else None)
        async with serving(theirs, heard, Kept()) as (_, port), joining(port, own, there, Kept()) as running:
            await until(lambda: len(there.reasons) > 2 * connection._REJECTIONS or running.done())
            assert not running.done()
            expired.sign(50)
            await until(lambda: there.connections)
        return there.reasons

    assert all("expired" in reason for reason in quickly(scenario()))


def test_other_names_authorities_and_signing_keys_are_not_taken_over(client, monkeypatch):
    client.sign(10)
    original = client.private.read_bytes()
    first = client.load()
    said: list[str] = []
    assert first.renewed(said.append) == first

    private, other = request("client-0")
    client.put(client.private, private)
    assert first.renewed(said.append) == first  # between two files of a pair
    client.sign(10, asked=other)
    assert first.renewed(said.append) == first
    assert "not of this private key" in said[0]
    assert "new keys now, and a party keeps its keys for a run" in said[1]

    private, other = request("client-1")
    client.put(client.private, private)
    client.sign(10, asked=other)
    assert first.renewed(said.append) == first
    assert "it is of client-1 now" in said[-1]

    stranger = Authority.create()
    client.put(client.private, original)
    client.put(client.certificate, stranger.sign(client.asked, 10))
    client.put(client.authority, stranger.certificate_pem)
    assert first.renewed(said.append) == first
    assert "it is another authority now: start this party again" in said[-1]
    count = len(said)
    assert first.renewed(said.append) == first
    assert len(said) == count  # what did not change is not said again


def test_a_certificate_that_is_not_valid_yet_is_tried_again(client, monkeypatch):
    monkeypatch.setattr(key_files, "_RETRY", 0.01)
    client.sign(10)
    first = client.load()
    client.sign(20, datetime.now(UTC) + timedelta(hours=1, seconds=2))  # it begins an hour early
    assert first.renewed() == first

    async def scenario():
        await until(lambda: (first.renewed().expires - first.expires).days == 10)

    quickly(scenario())
