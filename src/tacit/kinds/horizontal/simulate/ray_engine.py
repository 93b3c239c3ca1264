"""The driver of a federation on Ray: the coordinator, and what goes to which worker.

Without masks, workers take groups of clients from one queue, and the coordinator adds their sums in the order of the
clients, so that the model does not depend on which worker did what. A group whose worker died is done again. Under
masks a client's keys live in one worker for a round: if that dies, its clients have left, and the protocol continues
without them.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from tacit.events import Cause, Noted, Sink
from tacit.kinds.horizontal.client import clipped_words
from tacit.kinds.horizontal.coordinator import Coordinator, Phase
from tacit.kinds.horizontal.frames import to_coordinator, to_frame
from tacit.kinds.horizontal.messages import Outgoing, Update, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.faults import fates_of
from tacit.kinds.horizontal.simulate.memory import signing_keys
from tacit.kinds.horizontal.simulate.ray_worker import Head, Report, Worker
from tacit.kinds.horizontal.sums import group_size
from tacit.kinds.horizontal.task import Arrays, Task
from tacit.ray.cluster import SpreadUnmasking, cluster, ray_module
from tacit.secagg.messages import Inbox, Masked
from tacit.secagg.unmask import Plan, Words

_TRIES = 3  # of a group, before its clients count as gone
_AHEAD = 3  # groups for each worker that may wait for an earlier one
_PATIENCE = 0.5  # seconds between two looks at whether the run is to stop


class RayEngine:
    """A federation of simulated clients on a Ray cluster; see `MemoryEngine`.

    Args:
        started: is told the workers' process ids whenever one is started.
    """

    def __init__(
        self,
        settings: Settings,
        task: Task,
        sink: Sink,
        *,
        clock: Callable[[], float] = time.perf_counter,
        started: Callable[[list[int]], None] = lambda pids: None,
    ) -> None:
        ray_module()
        self._settings = settings
        self._sink = sink
        self._started = started
        self._keys = signing_keys(settings)
        prepared = Prepared.of(settings, task)
        self._classes = prepared.classes
        public = {i: key.public for i, key in self._keys.items()}
        self.coordinator = prepared.coordinator(sink, clock, identities=public, unmasking=self._unmask)
        self._ray: Any = None
        self._unmasking: SpreadUnmasking | None = None
        self._workers: list[Any] = []
        self._now = 0.0
        self._said: set[str] = set()
        self._clipped = self._uploaded = 0  # numbers of updates: those beyond pw_encrypt.clip, and all
        self._should_stop: Callable[[], bool] = lambda: False

    def restore(self, state: dict[str, Any], model: Arrays) -> None:
        """Continue a run that was stopped."""
        self.coordinator.restore(state, model)

    def run(
        self,
        store: Callable[[Coordinator], None] = lambda coordinator: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """All rounds, as the engine in memory does them."""
        self._should_stop = should_stop
        with cluster(self._settings.engine.address, self._settings.engine.workers) as self._ray:
            self._unmasking = SpreadUnmasking(self._ray, self._settings.engine.workers)
            self._made = self._ray.remote(max_restarts=0, scheduling_strategy="SPREAD")(Worker)
            self._shared = self._ray.put((self._settings, sys.path, self._keys))
            self._workers = [self._worker() for _ in range(self._settings.engine.workers)]
            self._tell()
            try:
                self._rounds(store)
            finally:
                for worker in self._workers:
                    self._ray.kill(worker)

    def _rounds(self, store: Callable[[Coordinator], None]) -> None:
        while True:
            outgoing = self.coordinator.begin(self._now)
            store(self.coordinator)
            if self.coordinator.phase is Phase.FINISHED:
                if self._clipped:
                    self._note(clipped_words(self._clipped, self._uploaded))
                return
            first = next(work for _, work in outgoing if isinstance(work, Work))
            head = Head(first.round, first.clip)
            clients = [client for client, _ in outgoing]
            model = self._ray.put(first.model)
            del outgoing, first
            (_Masked if self._settings.masked else _Alone)(self, head, clients, model).run()
            store(self.coordinator)

    # --- what the two kinds of rounds share

    def _unmask(self, words: Words, plan: Plan, edges: list[int]) -> None:
        if self._unmasking is None:
            raise ValueError("sums are opened while the engine runs")
        self._unmasking(words, plan, edges)

    def _worker(self) -> Any:
        return self._made.remote(*self._ray.get(self._shared))

    def _tell(self) -> None:
        self._started(self._ray.get([worker.pid.remote() for worker in self._workers]))

    def replace(self, place: int, error: Exception) -> None:
        """A worker died: another takes its place."""
        self._note(f"a worker of the Ray cluster died ({type(error).__name__}) and was replaced")
        self._workers[place] = self._worker()
        self._tell()

    def _note(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._sink.emit(Noted(text))

    def take(self, report: Report, number: int, total: Any) -> Outgoing:
        """Hand the coordinator what came of some clients."""
        coordinator, answers = self.coordinator, []
        for note in report.notes:
            self._note(note)
        self._clipped += report.clipped
        self._uploaded += len(report.senders) * coordinator.layout.size
        for client, frames in report.frames:
            for frame in frames:
                message = to_coordinator(frame, coordinator.layout, self._classes, len(frame))
                answers += coordinator.receive(client, message, self._now)
        for client, reason, why in report.refused:
            coordinator.refuse(client, reason, why=why)
        if total is not None:
            several = report.together(number, total, masked=self._settings.masked)
            answers += coordinator.receive_together(several, self._now)
        for client, _, _ in report.refused:
            coordinator.left(client)
        return answers

    def next_done(self, running: Iterable[Any]) -> Any:
        """The first of these calls that is over."""
        while True:
            if self._should_stop():
                raise KeyboardInterrupt
            done = self._ray.wait(list(running), num_returns=1, timeout=_PATIENCE)[0]
            if done:
                return done[0]

    def result(self, reference: Any) -> Any:
        """What a call returned. A mistake in the task is raised as it is; `Lost` where its worker died."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except errors.RayError as error:
            raise Lost(str(error)) from error

    def pass_time(self) -> Outgoing:
        """Nobody answers any more: whatever is open runs out of time."""
        self._now += 1e6
        return self.coordinator.tick(self._now)

    @property
    def count(self) -> int:
        return len(self._workers)

    def call(self, place: int, method: str, *arguments: Any, returns: int = 1) -> Any:
        return getattr(self._workers[place], method).options(num_returns=returns).remote(*arguments)


class Lost(Exception):
    """A worker died, and what it was doing with it."""


class _Alone:
    """A round whose updates travel alone."""

    def __init__(self, engine: RayEngine, head: Head, clients: list[int], model: Any) -> None:
        self._engine, self._head, self._model = engine, head, model
        settings = engine._settings
        fates = dict(zip(clients, fates_of(settings, head.round, len(clients)), strict=True))
        self._late = [client for client in clients if fates[client] == "late"]
        staying = [client for client in clients if fates[client] == "stays"]
        self._groups = list(_sliced(staying, group_size(settings)))
        self._queue: deque[int] = deque(range(len(self._groups)))
        self._tries: dict[int, int] = defaultdict(int)
        self._running: dict[Any, tuple[int, int, Any]] = {}  # report -> worker, group, sum
        self._done: dict[int, tuple[Report, Any]] = {}  # groups that wait for an earlier one
        self._idle = list(range(engine.count))

    def run(self) -> None:
        engine, coordinator = self._engine, self._engine.coordinator
        due = 0
        while due < len(self._groups):
            while self._idle and self._queue and self._queue[0] < due + _AHEAD * engine.count:
                self._start(self._idle.pop(), self._queue.popleft())
            while due in self._done:
                due += self._merge(due)
            if due < len(self._groups) and self._running:
                self._finished(engine.next_done(self._running))
        if coordinator.phase is Phase.COLLECTING:
            engine.pass_time()
        nothing = np.empty(0)  # it is refused before it is looked at
        for client in self._late:
            coordinator.receive(client, Update(self._head.round, client, nothing), engine._now)

    def _start(self, place: int, group: int) -> None:
        answered = self._engine.coordinator.answered(self._groups[group])
        report, total = self._engine.call(place, "train", self._head, answered, self._model, returns=2)
        self._running[report] = (place, group, total)

    def _finished(self, reference: Any) -> None:
        place, group, total = self._running.pop(reference)
        try:
            self._done[group] = (self._engine.result(reference), total)
        except Lost as error:
            self._engine.replace(place, error)
            self._again(group)
        self._idle.append(place)

    def _merge(self, group: int) -> int:
        """Take in the group that is due: 1, or 0 where its sum was lost and must be made again."""
        report, total = self._done.pop(group)
        try:
            vector = self._engine.result(total)
        except Lost:
            self._again(group)
            return 0
        self._engine.take(report, self._head.round, vector)
        return 1

    def _again(self, group: int) -> None:
        self._tries[group] += 1
        if self._tries[group] < _TRIES:
            self._queue.appendleft(group)
            return
        gone: list[tuple[int, str, Cause]] = [
            (client, "its worker died, time and again", "left") for client in self._groups[group]
        ]
        self._done[group] = (Report(refused=gone), self._engine._ray.put(None))


class _Masked:
    """A round of secure aggregation."""

    def __init__(self, engine: RayEngine, head: Head, clients: list[int], model: Any) -> None:
        self._engine, self._head, self._model = engine, head, model
        self._size = group_size(engine._settings)
        self._fates = dict(zip(clients, fates_of(engine._settings, head.round, len(clients)), strict=True))
        parts = np.array_split(np.array(clients), engine.count)
        self._members = [part.tolist() for part in parts]  # of each worker
        self._home = {client: place for place, part in enumerate(self._members) for client in part}
        self._late: list[tuple[int, Masked]] = []

    def run(self) -> None:
        engine, coordinator = self._engine, self._engine.coordinator
        calls = [
            (place, engine.call(place, "start", self._head, coordinator.answered(part), self._model), None)
            for place, part in enumerate(self._members)
            if part
        ]
        outgoing = self._collected(calls)
        while coordinator.phase is Phase.COLLECTING:
            if outgoing:
                outgoing = self._collected(list(self._sent(outgoing)))
                continue
            outgoing = engine.pass_time()
            for client, belated in self._late:
                outgoing += coordinator.receive(client, belated, engine._now)
            self._late = []

    def _sent(self, outgoing: Outgoing) -> Iterator[tuple[int, Any, Any]]:
        """Calls to the workers whose clients these messages are for."""
        frames: dict[int, bytes] = {}  # of messages that go to many
        small: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        large: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for client, message in outgoing:
            place, fate = self._home.get(client), self._fates[client]
            if place is None or (isinstance(message, Inbox) and fate == "drops"):
                continue
            if isinstance(message, Inbox) and fate == "late":
                self._late.append((client, Masked(message.session, client, memoryview(b""))))
                continue
            frame = frames.setdefault(id(message), b"") or to_frame(message)
            frames[id(message)] = frame
            (large if isinstance(message, Inbox) else small)[place].append((client, frame))
        for place, messages in small.items():
            yield place, self._engine.call(place, "answer", messages), None
        for place, messages in large.items():
            for some in _sliced(messages, self._size):
                yield place, *self._engine.call(place, "upload", some, returns=2)

    def _collected(self, calls: list[tuple[int, Any, Any]]) -> Outgoing:
        """What the coordinator says to what came of these calls."""
        running = {report: (place, total) for place, report, total in calls}
        calls.clear()
        outgoing: Outgoing = []
        dead: dict[int, Exception] = {}
        while running:
            reference = self._engine.next_done(running)
            place, total = running.pop(reference)
            try:
                report = self._engine.result(reference)
                vector = None if total is None else self._engine.result(total)
            except Lost as error:
                dead[place] = error
                continue
            outgoing += self._engine.take(report, self._head.round, vector)
        for place, cause in dead.items():
            outgoing += self._bury(place, cause)
        return outgoing

    def _bury(self, place: int, error: Exception) -> Outgoing:
        """The keys of a dead worker's clients are gone: they have left, and nobody waits for them."""
        engine = self._engine
        engine.replace(place, error)
        outgoing: Outgoing = []
        for client in self._members[place]:
            if self._home.pop(client, None) is not None:
                outgoing += engine.coordinator.gone(client, engine._now)
        return outgoing


def _sliced(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    left = iter(items)
    while part := list(islice(left, size)):
        yield part
