"""A run as numbers that Prometheus reads: how far it is, how fast, and what privacy it has cost so far.

    metrics = Metrics()                             a Sink: hand it the run's events
    with serve_metrics(metrics, 9100) as port:      GET /metrics, on this machine only

What is shown is about the run: no client's number, but for those that broke the protocol, and no score, loss or other
figure of the task. Anyone on this machine can read it; there is no password.
"""

from __future__ import annotations

import math
import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO

from tacit.events import (
    Answered,
    AnswerRefused,
    ClientBlamed,
    ClientRefused,
    Event,
    PortWatched,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    RunResumed,
    SharesDisputed,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REQUEST_BYTES = 8192
_REQUEST_SECONDS = 5.0
_REQUESTS = 8  # at a time
_VECTORS = "inference vectors"
_BOTH = "updates and inference vectors"

_OF_ROUNDS = (
    "tacit_rounds_finished_total",
    "tacit_rounds_aborted_total",
    "tacit_refused_total",
    "tacit_disputes_total",
)

# name: type and what it says. The order is that of the page.
_FAMILIES = {
    "tacit_rounds_finished_total": ("counter", "Rounds that changed the model."),
    "tacit_rounds_aborted_total": ("counter", "Rounds that changed nothing."),
    "tacit_round": ("gauge", "The round that was begun last, from 1."),
    "tacit_survivors": ("gauge", "Clients whose updates are in the last finished round."),
    "tacit_refused_total": ("counter", "Times that a client lost its place in a round, or refused what it was asked."),
    "tacit_blamed_total": ("counter", "Times that a client was proved to break secure aggregation, by client."),
    "tacit_disputes_total": ("counter", "Times that a client said that others' shares are invalid, without proof."),
    "tacit_round_seconds": ("gauge", "How long the last finished round took."),
    "tacit_stage_seconds": ("gauge", "How long a stage of the last finished round took."),
    "tacit_client_bytes_up": ("gauge", "Bytes from one client in the last finished round."),
    "tacit_client_bytes_down": ("gauge", "Bytes to one client in the last finished round."),
    "tacit_epsilon": ("gauge", "Privacy spent so far, by what it covers."),
    "tacit_delta": ("gauge", "The delta at which epsilon holds, by what it covers."),
    "tacit_connections": ("gauge", "Open connections of the party that listens."),
    "tacit_connections_unauthenticated": ("gauge", "Those of them on which no party is known yet."),
    "tacit_connections_refused_total": ("counter", "Connections that were refused or cut, by reason."),
    "tacit_handshakes_failed_total": ("counter", "Connections that ended before a party was known."),
    "tacit_hellos_refused_total": ("counter", "Parties that were refused: not expected, or with another file."),
}


class Metrics:
    """A sink that keeps the figures of a run; any thread may read them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[tuple[str, str], float]] = {name: {} for name in _FAMILIES}
        for name in _OF_ROUNDS:
            self._set(name, 0)

    def emit(self, event: Event) -> None:
        with self._lock:
            match event:
                case RunResumed(round=number):
                    self._set("tacit_rounds_finished_total", number)
                case RoundStarted(round=number):
                    self._set("tacit_round", number + 1)
                case ClientRefused():
                    self._add("tacit_refused_total")
                case ClientBlamed(client=client):
                    label, blamed = ("client", str(client)), self._values["tacit_blamed_total"]
                    blamed[label] = blamed.get(label, 0) + 1
                case SharesDisputed():
                    self._add("tacit_disputes_total")
                case RoundAborted():
                    self._add("tacit_rounds_aborted_total")
                case RoundFinished():
                    self._finished(event)
                case Answered():
                    self._answered(event)
                case AnswerRefused():
                    self._add("tacit_refused_total")
                case PortWatched():
                    self._watched(event)
                case _:
                    pass

    def text(self) -> str:
        """All figures, in the text format of Prometheus."""
        with self._lock:
            lines = []
            for name, (kind, words) in _FAMILIES.items():
                if values := self._values[name]:
                    lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
                    lines += [f"{name}{_label(*label)} {_number(value)}" for label, value in values.items()]
        return "\n".join(lines) + "\n"

    def _finished(self, event: RoundFinished) -> None:
        self._add("tacit_rounds_finished_total")
        self._set("tacit_survivors", event.survivors)
        self._set("tacit_round_seconds", event.seconds)
        self._set("tacit_client_bytes_up", event.bytes_up)
        self._set("tacit_client_bytes_down", event.bytes_down)
        self._replace("tacit_stage_seconds", "stage", event.stages)
        epsilons = {event.epsilon_of: event.epsilon, _VECTORS: event.evaluation_epsilon}
        deltas = {event.epsilon_of: event.delta, _VECTORS: None if event.evaluation_epsilon is None else 0.0}
        if event.composed_epsilon is not None:
            epsilons[_BOTH], deltas[_BOTH] = event.composed_epsilon, event.composed_delta
        self._replace("tacit_epsilon", "of", epsilons)
        self._replace("tacit_delta", "of", deltas)

    def _answered(self, event: Answered) -> None:
        """At a client: its own figures; of several in one process, those of the one that paid most."""
        self._set("tacit_round", event.round + 1)
        for name, values in (("tacit_epsilon", event.epsilons), ("tacit_delta", event.deltas)):
            for of, value in values.items():
                known = self._values[name].get(("of", of), 0.0)
                self._values[name]["of", of] = max(known, value)

    def _watched(self, event: PortWatched) -> None:
        self._set("tacit_connections", event.open)
        self._set("tacit_connections_unauthenticated", event.unauthenticated)
        self._set("tacit_handshakes_failed_total", event.handshakes_failed)
        self._set("tacit_hellos_refused_total", event.hellos_refused)
        self._replace("tacit_connections_refused_total", "reason", event.refused)

    def _set(self, name: str, value: float) -> None:
        self._values[name] = {("", ""): value}

    def _add(self, name: str) -> None:
        self._set(name, self._values[name][("", "")] + 1)

    def _replace(self, name: str, label: str, values: Mapping[str, float | None]) -> None:
        self._values[name] = {(label, key): value for key, value in values.items() if value is not None}


def _label(name: str, value: str) -> str:
    if not name:
        return ""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{{{name}="{escaped}"}}'


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)


@contextmanager
def serve_metrics(metrics: Metrics, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """Answer GET /metrics until the end of the block. Gives the port, which 0 leaves to the system to choose.

    Args:
        host: the address to listen on. Any other than the default lets other machines read.
    """
    if not host:
        raise ValueError("give the address to listen on: an empty one would be all of this machine's, that is 0.0.0.0")
    try:
        server = _Server(metrics, host, port)
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"{host}:{port}: this address cannot be listened on ({error}): choose another, or stop who uses it"
        ) from None
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 2 * _REQUESTS
    block_on_close = False  # a slow reader does not keep a run from ending; its time is bounded

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        self.metrics = metrics
        self._places = threading.BoundedSemaphore(_REQUESTS)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's would ask a name service who we are

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        timer = threading.Timer(_REQUEST_SECONDS, _cut, [request])  # for the whole request, however it trickles in
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that goes away is no news."""


def _cut(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Bounded:
    """The lines of a request, as long as it is short."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = _REQUEST_BYTES

    def readline(self, size: int = -1) -> bytes:
        line = self._file.readline(self._left if size < 0 else min(size, self._left))
        self._left -= len(line)
        if self._left <= 0:
            raise TimeoutError("the request is too long")  # which http.server takes as its end
        return line

    def close(self) -> None:
        self._file.close()


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_SECONDS
    server: _Server
    server_version = "tacit"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile = _Bounded(self.rfile)  # type: ignore[assignment,arg-type]

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404)
            return
        body = self.server.metrics.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _nothing(self) -> None:
        self.send_error(404)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _nothing

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""
