"""What happened in a run, counted: a sink whose figures Prometheus reads (see `overview` for those of this moment)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import get_args

from tacit.events import (
    AnswerRefused,
    Cause,
    ClientBlamed,
    ClientRefused,
    EpochFinished,
    Event,
    PortWatched,
    RoundAborted,
    RoundFinished,
    RunResumed,
    SharesDisputed,
)
from tacit.operations.exposition import Family, Histogram, Sample, by_label

_BOUNDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0)  # seconds
_REASONS = (*get_args(Cause), "budget", "request", "update", "training")


class Metrics:
    """Counters, histograms, and gauges of the last round; any thread may read them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._finished = 0
        self._aborted = 0
        self._epochs = 0
        self._refused: Counter[str] = Counter(dict.fromkeys(_REASONS, 0))
        self._blamed: Counter[str] = Counter()
        self._disputes = 0
        self._rounds = Histogram(_BOUNDS)
        self._epoch_seconds = Histogram(_BOUNDS)
        self._stages: dict[str, Histogram] = {}
        self._last: RoundFinished | None = None
        self._last_epoch: EpochFinished | None = None
        self._port: PortWatched | None = None

    def emit(self, event: Event) -> None:
        with self._lock:
            match event:
                case RunResumed(round=number):
                    self._finished = number
                case ClientRefused(why=why) | AnswerRefused(why=why):
                    self._refused[why] += 1
                case ClientBlamed(client=client):
                    self._blamed[str(client)] += 1
                case SharesDisputed():
                    self._disputes += 1
                case RoundAborted():
                    self._aborted += 1
                case RoundFinished():
                    self._finished += 1
                    self._last = event
                    self._rounds.observe(event.seconds)
                    self._observe(event.stages)
                case EpochFinished():
                    self._epochs += 1
                    self._last_epoch = event
                    self._epoch_seconds.observe(event.seconds)
                    self._observe(event.stages)
                case PortWatched():
                    self._port = event
                case _:
                    pass

    def _observe(self, stages: Mapping[str, float]) -> None:
        for stage, seconds in stages.items():
            self._stages.setdefault(stage, Histogram(_BOUNDS)).observe(seconds)

    def families(self) -> list[Family]:
        with self._lock:
            return [*self._of_run(), *self._of_last_round(), *self._of_port()]

    def _of_run(self) -> list[Family]:
        stages = [sample for stage, seen in self._stages.items() for sample in seen.samples((("stage", stage),))]
        return [
            _counter("tacit_rounds_finished_total", "Rounds that changed the model.", self._finished),
            _counter("tacit_rounds_aborted_total", "Rounds that changed nothing.", self._aborted),
            _counter("tacit_epochs_finished_total", "Epochs that were trained.", self._epochs),
            Family(
                "tacit_refused_total",
                "counter",
                "Times that a client lost its place in a round, or refused what it was asked, by reason.",
                by_label("reason", self._refused),
            ),
            Family(
                "tacit_blamed_total",
                "counter",
                "Times that a client was proved to break secure aggregation, by client.",
                by_label("client", self._blamed),
            ),
            _counter(
                "tacit_disputes_total",
                "Times that a client said that others' shares are invalid, without proof.",
                self._disputes,
            ),
            Family("tacit_round_seconds", "histogram", "How long finished rounds took.", tuple(self._rounds.samples())),
            Family("tacit_epoch_seconds", "histogram", "How long epochs took.", tuple(self._epoch_seconds.samples())),
            Family("tacit_stage_seconds", "histogram", "How long stages of rounds or epochs took.", tuple(stages)),
        ]

    def _of_last_round(self) -> list[Family]:
        found = []
        if (epoch := self._last_epoch) is not None:
            received, sent = epoch.bytes_received, epoch.bytes_sent
            found += [
                gauge("tacit_epoch_received_bytes", "Bytes from other parties in the last epoch.", received),
                gauge("tacit_epoch_sent_bytes", "Bytes to other parties in the last epoch.", sent),
            ]
        if (last := self._last) is None:
            return found
        return [
            *found,
            gauge("tacit_survivors", "Clients whose updates are in the last finished round.", last.survivors),
            gauge("tacit_client_bytes_up", "Bytes from one client in the last finished round.", last.bytes_up),
            gauge("tacit_client_bytes_down", "Bytes to one client in the last finished round.", last.bytes_down),
        ]

    def _of_port(self) -> list[Family]:
        if (port := self._port) is None:
            return []
        return [
            gauge("tacit_connections", "Open connections of the party that listens.", port.open),
            gauge(
                "tacit_connections_unauthenticated",
                "Those of them on which no party is known yet.",
                port.unauthenticated,
            ),
            Family(
                "tacit_connections_refused_total",
                "counter",
                "Connections that were refused or cut, by reason.",
                by_label("reason", port.refused),
            ),
            _counter(
                "tacit_handshakes_failed_total",
                "Connections that ended before a party was known.",
                port.handshakes_failed,
            ),
            _counter(
                "tacit_hellos_refused_total",
                "Parties that were refused: not expected, or with another file.",
                port.hellos_refused,
            ),
        ]


def gauge(name: str, words: str, value: float) -> Family:
    """A gauge without labels."""
    return Family(name, "gauge", words, (Sample(value),))


def _counter(name: str, words: str, value: float) -> Family:
    return Family(name, "counter", words, (Sample(value),))


def traffic(received: int, sent: int) -> list[Family]:
    """Bytes that passed over the network."""
    return [
        _counter("tacit_received_bytes_total", "Bytes from other parties, without TLS.", received),
        _counter("tacit_sent_bytes_total", "Bytes to other parties, without TLS.", sent),
    ]
