"""The rows that all parties have, in their common order.

common_rows     by private set intersection, for one party
common_here     if all tables are in this process: for an audit, which plays all parties
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.align.intersection import align
from tacit.channel import Channel
from tacit.events import Aligned, Sink


def common_rows(
    channels: Mapping[str, Channel], name: str, lead: str, ids: Sequence[str], sink: Sink, *, workers: int = 1
) -> NDArray[np.int64]:
    """The numbers of this party's rows that all have; the sink is told how many there are."""
    start = time.perf_counter()
    found = align(channels, name, lead, ids, workers=workers)
    sink.emit(Aligned(found.own, found.common, time.perf_counter() - start))
    return found.rows


def common_here(ids: Mapping[str, Sequence[str]], lead: str) -> dict[str, NDArray[np.int64]]:
    """Where each party has the rows that all have, in the order of `lead`."""
    places = {name: {identity: row for row, identity in enumerate(own)} for name, own in ids.items()}
    common = [each for each in ids[lead] if all(each in own for own in places.values())]
    return {name: np.array([own[each] for each in common], dtype=np.int64) for name, own in places.items()}
