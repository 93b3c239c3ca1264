"""One party's Paillier batches as tasks on its own Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tacit.crypto.paillier import Workers

Part = TypeVar("Part")


class RayWorkers(Workers):
    """`Workers` whose batches run on a cluster, `workers` at a time.

    Guarantee: the same results as `Workers`; randomness comes from the operating system where a task runs.
    Assumes: the cluster is the party's own: where the party has a private key, it travels with the tasks.
    """

    def __init__(self, ray: Any, workers: int) -> None:
        """`ray`: connected, as `cluster` gives it."""
        super().__init__(workers)
        self._ray = ray
        self._tasks: dict[Callable[..., object], Any] = {}

    def _map(self, call: Callable[..., Part], arguments: list[tuple[object, ...]]) -> list[Part]:
        if self._closed:
            raise ValueError("these workers are closed: make new ones")
        if call not in self._tasks:
            # Ray does a task again whose process died.
            self._tasks[call] = self._ray.remote(num_cpus=1, max_retries=3, scheduling_strategy="SPREAD")(call)
        task = self._tasks[call]
        found: list[Part] = self._ray.get([task.remote(*each) for each in arguments])
        return found
