"""What happened, counted: what the page holds, and what it must not hold."""

from __future__ import annotations

from tacit.events import (
    AnswerRefused,
    ClientBlamed,
    ClientRefused,
    EpochFinished,
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
from tacit.operations.counts import Metrics
from tacit.operations.exposition import text
from tests.operations import promtool

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


def after(*events):
    metrics = Metrics()
    for event in events:
        metrics.emit(event)
    page = text(metrics.families())
    assert promtool.lint(page) == []
    return page


def test_counters_begin_at_nothing_for_every_reason():
    page = after()
    for name in ("rounds_finished", "rounds_aborted", "epochs_finished", "disputes"):
        assert promtool.value(page, f"tacit_{name}_total") == 0
    reasons = {dict(labels)["reason"] for name, labels in promtool.samples(page) if name == "tacit_refused_total"}
    assert reasons == {"message", "late", "left", "certificate", "budget", "request", "update", "training"}


def test_a_round():
    page = after(RoundStarted(4, 20), ClientRefused(4, 3, "no", "late"), RoundAborted(3, "few", 1.0), FINISHED)
    assert promtool.value(page, "tacit_rounds_finished_total") == 1
    assert promtool.value(page, "tacit_rounds_aborted_total") == 1
    assert promtool.value(page, "tacit_refused_total", reason="late") == 1
    assert promtool.value(page, "tacit_survivors") == 17
    assert promtool.value(page, "tacit_client_bytes_up") == 1000
    assert promtool.value(page, "tacit_client_bytes_down") == 2000
    assert promtool.value(page, "tacit_round_seconds_sum") == 2.5
    assert promtool.value(page, "tacit_round_seconds_bucket", le="1.0") == 0
    assert promtool.value(page, "tacit_round_seconds_bucket", le="3.0") == 1
    assert promtool.value(page, "tacit_stage_seconds_sum", stage="upload") == 0.25
    assert promtool.value(page, "tacit_stage_seconds_count", stage="unmask") == 1


def test_an_epoch():
    page = after(EpochFinished(0, 20.0, bytes_sent=5, bytes_received=6, stages={"encrypt": 0.5}))
    assert promtool.value(page, "tacit_epochs_finished_total") == 1
    assert promtool.value(page, "tacit_epoch_seconds_sum") == 20.0
    assert promtool.value(page, "tacit_stage_seconds_sum", stage="encrypt") == 0.5
    assert promtool.value(page, "tacit_epoch_sent_bytes") == 5
    assert promtool.value(page, "tacit_epoch_received_bytes") == 6


def test_those_that_broke_the_protocol_are_named_and_nobody_else():
    page = after(
        ClientBlamed(1, 7, "a reason", True), ClientBlamed(2, 7, "a reason", False), SharesDisputed(2, 31415, [9], 1)
    )
    assert promtool.value(page, "tacit_blamed_total", client="7") == 2
    assert promtool.value(page, "tacit_disputes_total") == 1
    assert "31415" not in page


def test_nothing_of_the_task_or_of_a_client_is_shown():
    page = after(
        RunStarted("hospital-run", "horizontal", 20, 10, "PW_ENCRYPT", 650),
        Noted("a note"),
        ClientRefused(4, 3141592, "a cause"),
        AnswerRefused(271828, 4, "budget", "a cause"),
        Evaluated(4, "SILHOUETTE_SCORE", 0.24680, "", 5, 100, 10),
        FINISHED,
        EpochFinished(0, 1.0, {"auc": 0.13579}, {"training loss": 0.86420}),
        RunFinished("done", 10, 60.0, "a text"),
    )
    private = ("0.98765", "0.12345", "0.54321", "0.2468", "0.13579", "0.8642", "3141592", "271828")
    for each in (*private, "accuracy", "hospital", "cause", "a note"):
        assert each not in page


def test_a_client_counts_what_it_refused():
    assert promtool.value(after(AnswerRefused(1, 7, "budget", "spent")), "tacit_refused_total", reason="budget") == 1


def test_a_resumed_run_counts_the_rounds_before():
    assert promtool.value(after(RunResumed(7, False), FINISHED), "tacit_rounds_finished_total") == 8


def test_the_port_is_counted_by_reason():
    page = after(PortWatched(5, 2, {"address": 7, "no TLS 1.3": 0}, 3, 1, "said"))
    assert promtool.value(page, "tacit_connections") == 5
    assert promtool.value(page, "tacit_connections_unauthenticated") == 2
    assert promtool.value(page, "tacit_connections_refused_total", reason="address") == 7
    assert promtool.value(page, "tacit_connections_refused_total", reason="no TLS 1.3") == 0
    assert promtool.value(page, "tacit_handshakes_failed_total") == 3
    assert promtool.value(page, "tacit_hellos_refused_total") == 1
