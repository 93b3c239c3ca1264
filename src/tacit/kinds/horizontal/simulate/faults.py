"""What goes wrong in a simulation, on demand: clients that leave, answer late or send nonsense."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np

from tacit.kinds.horizontal.messages import ToCoordinator, Update
from tacit.kinds.horizontal.settings import Bad, Settings
from tacit.secagg.messages import Masked, Reveal, Shares

_FAULTS = 11  # what a seed is for: see `sampling.SAMPLING`
Fate = Literal["stays", "drops", "late"]


def fates_of(settings: Settings, number: int, count: int) -> list[Fate]:
    """What becomes of the clients of a round, in the order in which they were sampled."""
    simulation = settings.simulation
    draws = np.random.default_rng([settings.seed, _FAULTS, number]).random(count)
    kinds: list[Fate] = []
    for draw in draws:
        if draw < simulation.dropout:
            kinds.append("drops")
        else:
            kinds.append("late" if draw < simulation.dropout + simulation.lateness else "stays")
    return kinds


def spoil(settings: Settings, identity: int, answer: ToCoordinator) -> list[ToCoordinator]:
    """The answer of a client that `simulation.bad` makes misbehave; that of any other as it is."""
    kind = _badness(settings, identity)
    if isinstance(answer, Masked) and kind in ("shape", "twice"):
        return [answer, answer] if kind == "twice" else [msgspec.structs.replace(answer, words=answer.words[:-4])]
    if isinstance(answer, Shares) and kind == "commitment":
        return [msgspec.structs.replace(answer, commitment=bytes(len(answer.commitment)))]
    if isinstance(answer, Reveal) and kind == "share":
        return [msgspec.structs.replace(answer, shares=bytes(len(answer.shares)))]
    if kind is None or not isinstance(answer, Update):
        return [answer]
    vector = answer.vector
    match kind:
        case "shape":
            return [replace(answer, vector=vector[:-1])]
        case "nan":
            return [replace(answer, vector=np.where(np.arange(len(vector)) == 0, np.nan, vector).astype(vector.dtype))]
        case "dtype":
            return [replace(answer, vector=vector.astype(np.float16))]
        case "norm":
            return [replace(answer, vector=vector + np.asarray(1e12, dtype=vector.dtype))]
        case "twice":
            return [answer, answer]
        case "commitment" | "share":  # of secure aggregation
            return [answer]


def _badness(settings: Settings, identity: int) -> Bad | None:
    start = 0
    for kind, count in settings.simulation.bad.items():
        if start <= identity < start + count:
            return kind
        start += count
    return None
