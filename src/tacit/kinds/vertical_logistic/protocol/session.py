"""What a party's function is given besides its data, and what it says while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from numpy.random import Generator

from tacit.crypto.paillier import PrivateKey, Workers
from tacit.events import EpochFinished, Nowhere, Sink, Stepped, TrainingResumed, TrainingStarted
from tacit.kinds.vertical_logistic.protocol import batches
from tacit.kinds.vertical_logistic.protocol.journal import InMemory, Records
from tacit.kinds.vertical_logistic.protocol.model import Saved
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.traffic import Meter

_BETWEEN = 1.0  # seconds between two words on how far it is
PROTECTION = "Paillier, gradients under uniform masks"


@dataclass(frozen=True, slots=True)
class Run:
    """What a party's function is given besides its data.

    Args:
        clock: seconds, for events only.
        store: is handed what to keep when the training begins and when an epoch is done.
        saved: what was kept, to resume from.
        records: where the journal of its last steps is kept.
        session: the number of the training, if the parties agreed on one before.
        workers: the pool for Paillier.
        key: the active's, or a new one.
        rng: of the keys behind the masks on scores; the operating system's by default.
        order: a digest of the rows' ids in their order; where passives' differ, their masks do not cancel.
    """

    sink: Sink = field(default_factory=Nowhere)
    clock: Callable[[], float] = lambda: 0.0
    store: Callable[[Saved], None] = lambda saved: None
    saved: Saved | None = None
    records: Records = field(default_factory=InMemory)
    session: bytes = b""
    workers: Workers = field(default_factory=Workers)
    key: PrivateKey | None = None
    rng: Generator | None = None
    order: bytes = b""

    def begin(self, rows: int, features: int, settings: Settings, saved: Saved, step: int) -> None:
        """Say that it begins, or resumes after so many steps of an epoch. What is needed to resume is stored."""
        if self.saved is None:
            self.store(saved)
        count = batches.steps(rows, settings.train.batch)
        self.sink.emit(
            TrainingStarted(
                settings.name, settings.kind, len(settings.parties), settings.train.epochs, count, PROTECTION, features
            )
        )
        if self.saved is not None:
            self.sink.emit(TrainingResumed(saved.now.epoch, step))

    def close_epoch(self, saved: Saved, meter: Meter, local: dict[str, float]) -> None:
        """Say what the epoch came to, and store it."""
        sent, received = meter.bytes
        self.sink.emit(
            EpochFinished(
                saved.now.epoch - 1,
                meter.seconds,
                local=local,
                bytes_sent=sent,
                bytes_received=received,
                stages=dict(meter.stages),
            )
        )
        self.store(saved)


class Pace:
    """Says now and then how far an epoch is."""

    def __init__(self, run: Run, epoch: int, steps: int, done: int = 0) -> None:
        self._run = run
        self._epoch = epoch
        self._steps = steps
        self._step = done
        self._rows = 0
        self._began = self._said = run.clock()

    def step(self, rows: int, loss: float | None = None) -> None:
        """One step further, with so many rows."""
        self._step += 1
        self._rows += rows
        now = self._run.clock()
        if now - self._said < _BETWEEN and self._step < self._steps:
            return
        speed = self._rows / (now - self._began) if now > self._began else None
        self._said = now
        self._run.sink.emit(Stepped(self._epoch, self._step, self._steps, loss=loss, speed=speed, unit="rows"))
