"""A TCP proxy on loopback that counts, and on request keeps, every byte that passes: what a socket sees."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

_CHUNK = 1 << 16


class Wiretap:
    """Listens on `port` and passes everything on to another port of this machine, until the `with` block ends.

    `up` counts bytes towards that port, `down` those back; with `keep`, `connections` holds both of each connection.
    """

    def __init__(self, target: int, *, keep: bool = False) -> None:
        self.target = target
        self.up = self.down = 0
        self.connections: list[tuple[bytearray, bytearray]] = []
        self._keep = keep
        self._lock = threading.Lock()
        self._closed = False
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Wiretap:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            for end in (self._listener, *self._ends):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:  # nobody is there yet: who connects here finds the same
                    near.close()
                    continue
                with self._lock:
                    if self._closed:
                        near.close()
                        far.close()
                        return
                    self._ends += [near, far]
                kept = bytearray(), bytearray()
                self.connections.append(kept)
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pass, args=(near, far, kept[0], True), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, kept[1], False), daemon=True).start()

    @property
    def sent(self) -> bytes:
        """What went towards the port, one connection after the other."""
        return b"".join(up for up, _ in self.connections)

    @property
    def answered(self) -> bytes:
        return b"".join(down for _, down in self.connections)

    def _pass(self, source: socket.socket, sink: socket.socket, kept: bytearray, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                self._count(data, up)
                if self._keep:
                    kept += data
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _count(self, data: bytes, up: bool) -> None:
        with self._lock:
            if up:
                self.up += len(data)
            else:
                self.down += len(data)
