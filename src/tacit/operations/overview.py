"""What is shown of a party at this moment, to the pages and to the commands alike.

status()    a dict for JSON
page()      metrics, in Prometheus's text format
alive()     why the process does not work; empty if it does
ready()     why it takes no part at the moment; empty if it does
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tacit.net.pausing import Pausing, State
from tacit.net.vitals import Figures, Vitals
from tacit.operations import process
from tacit.operations.counts import Metrics, gauge, traffic
from tacit.operations.exposition import Family, Sample, by_label, text
from tacit.operations.standing import STATES, Standing, Status
from tacit.version import __version__

_PATIENCE = 2.0  # seconds for an event loop to answer
_AT_WORK = ("running", "pausing", "paused")


@dataclass(frozen=True, slots=True)
class View:
    """Args:
    party: its name; empty where all parties are in one process.
    expiries: until when each certificate is valid, in seconds since 1970.
    stored: what is wrong with the state on disk; empty if it is as it should be.
    """

    kind: str
    party: str
    status: Status
    metrics: Metrics
    vitals: Vitals
    budget: float | None = None
    pausing: Pausing | None = None  # of a coordinator
    expiries: Callable[[], Mapping[str, float]] = dict
    stored: Callable[[], str] = lambda: ""

    def told(self) -> dict[str, Any]:
        """All that `tacit status` and GET /status say."""
        standing, figures = self._standing(), self.vitals.look(_PATIENCE)
        known = figures or Figures()
        return {
            "version": __version__,
            "kind": self.kind,
            "party": self.party or None,
            "state": standing.state,
            "ready": not self._unready(standing, figures),
            "round": standing.round,
            "rounds": standing.rounds,
            "stage": known.stage or None,
            "epoch": standing.epoch,
            "epochs": standing.epochs,
            "step": standing.step,
            "steps": standing.steps,
            "connected": known.connected if known.needed else None,
            "needed": known.needed or None,
            "epsilon": _plain(standing.epsilons),
            "delta": _plain(standing.deltas),
            "budget": self.budget,
            "left": _plain(standing.left(self.budget)),
            "last_success": _day(standing.succeeded_at),
            "started": _day(process.started_at()),
            "certificates": {name: _day(at) for name, at in self.expiries().items()},
        }

    def page(self) -> str:
        standing, figures = self._standing(), self.vitals.look(_PATIENCE)
        return text(
            [
                Family("tacit_build_info", "gauge", "The version that runs.", (self._build(),)),
                *self._gauges(standing, figures),
                *self.metrics.families(),
                *process.families(),
            ]
        )

    def alive(self) -> str:
        return "" if self.vitals.look(_PATIENCE) is not None else "the event loop does not answer"

    def ready(self) -> str:
        return self._unready(self._standing(), self.vitals.look(_PATIENCE))

    def _standing(self) -> Standing:
        standing = self.status.standing
        asked = self.pausing is not None and self.pausing.state is State.ASKED and standing.state == "running"
        return replace(standing, state="pausing") if asked else standing

    def _unready(self, standing: Standing, figures: Figures | None) -> str:
        if figures is None:
            return "the event loop does not answer"
        if standing.state not in _AT_WORK:
            return f"the state is: {standing.state}"
        if figures.connected < figures.needed:
            return f"{figures.connected} parties are connected, {figures.needed} are needed"
        return self.stored()

    def _build(self) -> Sample:
        python = platform.python_version()
        return Sample(1, (("version", __version__), ("python", python), ("kind", self.kind)))

    def _gauges(self, standing: Standing, figures: Figures | None) -> list[Family]:
        found = [
            Family(
                "tacit_state",
                "gauge",
                "1 for the state that the party is in.",
                by_label("state", {state: state == standing.state for state in STATES}),
            ),
            gauge("tacit_ready", "1 if the party takes part: see /readyz.", not self._unready(standing, figures)),
        ]
        for name, words, value in (
            ("tacit_round", "The round that was begun last, from 1.", standing.round),
            ("tacit_rounds", "How many rounds the run has.", standing.rounds),
            ("tacit_epoch", "The epoch under way, from 1.", standing.epoch),
            ("tacit_epochs", "How many epochs the run has.", standing.epochs),
            (
                "tacit_last_success_timestamp_seconds",
                "When a round, an epoch, a step or an answer was done last, in seconds since 1970.",
                standing.succeeded_at,
            ),
            ("tacit_epsilon_budget", "The epsilon that ends the run.", self.budget),
        ):
            found += [] if value is None else [gauge(name, words, value)]
        for name, words, label, values in (
            ("tacit_epsilon", "Privacy spent so far, by what it covers.", "of", standing.epsilons),
            ("tacit_delta", "The delta at which epsilon holds, by what it covers.", "of", standing.deltas),
            ("tacit_epsilon_left", "The budget that is left, by what it is for.", "of", standing.left(self.budget)),
            (
                "tacit_certificate_expiry_timestamp_seconds",
                "Until when a certificate is valid, in seconds since 1970.",
                "certificate",
                self.expiries(),
            ),
        ):
            found.append(Family(name, "gauge", words, by_label(label, values)))
        return found + _of_network(figures)


def _of_network(figures: Figures | None) -> list[Family]:
    if figures is None or not figures.needed:
        return []
    return [
        gauge("tacit_parties_connected", "Other parties that are connected to this one.", figures.connected),
        gauge("tacit_parties_needed", "How many of them are needed.", figures.needed),
        *traffic(figures.traffic.received, figures.traffic.sent),
    ]


def _plain(values: Mapping[str, float]) -> dict[str, float | str]:
    return {name: "infinite" if math.isinf(value) else value for name, value in values.items()}


def _day(at: float | None) -> str | None:
    return None if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
