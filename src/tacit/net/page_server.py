"""An HTTP server of a few pages, which slow readers and floods cannot occupy.

class Handler(PageHandler)              its `do_GET` answers; `longest` is how many bytes a request may have
PageServer(address, Handler, places)    so many connections at a time: one more closes the oldest without a request
cut_after(seconds, request)             a timer that ends a connection, however slowly its bytes trickle
"""

from __future__ import annotations

import socket
import socketserver
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO

_ROOM = 1.0  # seconds for the thread of a connection that was closed to end


class PageServer(ThreadingHTTPServer):
    """A reader who sends its request at once is answered, however many others hold connections without one."""

    daemon_threads = True
    block_on_close = False  # a slow reader keeps nobody from ending; its time is bounded

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], places: int) -> None:
        self._places = threading.BoundedSemaphore(places)
        self._lock = threading.Lock()
        self._silent: dict[Any, Any] = {}  # by address: each connection whose request is not read yet, oldest first
        self.request_queue_size = 2 * places
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's would ask a name service who we are

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False) or (self._close_oldest() and self._places.acquire(timeout=_ROOM)):
            with self._lock:
                self._silent[client_address] = request
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.heard(client_address)
            self._places.release()

    def heard(self, client_address: Any) -> None:
        """The request of this connection was read: it is not closed for another one."""
        with self._lock:
            self._silent.pop(client_address, None)

    def _close_oldest(self) -> bool:
        with self._lock:
            if not self._silent:
                return False
            _cut(self._silent.pop(next(iter(self._silent))))
            return True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that goes away is no news."""


class PageHandler(BaseHTTPRequestHandler):
    longest: int
    server: PageServer
    server_version = "tacit"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = _Bounded(self.rfile, self.longest)  # type: ignore[assignment,arg-type]

    def parse_request(self) -> bool:
        whole = super().parse_request()
        self.server.heard(self.client_address)
        return whole

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


class _Bounded:
    """The lines of a request, as long as it is short."""

    def __init__(self, file: BinaryIO, longest: int) -> None:
        self._file = file
        self._left = longest

    def readline(self, size: int = -1) -> bytes:
        line = self._file.readline(self._left if size < 0 else min(size, self._left))
        self._left -= len(line)
        if self._left <= 0:
            raise TimeoutError("the request is too long")  # which http.server takes as its end
        return line

    def close(self) -> None:
        self._file.close()


def cut_after(seconds: float, request: socket.socket) -> threading.Timer:
    """End a connection after this time, unless the timer is cancelled before."""
    timer = threading.Timer(seconds, _cut, [request])
    timer.daemon = True
    timer.start()
    return timer


def _cut(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)
