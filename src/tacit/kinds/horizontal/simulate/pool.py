"""Where simulated clients train: in this process, or on a pool of processes."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future

from tacit.crypto.processes import Pool
from tacit.kinds.horizontal.kept_arrays import KeptArrays
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork, Task
from tacit.kinds.horizontal.tasks import load as tasks

_task: Task | None = None  # of a worker process


def _start_worker(settings: Settings) -> None:
    global _task
    _task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)


def _fit(client: int, model: Arrays, work: FitWork) -> Fitted:
    if _task is None:
        raise RuntimeError("this worker process was not started with a task")
    return _task.fit(client, model, work)


class Trainer:
    """`fit` of a task, for one client after another. With workers, those that are expected next train ahead.

    What a client keeps comes from `kept` and goes back there, whichever process trains it.
    """

    def __init__(self, settings: Settings, task: Task, kept: KeptArrays) -> None:
        self._settings = settings
        self._task = task
        self._kept = kept
        self._workers = settings.simulation.workers
        self._pool = Pool(self._workers, _start_worker, settings) if self._workers else None
        self._expected: deque[int] = deque()
        self._ahead: dict[int, Future[Fitted]] = {}

    def expect(self, clients: list[int]) -> None:
        """The clients that will train next, in this order."""
        self._expected = deque(clients)
        self._ahead = {}

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        if self._pool is None:
            return self._kept.around(self._task.fit)(client, model, work)
        while self._expected and (client not in self._ahead or len(self._ahead) <= 2 * self._workers):
            ahead = self._expected.popleft()
            self._ahead[ahead] = self._submit(self._pool, ahead, model, work.of(ahead))
        started = self._ahead.pop(client, None) or self._submit(self._pool, client, model, work)
        fitted = started.result()
        self._kept.take(client, fitted)
        return fitted

    def _submit(self, pool: Pool, client: int, model: Arrays, work: FitWork) -> Future[Fitted]:
        return pool.submit(_fit, client, model, work.keeping(self._kept.of(client)))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
