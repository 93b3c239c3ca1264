"""The page for Prometheus: what it holds, what it must not hold, and a server that cannot be kept busy."""

from __future__ import annotations

import http.client
import math
import re
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.events import (
    Answered,
    AnswerRefused,
    ClientBlamed,
    ClientRefused,
    Evaluated,
    Noted,
    PortWatched,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunResumed,
    RunStarted,
    SharesDisputed,
)
from tacit.store import prometheus as module
from tacit.store.prometheus import CONTENT_TYPE, Metrics, serve_metrics
from tests.subprocesses import HANGS, until

FINISHED = RoundFinished(
    round=4,
    survivors=17,
    refused=1,
    seconds=2.5,
    bytes_up=1000,
    bytes_down=2000,
    metrics={"accuracy": 0.98765},
    training_loss=0.12345,
    epsilon=1.5,
    delta=1e-5,
    update_norm=0.54321,
    evaluation_epsilon=3.0,
    stages={"upload": 0.25, "unmask": 0.5},
)
SAMPLE = re.compile(r'([a-z_]+)(?:\{([a-z]+)="((?:[^"\\\n]|\\[\\"n])*)"\})? ([^ ]+)')


def samples(text):
    """The samples of a page, by the format's own rules."""
    found = {}
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP [a-z_]+ .+|TYPE [a-z_]+ (gauge|counter))", line)
            continue
        name, label, value, number = SAMPLE.fullmatch(line).groups()
        value = re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), value or "")
        key = (name, label, value) if label else name
        assert key not in found
        found[key] = float(number)
    return found


def after(*events):
    metrics = Metrics()
    for event in events:
        metrics.emit(event)
    return samples(metrics.text())


def test_a_run_that_has_not_begun():
    assert after() == {
        "tacit_rounds_finished_total": 0,
        "tacit_rounds_aborted_total": 0,
        "tacit_refused_total": 0,
        "tacit_disputes_total": 0,
    }


def test_those_that_broke_the_protocol_are_named():
    found = after(
        ClientBlamed(1, 7, "a reason", True), ClientBlamed(2, 7, "a reason", False), SharesDisputed(2, 31415, [9], 1)
    )
    assert found["tacit_blamed_total", "client", "7"] == 2
    assert found["tacit_disputes_total"] == 1
    assert not [key for key in found if "31415" in key]


def test_a_composed_epsilon_stands_beside_the_two():
    found = after(replace(FINISHED, composed_epsilon=4.25, composed_delta=1e-5))
    assert found["tacit_epsilon", "of", "updates and inference vectors"] == 4.25
    assert found["tacit_delta", "of", "updates and inference vectors"] == 1e-5
    assert found["tacit_epsilon", "of", "updates"] == 1.5


def test_a_client_shows_its_own_figures_and_of_several_the_largest():
    answers = [Answered(client, 6, {"Update": 9}, {"updates": 2.0 + client}, {"updates": 1e-5}) for client in (1, 0)]
    found = after(*answers, AnswerRefused(1, 7, "budget", "spent"))
    assert found["tacit_epsilon", "of", "updates"] == 3.0
    assert found["tacit_delta", "of", "updates"] == 1e-5
    assert (found["tacit_round"], found["tacit_refused_total"]) == (7, 1)


def test_a_round_as_figures():
    assert after(RoundStarted(4, 20), ClientRefused(4, 3141592, "no"), RoundAborted(3, "few", 1.0), FINISHED) == {
        "tacit_rounds_finished_total": 1,
        "tacit_rounds_aborted_total": 1,
        "tacit_round": 5,
        "tacit_survivors": 17,
        "tacit_refused_total": 1,
        "tacit_disputes_total": 0,
        "tacit_round_seconds": 2.5,
        ("tacit_stage_seconds", "stage", "upload"): 0.25,
        ("tacit_stage_seconds", "stage", "unmask"): 0.5,
        "tacit_client_bytes_up": 1000,
        "tacit_client_bytes_down": 2000,
        ("tacit_epsilon", "of", "updates"): 1.5,
        ("tacit_epsilon", "of", "inference vectors"): 3.0,
        ("tacit_delta", "of", "updates"): 1e-5,
        ("tacit_delta", "of", "inference vectors"): 0.0,
    }


def test_nothing_of_the_task_or_of_a_client_is_shown():
    metrics = Metrics()
    for event in (
        RunStarted("hospital-run", "horizontal", 20, 10, "PW_ENCRYPT", 650),
        Noted("a note"),
        ClientRefused(4, 3141592, "a reason"),
        Evaluated(4, "SILHOUETTE_SCORE", 0.24680, "", 5, 100, 10),
        FINISHED,
        RunFinished("done", 10, 60.0, "a text"),
    ):
        metrics.emit(event)
    for private in ("0.98765", "0.12345", "0.54321", "0.2468", "3141592", "accuracy", "hospital", "reason", "note"):
        assert private not in metrics.text()


def test_a_run_that_goes_on_counts_the_rounds_before():
    assert after(RunResumed(7, False), FINISHED)["tacit_rounds_finished_total"] == 8


def test_without_protection_there_is_no_epsilon_and_an_infinite_one_is_said():
    plain = RoundFinished(0, 1, 0, 1.0, 1)
    assert not any("epsilon" in str(key) for key in after(FINISHED, plain))
    assert after(RoundFinished(0, 1, 0, 1.0, 1, epsilon=math.inf, delta=0.0))["tacit_epsilon", "of", "updates"] == (
        math.inf
    )


@given(st.text(), st.floats())
def test_any_label_and_number_keeps_to_the_format(label, number):
    found = after(RoundFinished(0, 1, 0, 1.0, 1, stages={label: number}))
    value = found["tacit_stage_seconds", "stage", label]
    assert value == number or (math.isnan(value) and math.isnan(number))


def ask(port, method="GET", path="/metrics"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()
    finally:
        connection.close()


def test_the_page_is_served_and_nothing_else():
    metrics = Metrics()
    with serve_metrics(metrics, 0) as port:
        metrics.emit(FINISHED)
        assert ask(port) == (200, CONTENT_TYPE, metrics.text())
        for method, path in (("GET", "/"), ("GET", "/metrics/x"), ("POST", "/metrics"), ("HEAD", "/metrics")):
            assert ask(port, method, path)[0] == 404
    with pytest.raises(ConnectionRefusedError):
        ask(port)


def test_a_port_in_use_and_no_address_are_the_callers_mistake():
    with (
        serve_metrics(Metrics(), 0) as port,
        pytest.raises(ValueError, match="cannot be listened on"),
        serve_metrics(Metrics(), port),
    ):
        pass
    with pytest.raises(ValueError, match="an empty one"), serve_metrics(Metrics(), 0, ""):
        pass


def ended(connection):
    """Whether the server ends the connection, before the limit for what hangs."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        return True
    return True


@contextmanager
def trickle(connection):
    """One byte after the other, as long as the server takes them."""
    over = threading.Event()

    def send():
        try:
            while not over.wait(0.05):
                connection.sendall(b"x")
        except OSError:
            pass

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join(HANGS)


def test_a_request_is_bounded_in_size_and_in_time(monkeypatch):
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 0.3)
    with serve_metrics(Metrics(), 0) as port:
        with socket.create_connection(("127.0.0.1", port), HANGS) as long:
            long.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000)
            assert ended(long)
        with socket.create_connection(("127.0.0.1", port), HANGS) as slow, trickle(slow):
            assert ended(slow)
        assert ask(port)[0] == 200


def test_idle_readers_do_not_keep_a_run_from_ending_or_take_all_its_threads(monkeypatch):
    monkeypatch.setattr(module, "_REQUEST_SECONDS", 10 * HANGS)
    monkeypatch.setattr(module._Handler, "timeout", 10 * HANGS)
    told, over = [], threading.Event()

    def serve():
        with serve_metrics(Metrics(), 0) as port:
            told.append(port)
            over.wait(HANGS)

    run = threading.Thread(target=serve, daemon=True)
    run.start()
    until(lambda: told)
    idle = [socket.create_connection(("127.0.0.1", told[0]), HANGS) for _ in range(12)]
    assert all(ended(connection) for connection in idle[8:])
    over.set()
    run.join(HANGS)
    assert not run.is_alive()
    for connection in idle:
        connection.close()


def test_the_port_is_counted_by_reason():
    found = after(PortWatched(5, 2, {"address": 7, "time": 0}, 3, 1, "said"))
    assert found["tacit_connections"] == 5
    assert found["tacit_connections_unauthenticated"] == 2
    assert found["tacit_connections_refused_total", "reason", "address"] == 7
    assert found["tacit_connections_refused_total", "reason", "time"] == 0
    assert found["tacit_handshakes_failed_total"] == 3
    assert found["tacit_hellos_refused_total"] == 1
