"""One bidirectional gRPC stream for each party, with mutual TLS.

credentials     who is at the other end, by certificates; it says which versions of TLS gRPC takes
server          the side that is connected to;  connection: the side that connects, and comes back
front           who may wait at the port, and bytes between the network and gRPC;  guests: which connection has to go
hello           whether a client offers TLS 1.3, by its first message
descriptors     how many connections fit;  watch: what is refused, in the log and the metrics
room            memory for frames under way;  pace: how slowly they may come
"""

from __future__ import annotations

from collections.abc import Callable

from tacit.net.grpc import credentials as credentials  # first: it loads gRPC
from tacit.net.grpc.connection import Connection
from tacit.net.grpc.server import Server
from tacit.net.transport import Conversation, Guest, Listener


class Grpc:
    """The transport over gRPC."""

    def server(self, told: Listener, expected: Callable[[str], bool], about: Conversation) -> Server:
        return Server(told, expected, about)

    def connection(self, told: Guest, address: str, server: str, about: Conversation) -> Connection:
        return Connection(told, address, server, about)
