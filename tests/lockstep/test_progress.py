"""What a party tells of its training."""

from __future__ import annotations

from tacit.channel import Failed, pair
from tacit.events import EpochFinished, Kept, Noted, Stepped, TrainingResumed, TrainingStarted
from tacit.lockstep.context import Context
from tacit.lockstep.progress import Progress
from tacit.lockstep.traffic import Metered
from tacit.wire import encode

STARTED = TrainingStarted("a", "split", 2, 3, 4, "none", 10)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def made(due, channels=(), **more):
    clock, events = Clock(), Kept()
    return Progress(Context(events, clock), channels, 4, due, **more), clock, events.events


def test_a_training_begins_with_its_notes_and_is_resumed_at_a_step():
    progress, _, events = made(lambda done, seconds: True)
    progress.begin(STARTED, notes=["one", "two"])
    progress.begin(STARTED, resumed=0)
    progress.begin(STARTED, resumed=6)
    assert events == [
        STARTED,
        Noted("one"),
        Noted("two"),
        STARTED,
        TrainingResumed(0, 0),
        STARTED,
        TrainingResumed(1, 2),
    ]


def test_lines_are_told_when_they_are_due_with_the_speed_since_the_last():
    progress, clock, events = made(lambda done, seconds: done == 8 or seconds >= 2, unit="tokens", units=3)
    for done in range(1, 9):
        clock.now += 1
        progress.stepped(done, 10, done / 10)
    assert events == [
        Stepped(0, 2, 4, 0.2, speed=30.0, unit="tokens"),
        Stepped(0, 4, 4, 0.4, speed=30.0, unit="tokens"),
        Stepped(1, 2, 4, 0.6, speed=30.0, unit="tokens"),
        Stepped(1, 4, 4, 0.8, speed=30.0, unit="tokens"),
    ]


def test_without_a_clock_there_is_no_speed():
    progress, _, events = made(lambda done, seconds: True)
    progress.stepped(1, 10)
    assert events == [Stepped(0, 1, 4, None, speed=None)]


def test_an_epoch_ends_with_what_it_took_and_the_next_counts_anew():
    channels = [Metered(end) for end in pair()]
    progress, clock, events = made(lambda done, seconds: False, channels)
    sent = len(encode(Failed("x")))
    for epoch in range(2):
        channels[0].send(Failed("x"))
        with progress.stage("waiting"):
            clock.now += 2
        for loss in (1.0, 2.0):
            progress.stepped(1, 5, loss + epoch)
        assert progress.mean_loss == 1.5 + epoch
        progress.finished(epoch, metrics={"auc": 0.5}, local={"loss": 1.0}, epsilon=2.0, delta=0.1)
        assert progress.mean_loss is None
        assert events[-1] == EpochFinished(epoch, 2.0, {"auc": 0.5}, {"loss": 1.0}, 2.0, 0.1, sent, 0, {"waiting": 2.0})
