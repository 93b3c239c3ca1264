"""The pages of a party over HTTP: GET /healthz, /readyz, /status and /metrics, and nothing else.

    with serve(view, endpoint) as port:

A reader has 5 seconds for all of its request, 8 KiB, and one of 8 places: slow readers and floods take no more, and
lose their places to those who ask at once. Without a token, only requests that name this machine as their host are
answered: a page from elsewhere that a browser here shows cannot read them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tacit.net.loopback import on_loopback
from tacit.net.page_server import PageHandler, PageServer, cut_after
from tacit.operations.endpoint import Endpoint
from tacit.operations.exposition import CONTENT_TYPE
from tacit.operations.overview import View

_REQUEST_SECONDS = 5.0
_REQUESTS = 8  # at a time
_PLAIN = "text/plain; charset=utf-8"


@contextmanager
def serve(view: View, endpoint: Endpoint) -> Iterator[int]:
    """Answer until the end of the block. Gives the port, which 0 leaves to the system to choose."""
    try:
        server = _Server(view, endpoint)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"{endpoint.host}:{endpoint.port}: this address cannot be listened on ({reason}): choose another port, or "
            "stop the program that uses it"
        ) from None
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(PageServer):
    def __init__(self, view: View, endpoint: Endpoint) -> None:
        self.view = view
        self.endpoint = endpoint
        super().__init__((endpoint.host, endpoint.port), _Handler, _REQUESTS)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        limit = cut_after(_REQUEST_SECONDS, request)  # for the handshake, the request and the answer
        try:
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.endpoint.secure is None:
            super().finish_request(request, client_address)
            return
        # A descriptor of its own: the timer cuts the connection beneath TLS.
        with self.endpoint.secure.context().wrap_socket(
            request.dup(), server_side=True, do_handshake_on_connect=False
        ) as secure:
            secure.settimeout(_REQUEST_SECONDS)
            secure.do_handshake()
            super().finish_request(secure, client_address)


class _Handler(PageHandler):
    longest = 8192
    timeout = _REQUEST_SECONDS
    server: _Server

    def do_GET(self) -> None:
        token, view = self.server.endpoint.token, self.server.view
        if token is not None and not token.opens(self.headers.get("Authorization", "")):
            self._answer(401, _PLAIN, "show the token: Authorization: Bearer TOKEN\n")
            return
        if token is None and not self._asks_this_machine():
            self._answer(403, _PLAIN, "the host of this request is not this machine\n")
            return
        match self.path.partition("?")[0]:
            case "/metrics":
                self._answer(200, CONTENT_TYPE, view.page())
            case "/status":
                self._answer(200, "application/json", json.dumps(view.told(), allow_nan=False) + "\n")
            case "/healthz":
                self._judged(view.alive())
            case "/readyz":
                self._judged(view.ready())
            case _:
                self.send_error(404)

    def _asks_this_machine(self) -> bool:
        host, *others = self.headers.get_all("Host") or [""]
        return not others and on_loopback(host if ":" in host.rpartition("]")[2] else f"{host}:80")

    def _judged(self, trouble: str) -> None:
        self._answer(503 if trouble else 200, _PLAIN, f"{trouble or 'ok'}\n")

    def _answer(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if code == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def _nothing(self) -> None:
        self.send_error(404)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _nothing
