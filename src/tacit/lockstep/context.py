"""What the function of a party needs in addition to its data: whom it tells, what it draws from, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from numpy.random import Generator

from tacit.events import Nowhere, Sink

T = TypeVar("T")
Ledgers = Mapping[str, dict[str, Any]]  # by what they cover, as plain data


def _nothing(what: Any) -> None:
    pass


@dataclass(frozen=True)  # with slots, Python cannot make a `Context[State]()`
class Context(Generic[T]):
    """What the function of a party is given in addition to its data. `T` is what the party keeps of its training.

    Args:
        clock: seconds, for events only.
        rng: where its noise and its keys come from; the operating system by default.
        saved: what was kept of an interrupted training, the latest last; empty if it begins.
        keep: is handed what to keep of the training.
        paid: is handed the ledgers before anything leaves that they pay for.
        spent: the ledgers that `paid` was handed last. What was sent after the last `keep` was sent, and is not
            forgotten with the steps.
    """

    sink: Sink = field(default_factory=Nowhere)
    clock: Callable[[], float] = lambda: 0.0
    rng: Generator | None = None
    saved: tuple[T, ...] = ()
    keep: Callable[[T], None] = _nothing
    paid: Callable[[Ledgers], None] = _nothing
    spent: Ledgers = field(default_factory=dict)

    @property
    def latest(self) -> T | None:
        """What was kept last."""
        return self.saved[-1] if self.saved else None
