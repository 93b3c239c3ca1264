"""Where simulated clients train: in this process, or on a pool of processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor

from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork, Task
from tacit.kinds.horizontal.tasks import load as tasks

_task: Task | None = None  # of a worker process


def _start_worker(settings: Settings) -> None:
    global _task
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    _task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)


def _end_with(parent: int) -> None:
    """A worker must not outlive a run that was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _fit(client: int, model: Arrays, work: FitWork) -> Fitted:
    if _task is None:
        raise RuntimeError("this worker process was not started with a task")
    return _task.fit(client, model, work)


class Trainer:
    """`fit` of a task, for one client after another. With workers, those that are expected next train ahead."""

    def __init__(self, settings: Settings, task: Task) -> None:
        self._settings = settings
        self._task = task
        self._workers = settings.simulation.workers
        self._pool: ProcessPoolExecutor | None = None
        if self._workers:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._workers, context, _start_worker, (settings,))
        self._expected: deque[int] = deque()
        self._ahead: dict[int, Future[Fitted]] = {}

    def expect(self, clients: list[int]) -> None:
        """The clients that will train next, in this order."""
        self._expected = deque(clients)
        self._ahead = {}

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        if self._pool is None:
            return self._task.fit(client, model, work)
        while self._expected and (client not in self._ahead or len(self._ahead) <= 2 * self._workers):
            ahead = self._expected.popleft()
            self._ahead[ahead] = self._pool.submit(_fit, ahead, model, work.of(ahead))
        started = self._ahead.pop(client, None) or self._pool.submit(_fit, client, model, work)
        return started.result()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
