"""A kind from outside: one party that counts epochs, and tells nobody how."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tacit import sections
from tacit.audit.finding import Finding, Score
from tacit.audit.scope import Scope
from tacit.audit.steps import Attacks, Step
from tacit.boundary import CLEAR, Boundary, Release
from tacit.events import EpochFinished, TrainingResumed, TrainingStarted
from tacit.kind import Here, Kind, Result, Resume, ended_early
from tacit.report.epochs_comparison import report
from tacit.report.figure import Report
from tacit.report.forecast import Forecast, in_sentences
from tacit.sections import Count, Name, Section
from tacit.store.record import Record


class Train(Section):
    epochs: Count = 3


class Settings(sections.Settings):
    kind: Literal["counting"] = "counting"
    name: Name = "count"
    train: Train = Train()

    def notes(self) -> list[str]:
        return ["counting is not learning"]


def forecast(settings: Settings) -> Forecast:
    return in_sentences(
        f"{settings.name}: counting", {"What it costs": ("Nothing.",)}, {"epochs": settings.train.epochs}
    )


def boundary(settings: Settings) -> Boundary:
    told = Release("model.safetensors", "count", "how far it came", CLEAR, "party", "anyone who is given it")
    return Boundary((told,), ("Anyone who gets the model sees the count.",), ("The count.",), frozenset())


def execute(settings: Settings, here: Here) -> Callable[[], Result]:
    stored = here.store.stored() if here.store is not None else None
    count = stored[0]["round"] if stored is not None else 0
    here.sink.emit(TrainingStarted(settings.name, settings.kind, 1, settings.train.epochs, 1, "none", 1))
    if count:
        here.sink.emit(TrainingResumed(count, 0))

    def run() -> Result:
        done = count
        with ended_early() as ending:
            while done < settings.train.epochs:
                done += 1
                save(done)
                here.sink.emit(EpochFinished(done - 1, 0.0, {"count": float(done)}, {}, None, None))
                if here.should_stop() or os.environ.get("TOY_STOPS_AFTER") == str(done):
                    raise KeyboardInterrupt
        return Result(model(done), LEDGER, ending.status, ending.text)

    def save(done: int) -> None:
        if here.store is not None:
            here.store.save(model(done), {"round": done}, LEDGER)

    return run


LEDGER = {"version": 1, "ledgers": []}


def model(count: int) -> dict[str, Any]:
    return {"count": np.array([count])}


def pages(records: Sequence[Record[Settings]], share: bool) -> Report:
    return report(records, share)


def attacks(settings: Settings, scope: Scope) -> Attacks:
    found = Finding(
        attack="read the count",
        adversary="anyone",
        sees="the model",
        protection="none",
        off=Score("counts", 1.0, 0.9, 1.0, 0.95, 0.0, 10),
    )
    return Attacks("none", [Step("reading", lambda: [found])], [], ["counting further"])


def finished(settings: Settings, state: Mapping[str, Any]) -> str | None:
    return f"all {state['round']} epochs are counted" if state["round"] >= settings.train.epochs else None


KIND = Kind(
    name="counting",
    settings=Settings,
    starter=lambda: "kind: counting\nname: starter  # a toy\ntrain: {epochs: 4}\n",
    forecast=forecast,
    boundary=boundary,
    execute=execute,
    report=pages,
    attacks=attacks,
    resume=Resume(lambda settings: frozenset({"train.epochs"}), finished, lambda settings, state, ledger: state),
    stopped_by="flag",
)
