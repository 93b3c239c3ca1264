"""A clipping norm that follows the gradients: moved after each step by a noisy count of those below it."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from tacit.dp import mechanisms
from tacit.dp.schedules import ClipAdaptation
from tacit.training.plan import Plan


def next_norm(plan: Plan, adapt: ClipAdaptation, norm: float, below: int, seen: int, rng: Generator) -> float:
    """The clipping norm after `norm`, to which the gradients of `below` of `seen` records, or owners, came up.

    Guarantee: the count, centred so that one of them changes it by 1/2, gets noise of count_noise times the expected
        batch; with the noise of the gradients it costs what one Gaussian of `plan.event` does.
    Source: Andrew, Thakkar, McMahan, Ramaswamy 2021, Theorem 1.
    """
    deviation = plan.count_noise * plan.batch
    centred = np.array([below - seen / 2])
    released = mechanisms.gaussian(centred, sensitivity=0.5, noise_multiplier=2 * deviation, rng=rng)
    return adapt.next(norm, float(released.value[0]) / plan.batch + 0.5)
