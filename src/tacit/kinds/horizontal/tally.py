"""What is told of one round: who lost its place and why, what one client sends, how long each stage took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tacit.events import Cause, ClientBlamed, ClientRefused, SharesDisputed, Sink
from tacit.kinds.horizontal.protections.contract import Loss

_NAMED = 10  # clients in one event


class Tally:
    """The figures of one round. Of each client a thing is said once."""

    def __init__(self, number: int, sink: Sink, clock: Callable[[], float]) -> None:
        self.number = number  # of the round, as events name it
        self.refused: dict[int, str] = {}  # and why
        self.losses: list[Loss] = []
        self.up: Counter[str] = Counter()  # largest message of each kind: what one client sends
        self.down: Counter[str] = Counter()  # and is sent
        self.stages: dict[str, float] = {}
        self._refused_late: dict[int, str] = {}  # for an update of an earlier round
        self._named: set[tuple[str, int]] = set()  # as blamed, or as one that disputes
        self._sink = sink
        self._clock = clock
        self._started = self._marked = clock()

    @property
    def seconds(self) -> float:
        """Since the round began."""
        return self._clock() - self._started

    @property
    def training_loss(self) -> float | None:
        total = sum(weight for _, weight in self.losses)
        return sum(loss * weight for loss, weight in self.losses) / total if total else None

    def mark(self, stage: str) -> None:
        """The time since the last mark was this stage's."""
        now = self._clock()
        self.stages[stage] = self.stages.get(stage, 0.0) + now - self._marked
        self._marked = now

    def refuse(
        self, client: int, reason: str, number: int | None = None, *, late: bool = False, why: Cause = "message"
    ) -> None:
        """A client loses its place: in this round, or late for the earlier round `number`."""
        refused = self._refused_late if late else self.refused
        if client in refused:
            return
        refused[client] = reason[:300]
        self._sink.emit(ClientRefused(self.number if number is None else number, client, refused[client], why))

    def blame(self, client: int, reason: str, excluded: bool) -> None:
        """A client is proved to have broken secure aggregation."""
        if ("blamed", client) not in self._named:
            self._named.add(("blamed", client))
            self._sink.emit(ClientBlamed(self.number, client, reason[:300], excluded))

    def dispute(self, holder: int, owners: Sequence[int]) -> None:
        """A client says without proof that the shares of others were no good."""
        if ("disputes", holder) not in self._named:
            self._named.add(("disputes", holder))
            self._sink.emit(SharesDisputed(self.number, holder, list(owners[:_NAMED]), len(owners)))
