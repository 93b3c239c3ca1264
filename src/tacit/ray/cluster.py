"""A Ray cluster: starting or finding one, and spreading the unmasking of a sum over it.

A local cluster is this machine's: no dashboard, no usage statistics. Ray listens on all interfaces whatever it is told,
so a local one takes calls only with a token that is made here and known to its own processes.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice, pairwise
from typing import Any

import numpy as np

from tacit.crypto.prg import page_columns
from tacit.secagg.unmask import Plan, Words, unmask, unmask_ranges

_LARGEST_RANGE = 1 << 20  # columns of one task: small enough that workers end together, and the driver holds little
_WORTHWHILE = 1 << 28  # words times masks, about 0.1 s: below it tasks cost more than they save
_OBJECT_STORE = 1 << 30  # bytes, of a local cluster


def ray_module() -> Any:
    """Ray itself, with telemetry off; ValueError that names the extra if it is not installed."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # as it will be; otherwise a warning says so
    try:
        import ray
    except ModuleNotFoundError:
        raise ValueError(
            "engine.kind is ray, which is not installed: pip install 'tacit-learning[ray]', or take engine.kind: memory"
        ) from None
    return ray


@contextmanager
def cluster(address: str, workers: int) -> Iterator[Any]:
    """Ray, connected. A cluster that was started here ends with the block; any other is left as it is."""
    ray = ray_module()
    if ray.is_initialized():  # it belongs to the caller that did that
        yield ray
        return
    local = address == "local"
    with _token(ray) if local else nullcontext():
        try:
            with _own_signals():
                ray.init(address, **_QUIET, **(_local(workers) if local else {}))
            yield ray
        except ConnectionError as error:
            raise ValueError(f"engine.address is {address}, and no Ray cluster is there: {error}") from None
        finally:
            ray.shutdown()


_QUIET = {"log_to_driver": False, "logging_level": "ERROR"}


def _local(workers: int) -> dict[str, Any]:
    """How a cluster of this machine is started."""
    return {
        "num_cpus": workers,
        "object_store_memory": _OBJECT_STORE,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
    }


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep who is told of SIGINT and SIGTERM: Ray, when it starts, would end the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _token(ray: Any) -> Iterator[None]:
    """Have the cluster that is started in this block take calls with a new token only."""
    before = {name: os.environ.get(name) for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    _read_again(ray)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        _read_again(ray)


def _read_again(ray: Any) -> None:
    """Ray reads these variables when it is imported; these two calls, of the one version that we take, do it again."""
    ray._raylet.Config.initialize("")
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


def _masks(plan: Plan, first_column: int, columns: int, dtype: str) -> Words:
    """What is to be added to a range of the sum."""
    words: Words = np.zeros(columns, dtype=dtype)
    unmask(words, plan, first_column=first_column)
    return words


def column_ranges(columns: int, edges: list[int], parts: int, dtype: Any) -> list[tuple[int, int]]:
    """Ranges of columns for tasks: at least `parts`, none too large to hold, cut where pages of the masks begin."""
    page = page_columns(dtype)
    turns = -(-columns // (parts * _LARGEST_RANGE))  # as many for each worker, so that none waits for another
    size = -(-columns // (parts * turns * page)) * page
    cuts = sorted({*edges, *range(0, columns, size)})
    return list(pairwise(cuts))


class SpreadUnmasking:
    """Takes the masks off a sum by tasks, one thread each. The plan travels, the sum does not.

    Guarantee: the same bits as `unmask`: the mask of a range of columns is that range of the mask, and a ring adds
        exactly.
    Assumes: the cluster is the coordinator's own: a plan opens the sum.
    """

    def __init__(self, ray: Any, workers: int) -> None:
        self._ray = ray
        self._workers = workers
        self._task = ray.remote(num_cpus=1, max_retries=3, scheduling_strategy="SPREAD")(_masks)

    def __call__(self, words: Words, plan: Plan, edges: list[int]) -> None:
        if len(words) * len(plan) < _WORTHWHILE:
            unmask_ranges(words, plan, edges)
            return
        ray, dtype = self._ray, words.dtype.str
        shared = ray.put(plan)
        waiting = iter(column_ranges(len(words), edges, self._workers, words.dtype))
        running: dict[Any, int] = {}

        def start(count: int) -> None:
            for first, last in islice(waiting, count):
                running[self._task.remote(shared, first, last - first, dtype)] = first

        start(self._workers)
        while running:
            (done,), _ = ray.wait(list(running), num_returns=1)
            first = running.pop(done)
            start(1)  # before anything else: a worker is idle
            masks = ray.get(done)
            part = words[first : first + len(masks)]
            np.add(part, masks, out=part)
