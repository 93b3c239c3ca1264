"""What is shown of a party: the same to commands and pages, and nothing of the task."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from contextlib import contextmanager
from datetime import UTC, datetime

from tacit.events import Paused, RoundFinished, RunFinished, RunStarted, TrainingStarted
from tacit.net.pausing import Pausing
from tacit.net.vitals import Figures, Traffic, Vitals
from tacit.operations import overview as module
from tacit.operations.overview import View
from tacit.operations.standing import Status
from tests.operations import promtool
from tests.operations.views import BEGUN, view

EXPIRES = datetime(2026, 12, 24, 1, 2, 3, tzinfo=UTC).timestamp()


@contextmanager
def at_work(vitals: Vitals, figures: Figures):
    """A party with these figures, in an event loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    with vitals.watched(lambda: figures, loop):
        yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_the_page_says_what_the_status_says():
    made = view(expiries=lambda: {"party": EXPIRES})
    with at_work(made.vitals, Figures(5, 4, "train and upload", Traffic(100, 200))):
        told, page = made.told(), made.page()
    assert promtool.lint(page) == []
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert (told["kind"], told["party"], told["state"], told["ready"]) == ("horizontal", "coordinator", "running", True)
    assert (told["round"], told["rounds"], told["stage"]) == (5, 30, "train and upload")
    assert (told["connected"], told["needed"]) == (5, 4)
    assert told["epsilon"] == {"updates": 1.5}
    assert (told["budget"], told["left"]) == (8.0, {"updates": 6.5})
    assert told["certificates"] == {"party": "2026-12-24T01:02:03Z"}
    for name, labels, value in (
        ("tacit_state", {"state": "running"}, 1),
        ("tacit_state", {"state": "paused"}, 0),
        ("tacit_ready", {}, 1),
        ("tacit_round", {}, 5),
        ("tacit_rounds", {}, 30),
        ("tacit_parties_connected", {}, 5),
        ("tacit_parties_needed", {}, 4),
        ("tacit_received_bytes_total", {}, 100),
        ("tacit_sent_bytes_total", {}, 200),
        ("tacit_epsilon", {"of": "updates"}, 1.5),
        ("tacit_delta", {"of": "updates"}, 1e-5),
        ("tacit_epsilon_budget", {}, 8.0),
        ("tacit_epsilon_left", {"of": "updates"}, 6.5),
        ("tacit_certificate_expiry_timestamp_seconds", {"certificate": "party"}, EXPIRES),
    ):
        assert promtool.value(page, name, **labels) == value, name
    (build,) = (dict(labels) for name, labels in promtool.samples(page) if name == "tacit_build_info")
    assert build.keys() == {"version", "python", "kind"}
    moment = datetime.fromisoformat(told["last_success"]).timestamp()
    assert moment <= promtool.value(page, "tacit_last_success_timestamp_seconds") < moment + 1


def test_nothing_of_the_task_is_shown():
    made = view()
    for shown in (made.page(), json.dumps(made.told())):
        for private in ("0.98765", "accuracy", "hospital"):
            assert private not in shown


def test_an_infinite_epsilon_is_said_in_both():
    made = view(
        RunStarted("r", "horizontal", 2, 3, "x", 1), RoundFinished(0, 1, 0, 1.0, 1, epsilon=math.inf, delta=0.0)
    )
    assert made.told()["epsilon"] == {"updates": "infinite"}
    assert promtool.value(made.page(), "tacit_epsilon", of="updates") == math.inf
    assert promtool.lint(made.page()) == []


def test_a_party_is_ready_when_it_takes_part():
    assert view().ready() == ""
    assert View("horizontal", "", Status(), view().metrics, Vitals()).ready() == "the state is: starting"
    assert view(*BEGUN, RunFinished("failed", 1, 1.0)).ready() == "the state is: failed"
    assert view(*BEGUN, Paused("words")).ready() == ""
    assert view(TrainingStarted("t", "split", 2, 1, 1, "p", 1)).ready() == ""
    assert view(stored=lambda: "the disk is full").ready() == "the disk is full"
    made = view()
    with at_work(made.vitals, Figures(3, 4)):
        assert made.ready() == "3 parties are connected, 4 are needed"
        assert made.alive() == ""
        assert made.told()["ready"] is False


def test_a_loop_that_hangs_is_not_alive(monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    made, over = view(), threading.Event()
    with at_work(made.vitals, Figures(4, 4)) as loop:
        loop.call_soon_threadsafe(over.wait)
        assert made.alive() == made.ready() == "the event loop does not answer"
        assert promtool.value(made.page(), "tacit_ready") == 0
        over.set()


def test_a_pause_that_was_asked_for_and_has_not_begun():
    pausing = Pausing()
    made = view(pausing=pausing)
    pausing.ask()
    assert made.told()["state"] == "pausing"
    assert promtool.value(made.page(), "tacit_state", state="pausing") == 1
    pausing.rests()
    made.status.emit(Paused("words"))
    assert made.told()["state"] == "paused"
