"""Steps on few records: a canary alone, or among records that oppose it.

The canary has a coordinate in each tensor, and is far above the clipping norm in each of them: where tensors or numbers
are clipped one by one, it counts as often. An empty sample must look like any other. The sum is divided by a number
that does not depend on who came: were it the size of the sample, a record that turns the mean of the others around
would count twice. The clipping norm that adapts to the records must not tell of one of them. One guess a step, by all
that comes out of it.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.kinds.private_training.attacks.likelihood import Likelihood
from tacit.kinds.private_training.attacks.observer import Cast, Seen, Training, observe
from tacit.kinds.private_training.attacks.single_steps import LENGTH, paid, spread, step_plan
from tacit.training.plan import Plan

Columns = NDArray[np.float64]  # a row for each step, a column for each score
_RIDGE = 1e-9


def guess_with_few(
    training: Training, plan: Plan, opposing: int, steps: int, rng: Generator
) -> tuple[Columns, Columns, Plan]:
    """Scores of steps without and with a canary among `opposing` records, in random order.

    Columns: Fisher's discriminant, learned from the first half of the steps; the sum along the canary; for Laplace
    noise the likelihood ratio by the plan; the change of the clipping norm; whether anything came out at all.
    """
    small = step_plan(plan, 1 + opposing, steps)
    spots, _ = spread(training.sizes(), 0, rng)  # one in each tensor
    coins = rng.permutation(np.arange(steps) % 2 == 1)
    cast = Cast(
        spots=np.tile(spots, (1 + opposing, 1)),
        lengths=np.array([-LENGTH] + [LENGTH] * opposing),
        present=np.hstack([coins[:, None], np.ones((steps, opposing), dtype=np.bool_)]),
        watched=spots,
        fresh=True,
    )
    features = _features(observe(training, small, cast), small, opposing)
    without, with_it = features[~coins], features[coins]
    direction = _fisher(without[: len(without) // 2], with_it[: len(with_it) // 2])
    return np.column_stack([without @ direction, without]), np.column_stack([with_it @ direction, with_it]), small


def _features(seen: Seen, plan: Plan, opposing: int) -> Columns:
    silent = seen.silent
    released = np.nan_to_num(seen.released)
    tensors = released.shape[1]
    found = [released.sum(axis=1) / np.sqrt(tensors)]
    if plan.noise == "laplace":  # clipped in L1: a part of the norm is in each tensor
        part = 1 / tensors
        ratios = Likelihood(plan.noise).ratio(released - opposing * part, paid(plan, 0), -part, 1.0)
        found.append(ratios.sum(axis=1))
    moved = np.nan_to_num(np.log(seen.clips[:, 1] / seen.clips[:, 0]))
    return np.column_stack([np.where(silent, 0.0, each) for each in found] + [moved, silent.astype(np.float64)])


def _fisher(without: Columns, with_it: Columns) -> NDArray[np.float64]:
    apart = with_it.mean(axis=0) - without.mean(axis=0)
    within = (np.cov(without.T) + np.cov(with_it.T)) / 2
    scale = np.sqrt(np.square(np.vstack([without, with_it])).mean(axis=0))
    scale[scale == 0] = 1.0
    scaled = within / np.outer(scale, scale) + _RIDGE * np.eye(len(apart))
    return np.asarray(np.linalg.solve(scaled, apart / scale) / scale)
