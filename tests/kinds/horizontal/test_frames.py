"""Frames with views of a model in them: what was sent stays as it was, and is in memory once."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from tacit.events import Kept
from tacit.kinds.horizontal.frames import FramedClient, FramedCoordinator, to_client, to_coordinator, to_frame
from tacit.kinds.horizontal.messages import Update, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Fitted
from tacit.wire import bulk_at


class Writes:
    """A task that trains in the same arrays each time, whosever turn it is."""

    def __init__(self, size=1000, arrays=1, dtype=np.float32):
        self.own = {f"w{place}": np.zeros(size, dtype) for place in range(arrays)}

    def model(self):
        return {name: array.copy() for name, array in self.own.items()}

    def fit(self, client, model, work):
        for name, array in self.own.items():
            array[:] = model[name] + client + 1
        return Fitted(self.own, 1, 0.0)


class New:
    """A task that makes new arrays, and keeps none."""

    def __init__(self, size):
        self.size = size

    def model(self):
        return {f"w{place}": np.zeros(self.size, np.float32) for place in range(16)}

    def fit(self, client, model, work):
        return Fitted({name: array + np.float32(1) for name, array in model.items()}, 1, 0.0)


class Spoils(New):
    """A task whose evaluation scales the model in place."""

    def __init__(self):
        super().__init__(10)

    def evaluate(self, model):
        model["w0"] *= 2
        return {"mean": float(model["w0"].mean())}


def whole(frame):
    """A frame as it comes out of a network."""
    return memoryview(bytes(frame))


@pytest.mark.parametrize("arrays", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_task_that_writes_over_its_arrays_does_not_change_what_is_being_sent(arrays, dtype):
    task = Writes(arrays=arrays, dtype=dtype)
    prepared = Prepared.of(Settings(task="x", clients=2, rounds=1), task)
    work = to_frame(Work(0, prepared.layout.flatten(task.model())))
    frames = []
    for client in range(2):
        frames += FramedClient(prepared, client, None).receive(work, 0.0).frames
    updates = [to_coordinator(whole(frame), prepared.layout, None, len(frame)) for frame in frames]
    assert [set(update.vector.tolist()) for update in updates] == [{1.0}, {2.0}]


def test_a_model_that_is_being_sent_does_not_change_when_the_round_is_over():
    prepared = Prepared.of(Settings(task="x", clients=3, rounds=2), Writes(arrays=2))
    star = FramedCoordinator(prepared, Kept(), time.perf_counter)
    opening = star.begin(0.0, range(3))
    assert len({id(frame) for _, frame in opening}) == 1
    before = bytes(opening[0][1])
    for client in range(3):
        star.receive(client, whole(to_frame(Update(0, client, np.full(2000, 7, np.float32), 1, 0.0))), 0.0)
    (_, second), *_ = star.begin(1.0, range(3))
    assert bytes(opening[0][1]) == before
    assert set(to_client(whole(second), prepared.layout, len(second)).model.tolist()) == {7.0}


@pytest.mark.parametrize("clients", [1, 5])
def test_a_round_takes_the_memory_of_a_sum_and_a_model_besides_what_came_in(clients):
    """Counted are the models that numpy and Python ask for; of the sum's two, one update writes to one."""
    size = 1_000_000
    prepared = Prepared.of(Settings(task="x", clients=clients, rounds=1), Writes(size))
    updates = [whole(to_frame(Update(0, client, np.full(size, 1, np.float32), 1, 0.0))) for client in range(clients)]
    tracemalloc.start()
    star = FramedCoordinator(prepared, Kept(), time.perf_counter)
    frames = star.begin(0.0, range(clients))
    opened = tracemalloc.get_traced_memory()[1]
    for client in range(clients):
        star.receive(client, updates[client], 0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert star.coordinator.round == 1
    assert len(frames) == clients
    assert opened < 3.3 * 4 * size  # the model and the sum
    assert peak < 4.7 * 4 * size  # an update whose bytes are not aligned is copied: this one is
    assert star.coordinator.model["w0"].tolist() == [1.0] * size


def test_a_client_has_the_model_what_it_trained_and_its_update_in_memory():
    """The model lies where its frame came in; trained arrays are let go once they are in the update."""
    size, arrays = 62_500, 16
    prepared = Prepared.of(Settings(task="x", clients=1, rounds=1), New(size))
    frame = bytes(to_frame(Work(0, np.zeros(size * arrays, np.float32))))
    at = bulk_at(frame[:100])
    room = np.empty(len(frame) + 16, np.uint8)
    start = -(room.ctypes.data + at) % 16
    work = memoryview(room)[start : start + len(frame)]
    work[:] = frame
    client = FramedClient(prepared, 0, None)
    tracemalloc.start()
    answer = client.receive(work.toreadonly(), 0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(answer.frames[0]) > 4 * size * arrays
    assert peak < 2.2 * 4 * size * arrays  # besides the frame of the model


def test_a_task_that_writes_over_the_model_it_judges_is_refused():
    """The model would be another one than the clients learnt, and than is being sent."""
    with pytest.raises(ValueError, match="read-only"):
        MemoryEngine(Settings(task="x", clients=2, rounds=2), Spoils(), Kept()).run()


def test_numbers_that_come_in_are_read_only_and_aligned_wherever_they_lie():
    layout = Prepared.of(Settings(task="x", clients=2, rounds=1), Writes(dtype=np.float64)).layout
    frame = to_frame(Work(0, np.arange(1000.0)))
    for shift in range(8):
        moved = memoryview(bytes(shift) + frame)[shift:]
        model = to_client(moved, layout, len(frame)).model
        assert model.tolist() == list(range(1000))
        assert model.flags.aligned
        assert not model.flags.writeable
