"""Work in chunks on several processes, for primitives that hold the interpreter lock.

    with Processes(workers) as processes:
        for result in processes.map(function, chunks):      # in order; a few chunks ahead, never all of them
            ...

With one worker everything runs here, in the caller's thread. Worker processes are started fresh (spawn), not forked:
a fork would copy the locks of other threads. So a script that asks for two or more keeps its main part under
`if __name__ == "__main__":`.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from types import TracebackType
from typing import TypeVar

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
_AHEAD = 2  # chunks for each worker that are under way


class Processes:
    """A pool of processes that lives as long as its `with` block. Functions and chunks must be picklable."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"workers must be 1 or more, got {workers}")
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Processes:
        if self._workers > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._workers, context, _start, (os.getpid(),))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def map(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
        """`function` of each chunk, in order. Chunks are taken as there is room for them."""
        if self._pool is None:
            yield from map(function, chunks)
            return
        under_way: deque[Future[Result]] = deque()
        for chunk in chunks:
            under_way.append(self._pool.submit(function, chunk))
            while under_way and (under_way[0].done() or len(under_way) > _AHEAD * self._workers):
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _start(parent: int) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A worker must not outlive a run that was killed."""
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(1)
    os._exit(1)
