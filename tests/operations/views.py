"""A view of a run that has begun, for tests."""

from __future__ import annotations

from tacit.events import Event, RoundFinished, RoundStarted, RunStarted
from tacit.net.vitals import Vitals
from tacit.operations.counts import Metrics
from tacit.operations.overview import View
from tacit.operations.standing import Status

BEGUN = (
    RunStarted("hospital-run", "horizontal", 20, 30, "DP_ENCRYPT", 650),
    RoundStarted(4, 20),
    RoundFinished(4, 17, 1, 2.5, 1000, {"accuracy": 0.98765}, epsilon=1.5, delta=1e-5, stages={"upload": 0.25}),
)


def view(*events: Event, **parts: object) -> View:
    """A coordinator's, after these events; by default after a round."""
    made = View("horizontal", "coordinator", Status(), Metrics(), Vitals(), **{"budget": 8.0, **parts})
    for event in events or BEGUN:
        made.status.emit(event)
        made.metrics.emit(event)
    return made
