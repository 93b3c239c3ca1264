"""What a party tells of its training as it goes: lines now and then, and the end of each epoch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from tacit.events import EpochFinished, Noted, Stepped, TrainingResumed, TrainingStarted
from tacit.lockstep.context import Context
from tacit.lockstep.traffic import Meter, Metered

Due = Callable[[int, float], bool]
_NONE: Mapping[str, float] = {}


class Progress:
    """Counts steps, units, bytes and seconds of one party, and tells its sink. Steps are counted through all epochs.

    Args:
        steps: of an epoch.
        due: whether a line is told after so many steps, and so many seconds since the last line.
        unit: of what the speed is told, `units` of them in a record.
    """

    def __init__(
        self,
        context: Context[Any],
        channels: Collection[Metered],
        steps: int,
        due: Due,
        unit: str = "records",
        units: int = 1,
    ) -> None:
        self._sink, self._clock = context.sink, context.clock
        self._channels = channels
        self._steps = steps
        self._due = due
        self._unit, self._units = unit, units
        self._told = 0.0
        self._records = 0
        self._start_epoch()

    def begin(self, started: TrainingStarted, *, resumed: int | None = None, notes: Iterable[str] = ()) -> None:
        """Tell that the training begins, or is resumed after so many steps."""
        self._sink.emit(started)
        for note in notes:
            self._sink.emit(Noted(note))
        if resumed is not None:
            self._sink.emit(TrainingResumed(resumed // self._steps, resumed % self._steps))
        self._start_epoch()

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Count the seconds inside as those of a stage of the epoch."""
        return self._meter.stage(name)

    def stepped(self, done: int, records: int, loss: float | None = None) -> None:
        """After each step; a line is told when it is due."""
        self._records += records
        if loss is not None:
            self._losses.append(loss)
        now = self._clock()
        if not self._due(done, now - self._told):
            return
        speed = self._records * self._units / (now - self._told) if now > self._told else None
        epoch, step = divmod(done - 1, self._steps)
        self._sink.emit(Stepped(epoch, step + 1, self._steps, loss, speed=speed, unit=self._unit))
        self._told, self._records = now, 0

    @property
    def mean_loss(self) -> float | None:
        """Of this epoch's steps, if this party knows it."""
        return sum(self._losses) / len(self._losses) if self._losses else None

    def finished(
        self,
        epoch: int,
        *,
        metrics: Mapping[str, float] = _NONE,
        local: Mapping[str, float] = _NONE,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> None:
        """At the end of an epoch, which is counted from 0."""
        seconds, (sent, received), stages = self._meter.seconds, self._meter.bytes, self._meter.stages
        self._sink.emit(
            EpochFinished(epoch, seconds, dict(metrics), dict(local), epsilon, delta, sent, received, dict(stages))
        )
        self._start_epoch()

    def _start_epoch(self) -> None:
        self._meter = Meter(self._channels, self._clock)
        self._told = self._clock()
        self._records = 0
        self._losses: list[float] = []
