"""Who takes part in a round."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tacit.kinds.horizontal.settings import Settings

SAMPLING = 10  # what a seed is for: each purpose draws from a stream of its own


def sample(
    settings: Settings, number: int, available: Collection[int] | None = None, excluded: Collection[int] = ()
) -> list[int]:
    """Who is sent the model: of those that are available, and of the others only where these are too few. Never one
    that is excluded: if all others are too few for a round, these are sampled.

    Drawn from the seed, which everybody may know: no amplification is claimed for it.
    """
    draw = np.random.default_rng([settings.seed, SAMPLING, number])
    there = range(settings.clients) if available is None else sorted(available)
    if excluded:
        there = sorted(set(there).difference(excluded))
    if len(there) >= settings.sampled:
        chosen = draw.choice(len(there), settings.sampled, replace=False)
        return sorted(there[place] for place in chosen.tolist())
    absent = sorted(set(range(settings.clients)).difference(there, excluded))
    filled = draw.choice(len(absent), min(len(absent), settings.sampled - len(there)), replace=False)
    return sorted([*there, *(absent[place] for place in filled.tolist())])
