"""Work on several processes, for what holds the interpreter lock.

    with Processes(workers) as processes:
        for result in processes.map(function, chunks):      # in order; a few chunks ahead, never all of them
            ...
    pool = Pool(workers, start, *given)                     # an executor whose processes run start(*given) first

With one worker `Processes` runs everything here, in the caller's thread. Processes are started fresh (spawn), not
forked: a fork would copy the locks of other threads. They do not import the script that is running, as processes of
`multiprocessing` do, so it needs no `if __name__ == "__main__":`. Only where something of the script itself is given to
them, such as a task that it defines, they import it, and then it does need one.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import runpy
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType, TracebackType
from typing import Any, TypeVar

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
_AHEAD = 2  # chunks for each worker that are under way
_starting = threading.Lock()
_failed: Exception | None = None  # of a worker process: why it could not start


class Processes:
    """A pool of processes that lives as long as its `with` block. Functions and chunks must be picklable."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"workers must be 1 or more, got {workers}")
        self._workers = workers
        self._pool: Pool | None = None

    def __enter__(self) -> Processes:
        if self._workers > 1:
            self._pool = Pool(self._workers)
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


class Pool(ProcessPoolExecutor):
    """An executor of fresh processes, each of which runs `start(*given)` first and ends with this process.

    An error of `start` is raised by what is submitted, not as a broken pool.
    """

    def __init__(self, workers: int, start: Callable[..., object] | None = None, *given: Any) -> None:
        refuse_while_imported()
        super().__init__(workers, _Fresh(), _begin, (_running(), pickle.dumps((start, given))))

    def submit(self, function: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        return super().submit(_call, function, *args, **kwargs)


def refuse_while_imported() -> None:
    """Raise RuntimeError in a worker process that imports the script for something of its own."""
    if isinstance(main := sys.modules.get("__main__"), _Script) and main.is_imported_now:
        raise RuntimeError(
            "the script defines something that its worker processes need, so each of them imports it: put what the "
            'script does under `if __name__ == "__main__":`, or what it defines into a module of its own'
        )


class _FreshProcess(SpawnProcess):
    def start(self) -> None:
        with _hidden():
            super().start()


class _Fresh(SpawnContext):
    Process = _FreshProcess


@contextmanager
def _hidden() -> Iterator[None]:
    """Without the script: multiprocessing has a new process import the one that it finds."""
    with _starting:
        script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


def _running() -> tuple[str | None, str | None]:
    """The script that is running: the name of its module if it was started by `-m`, and its path."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return (None if spec is None else spec.name), getattr(main, "__file__", None)


def _begin(script: tuple[str | None, str | None], pickled: bytes) -> None:
    """The first call in a worker process."""
    global _failed
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.modules["__main__"] = sys.modules["__mp_main__"] = _Script(*script)
    try:
        start, given = pickle.loads(pickled)  # noqa: S301 of this program's own making
        if start is not None:
            start(*given)
    except Exception as error:
        _failed = error


def _call(function: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Result:
    if _failed is not None:
        raise _failed
    return function(*args, **kwargs)


def _end_with_parent() -> None:
    """A worker must not outlive a run that was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Script(ModuleType):
    """The script, in a worker process: run for its definitions when the first of them is asked for."""

    is_imported_now = False

    def __init__(self, name: str | None, path: str | None) -> None:
        super().__init__("__main__")
        self.__file__ = path
        self.__spec__ = None if name is None else ModuleSpec(name, None)
        self._imported = False

    def __getattr__(self, name: str) -> Any:
        if not self._imported and not name.startswith("__") and (self.__spec__ or self.__file__):
            self._imported = self.is_imported_now = True
            try:
                self.__dict__.update(self._run())
            finally:
                self.is_imported_now = False
            return getattr(self, name)
        raise AttributeError(f"module '__main__' has no attribute {name!r}")

    def _run(self) -> dict[str, Any]:
        if self.__spec__ is not None:
            return runpy.run_module(self.__spec__.name, run_name="__mp_main__", alter_sys=True)
        return runpy.run_path(str(self.__file__), run_name="__mp_main__")
