"""Parties on different machines: one bidirectional gRPC stream each, with mutual TLS.

link            frames that arrive once, in order, over connections that break; without I/O
handshake       who speaks, which conversation, whether the files agree
server          the side that is connected to;  connection: the side that connects, and comes back
front           who may wait at the port, and bytes between the network and gRPC;  guests: which connection has to go
hello           whether a client offers TLS 1.3, by its first message
descriptors     how many connections fit;  watch: what is refused, in the log and the metrics
room            memory for frames under way;  pace: how slowly they may come
channel         a few parties in lock step: what `hub` and `spoke` share;  relay: what passes the hub unread
coordinator     a horizontal federation's coordinator on a server;  client: one of its clients on a connection
"""

from tacit.engines import tls as tls  # before any `import grpc` here: it says which versions of TLS gRPC takes
