"""One bidirectional gRPC stream for each party, with mutual TLS.

server          the side that is connected to;  connection: the side that connects, and comes back
front           who may wait at the port, and bytes between the network and gRPC;  guests: which connection has to go
hello           whether a client offers TLS 1.3, by its first message
descriptors     how many connections fit;  watch: what is refused, in the log and the metrics
room            memory for frames under way;  pace: how slowly they may come
"""

from tacit.net import tls as tls  # before any `import grpc` here: it says which versions of TLS gRPC takes
