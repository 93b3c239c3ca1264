"""A training in epochs, as its record tells it: of one party alone, or of one of a few in lock step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tacit.boundary import Boundary
from tacit.events import (
    Aligned,
    Bars,
    Counted,
    Curve,
    EpochFinished,
    Noted,
    RunFinished,
    Stepped,
    Tabled,
    TrainingResumed,
    TrainingStarted,
    Tree,
)
from tacit.sections import Settings
from tacit.store.reading import Account
from tacit.store.record import Record, S


@dataclass(frozen=True, slots=True)
class Epochs:
    """A training as its directory tells it. Of an epoch that was done again, only the last time counts."""

    path: Path
    settings: Settings  # of its kind
    boundary: Boundary
    started: TrainingStarted | None
    aligned: Aligned | None
    epochs: tuple[EpochFinished, ...]
    steps: tuple[Stepped, ...]
    curves: tuple[Curve, ...]  # the last of each name
    bars: tuple[Bars, ...]  # the same
    tables: tuple[Tabled, ...]  # the same
    trees: tuple[Tree, ...]  # the same
    notes: tuple[str, ...]
    resumed: int  # times
    finished: RunFinished | None  # None while it runs, and where it was cut off
    ledgers: tuple[Account, ...]
    environment: dict[str, str]  # versions
    counted: Counted  # the words of its kind

    @property
    def status(self) -> str:
        return "running, or cut off" if self.finished is None else self.finished.status

    @property
    def seconds(self) -> float:
        """How long the training took; of one that was resumed or is not finished, its epochs."""
        if self.finished is not None and not self.resumed:
            return self.finished.seconds or 0.0
        return math.fsum(event.seconds or 0.0 for event in self.epochs)


def epochs_of(record: Record[S]) -> Epochs:
    """The events put together."""
    epochs: dict[int, EpochFinished] = {}
    steps: dict[tuple[int, int], Stepped] = {}
    curves: dict[str, Curve] = {}
    bars: dict[str, Bars] = {}
    tables: dict[str, Tabled] = {}
    trees: dict[str, Tree] = {}
    notes: dict[str, None] = {}  # a resumed run gives them again
    started, aligned, finished, resumed = None, None, None, 0
    for event in record.events:
        match event:
            case TrainingStarted():
                started = event
            case TrainingResumed():
                resumed += 1
                finished = None
                epochs = {number: each for number, each in epochs.items() if number < event.epoch}
                steps = {place: each for place, each in steps.items() if place <= (event.epoch, event.step)}
            case Aligned():
                aligned = event
            case Noted():
                notes[event.text] = None
            case Stepped():
                steps[event.epoch, event.step] = event
            case EpochFinished():
                epochs[event.epoch] = event
            case Curve():
                curves[event.name] = event
            case Bars():
                bars[event.name] = event
            case Tabled():
                tables[event.name] = event
            case Tree():
                trees[event.name] = event
            case RunFinished():
                finished = event
            case _:
                pass
    return Epochs(
        path=record.path,
        settings=record.settings,
        boundary=record.boundary,
        started=started,
        aligned=aligned,
        epochs=tuple(epochs[number] for number in sorted(epochs)),
        steps=tuple(steps[place] for place in sorted(steps)),
        curves=tuple(curves.values()),
        bars=tuple(bars.values()),
        tables=tuple(tables.values()),
        trees=tuple(trees.values()),
        notes=tuple(notes),
        resumed=resumed,
        finished=finished,
        ledgers=record.ledgers,
        environment=record.environment,
        counted=record.counted,
    )
