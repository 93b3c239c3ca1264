"""What a party tells of its training as it goes: lines now and then, and the end of each epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tacit.dp.accounting import Ledger
from tacit.events import EpochFinished, Noted, Sink, Stepped, TrainingResumed, TrainingStarted
from tacit.kinds.split.agreement import Counted, Schedule
from tacit.kinds.split.settings import Settings


class Progress:
    """Counts steps, units, bytes and seconds of one party, and tells its sink.

    `ledger` is that of the party's records, where everything that leaves it of them is protected; None otherwise.
    """

    def __init__(
        self,
        sink: Sink,
        settings: Settings,
        schedule: Schedule,
        clock: Callable[[], float],
        channels: Iterable[Counted],
        unit: str = "records",
        units: int = 1,
    ) -> None:
        self._sink = sink
        self._settings = settings
        self._schedule = schedule
        self._clock = clock
        self._channels = tuple(channels)
        self._unit, self._units = unit, units
        self._began = self._told = clock()
        self._records = 0
        self._losses: list[float] = []
        self._bytes = self._counted()

    def begin(self, protection: str, parameters: int, notes: Iterable[str], step: int) -> None:
        settings = self._settings
        parties, epochs = len(settings.parties), settings.train.epochs
        steps = self._schedule.steps
        self._sink.emit(TrainingStarted(settings.name, "split", parties, epochs, steps, protection, parameters))
        for note in notes:
            self._sink.emit(Noted(note))
        if step:
            self._sink.emit(TrainingResumed(step // steps, step % steps))
        self._began = self._told = self._clock()

    def stepped(self, done: int, records: int, loss: float | None = None) -> None:
        """After each step; every few of them a line is told."""
        self._records += records
        if loss is not None:
            self._losses.append(loss)
        if done % self._settings.lines and done != self._schedule.total:
            return
        now = self._clock()
        speed = self._records * self._units / max(now - self._told, 1e-9)
        epoch, step = (done - 1) // self._schedule.steps, (done - 1) % self._schedule.steps + 1
        self._sink.emit(Stepped(epoch, step, self._schedule.steps, loss, speed=speed, unit=self._unit))
        self._told, self._records = now, 0

    def finished(self, done: int, ledger: Ledger | None, metrics: Mapping[str, float]) -> None:
        """At the end of an epoch."""
        if self._settings.simulation.insecure_noise_seed is not None:
            ledger = None  # whoever knows the seed can take the noise off again
        epsilon, delta = (None, None) if ledger is None else spent_epsilon(ledger, self._settings.gradients.delta)
        sent, received = self._counted()
        now = self._clock()
        local = {"loss": sum(self._losses) / len(self._losses)} if self._losses else {}
        self._sink.emit(
            EpochFinished(
                (done - 1) // self._schedule.steps,
                now - self._began,
                dict(metrics),
                local,
                epsilon,
                delta,
                sent - self._bytes[0],
                received - self._bytes[1],
            )
        )
        self._began, self._bytes, self._losses = now, (sent, received), []

    def _counted(self) -> tuple[int, int]:
        return sum(channel.sent for channel in self._channels), sum(channel.received for channel in self._channels)


def spent_epsilon(ledger: Ledger, delta: float) -> tuple[float | None, float | None]:
    """Epsilon and delta of what was spent; None where nothing was promised."""
    if not ledger.lines:
        return None, None
    pure = ledger.pure_epsilon()
    return (pure, 0.0) if pure < float("inf") else (ledger.epsilon(delta), delta)
