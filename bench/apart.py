"""A benchmark in a process of its own: one that fails, hangs or leaves processes behind does not end the others.

    result = measured(name, seconds, quick, data, plots, limit=600)     its rows, or Failed, or ModuleNotFoundError

The process begins a session, so that with it all end that it started: when it is done, when its time is over, and when
the process that asked for it is gone, however that ended.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import bench
from bench.measure import Budget, Options, Row


class Failed(Exception):
    """A benchmark came to no result. The message is one sentence."""


def measured(
    name: str, seconds: float, quick: bool, data: Path | None, plots: Path | None, *, limit: float
) -> tuple[Row, ...]:
    """Run one benchmark, which may plan with `seconds` and is ended after `limit`.

    Raises Failed, after its traceback was printed, and ModuleNotFoundError where it needs what is not installed.
    """
    context = multiprocessing.get_context("spawn")  # a fork would have this process's memory and threads
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_live, args=(there, list(bench.__path__), name, seconds, quick, data, plots))
    deadline = time.monotonic() + limit
    process.start()
    there.close()
    try:
        told = wait([here, process.sentinel], max(0.0, deadline - time.monotonic()))
        if not here.poll():
            how = "its process ended" if told else f"it was not done after {limit:.0f} s"
            raise Failed(f"Benchmark {name} has no result: {how}.")
        found = here.recv()  # EOFError: it ended before
    except EOFError:
        raise Failed(f"Benchmark {name} has no result: its process ended.") from None
    finally:
        _end(process)
    if isinstance(found, ModuleNotFoundError):
        raise found
    if isinstance(found, str):
        raise Failed(f"Benchmark {name} failed: {found}")
    rows: tuple[Row, ...] = found
    return rows


def _end(process: BaseProcess) -> None:
    """End the session of a process, unless there is none left in it."""
    if process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()  # in case it had no time to begin a session
    process.join()


def _live(
    pipe: Connection, path: list[str], name: str, seconds: float, quick: bool, data: Path | None, plots: Path | None
) -> None:
    os.setsid()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    bench.__path__ = path
    try:
        run: Callable[[Options], list[Row]] = importlib.import_module(f"bench.{name}").run
        pipe.send(tuple(run(Options(Budget(seconds), quick, data, plots))))
    except ModuleNotFoundError as error:
        pipe.send(ModuleNotFoundError(str(error), name=error.name))
    except BaseException as error:
        traceback.print_exc()
        pipe.send(f"{type(error).__name__}: {error}")
    sys.stdout.flush()
    pipe.close()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)
