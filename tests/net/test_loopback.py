"""Parties without certificates stay on this machine: no address that could lead elsewhere passes."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.net.grpc.connection import Connection
from tacit.net.grpc.server import Server
from tacit.net.hub import Hub
from tacit.net.loopback import check_guarded, on_loopback
from tacit.net.transport import Conversation
from tests.kinds.horizontal.federations import Numbers, settings_for
from tests.net.loopback import Federation, quickly

HERE = ["127.0.0.1:8443", "127.0.0.1:0", "127.255.255.254:1", "localhost:8443", "[::1]:8443", "[0:0:0:0:0:0:0:1]:1"]
ELSEWHERE = [
    "127.evil.example:8443",
    "127.0.0.1.evil.example:8443",
    "localhost.evil.example:8443",
    "localhost.:8443",
    "LOCALHOST:8443",
    "evil.localhost:8443",
    "127.1:8443",
    "2130706433:8443",
    "0x7f.0.0.1:8443",
    "127.0.0.01:8443",
    "127.0.0.1.:8443",
    " 127.0.0.1:8443",
    "127.0.0.1:8443\n",
    "\uff11\uff12\uff17.0.0.1:8443",
    "127.0.0.1:\uff11",
    "0.0.0.0:8443",
    "[::]:8443",
    "[::ffff:127.0.0.1]:8443",
    "[::1%lo]:8443",
    "[::1%25lo]:8443",
    "[127.0.0.1]:8443",
    "[localhost]:8443",
    "::1:8443",
    "[::1",
    "[[::1]]:8443",
    "user@127.0.0.1:8443",
    "127.0.0.1@evil.example:8443",
    "127.0.0.1:8443@evil.example:8443",
    "127.0.0.1:8443,10.0.0.1:8443",
    "ipv4:127.0.0.1:8443",
    "unix:/tmp/socket:1",
    "dns://evil.example/127.0.0.1:8443",
    "127.0.0.1/../evil.example:8443",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:",
    ":8443",
    "",
    "10.0.0.1:8443",
    "128.0.0.1:8443",
    "126.255.255.255:8443",
    "[::2]:8443",
    "[fe80::1]:8443",
]
PORTS = st.integers(0, 65535)


@pytest.mark.parametrize("address", HERE)
def test_this_machine(address):
    assert on_loopback(address)
    check_guarded(address, None)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_elsewhere(address):
    assert not on_loopback(address)
    with pytest.raises(ValueError, match="without certificates"):
        check_guarded(address, None)


@given(st.integers(0, 2**32 - 1), PORTS)
def test_of_ipv4_only_127(number, port):
    address = ipaddress.IPv4Address(number)
    assert on_loopback(f"{address}:{port}") == (number >> 24 == 127)


@given(st.integers(0, 2**24 - 1), PORTS)
def test_all_of_127(number, port):
    assert on_loopback(f"{ipaddress.IPv4Address((127 << 24) + number)}:{port}")


@given(
    st.integers(0, 2**128 - 1) | st.integers(0, 2**33) | st.integers(0xFFFF << 32, (0xFFFF << 32) + 2**32 - 1), PORTS
)
def test_of_ipv6_only_one(number, port):
    address = ipaddress.IPv6Address(number)
    for text in (address.compressed, address.exploded):
        assert on_loopback(f"[{text}]:{port}") == (number == 1)
        assert not on_loopback(f"{text}:{port}")


@given(
    st.text(max_size=12), st.sampled_from(["127.0.0.1", "localhost", "[::1]", "127.", ""]), st.text(max_size=12), PORTS
)
def test_nothing_around_a_host_passes(before, host, after, port):
    """What passes is a literal or `localhost`, to the letter: an independent reading of the host says so too."""
    text = f"{before}{host}{after}:{port}"
    if on_loopback(text):
        name = text.rpartition(":")[0]
        assert name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback


ADDRESS = "127.evil.example:8443"


@pytest.mark.parametrize(
    "opened",
    [
        lambda: Hub("bank", ["shop"], ADDRESS),
        lambda: Connection(None, ADDRESS, "coordinator", Conversation("client-0", b"{}", 1000)),
        lambda: quickly(Server(None, lambda name: True, Conversation("a", b"{}", 1000)).start(ADDRESS, 1)),
        lambda: Federation(settings_for(clients=2), Numbers()).client(0, ADDRESS),
    ],
    ids=["hub", "connection", "server", "client"],
)
def test_every_way_to_the_network_is_guarded(opened):
    with pytest.raises(ValueError, match=r"127\.evil\.example:8443: without certificates"):
        opened()


class _Waits:
    """A party to whom nobody says anything."""

    async def connected(self, resumed: bool) -> None: ...

    async def arrived(self, frame: bytes) -> None: ...

    async def waiting(self, reason: str) -> None: ...


def test_without_certificates_no_proxy_is_asked(monkeypatch):
    """gRPC takes the proxy of the environment for this machine's own addresses too; what it relays is in the clear."""
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)

    async def reached() -> str:
        first: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def listen(name: str) -> asyncio.Server:
            def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.close()
                if not first.done():
                    first.set_result(name)

            return await asyncio.start_server(taken, "127.0.0.1", 0)

        proxy, coordinator = await listen("proxy"), await listen("coordinator")
        async with proxy, coordinator:
            ports = [server.sockets[0].getsockname()[1] for server in (proxy, coordinator)]
            for name in ("http_proxy", "https_proxy", "grpc_proxy"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{ports[0]}")
            address = f"127.0.0.1:{ports[1]}"
            connection = Connection(_Waits(), address, "coordinator", Conversation("client-0", b"{}", 1000))
            running = asyncio.create_task(connection.run())
            try:
                return await asyncio.wait_for(first, 300)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    assert asyncio.run(reached()) == "coordinator"
