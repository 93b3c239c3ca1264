"""A whole private training, every step observed: is the canary of a coordinate in the data, or not?

As in the file: the plan's noise with its decay, its sampling probability, its clipping norm with its adaptation, the
file's optimizer, and some of the file's own records. A coin for each canary decides whether it is in the data; the
sampler draws it into some of the steps. The score is the logarithm of the likelihood ratio of all that was released, by
the plan, or by what single steps showed (`single_steps.Learned`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import chi2

from tacit.audit.bounds import Scores
from tacit.audit.canaries import NOTHING, OWN
from tacit.audit.likelihood import Likelihood, Numbers, sampled
from tacit.audit.observer import Cast, Seen, Training, observe
from tacit.audit.single_steps import LENGTH, Learned, paid, spread
from tacit.training.plan import Plan

_OWN = 8  # records of the file's own, trained on as they are: more would only blur what the observer sees
_CHANCE = 1e-9  # that sizes of Poisson samples are taken for fixed ones


@dataclass(frozen=True, slots=True)
class Work:
    """How many trainings, of how many canaries and at most so many steps."""

    trainings: int
    canaries: int
    steps: int


def training_plan(plan: Plan, records: int, steps: int) -> Plan:
    """The same noise and the same sampling probability for so many records, and at most so many steps."""
    batch = max(1, round(plan.batch / plan.records * records))
    small = replace(
        plan,
        records=records,
        batch=batch,
        epsilon=None,
        noise_multiplier=plan.initial_noise,
        count_noise=plan.count_noise * plan.batch / batch,
        physical=None,
    )
    return replace(small, epochs=max(1, min(plan.epochs, steps // small.steps_an_epoch)))


def guess_trainings(
    training: Training, plan: Plan, learned: Learned, work: Work, rng: Generator
) -> tuple[Scores, Scores, Plan]:
    """Scores of canaries that are not in the data and of those that are, in random order, and the plan of it."""
    spots, owners = spread(training.sizes(), work.canaries, rng)
    canaries = len(spots)
    below = 0 if plan.adapt is None else round(canaries / 2 * plan.adapt.quantile / (1 - plan.adapt.quantile))
    everyone = np.concatenate([spots, np.full(below, NOTHING), np.full(_OWN, OWN)])  # the norm stays where it is
    small = training_plan(plan, len(everyone), work.steps)
    found: tuple[list[Numbers], list[Numbers]] = [], []
    for _ in range(work.trainings):
        coins = rng.random(canaries) < 0.5
        present = np.concatenate([coins, np.ones(below + _OWN, dtype=np.bool_)])
        cast = Cast(
            spots=everyone,
            lengths=np.full(len(everyone), LENGTH),
            present=np.broadcast_to(present, (small.steps, len(everyone))),
            watched=spots,
            fresh=False,
        )
        scores = score(observe(training, small, cast), small, learned, owners)
        for outcome, scored in zip(found, (scores[~coins], scores[coins]), strict=True):
            outcome.append(scored)
    without, with_it = (rng.permutation(np.concatenate(each)) for each in found)
    return without, with_it, small


def score(seen: Seen, plan: Plan, learned: Learned, owners: NDArray[np.int64]) -> Numbers:
    """For each canary the logarithm of the likelihood ratio of a whole training."""
    multipliers = np.array([paid(plan, step) for step in range(plan.steps)])[:, None]
    steps = learned.steps[np.minimum(np.arange(plan.steps), len(learned.steps) - 1)]
    shares = np.minimum(steps[:, None], learned.tensors[owners])
    values = np.nan_to_num(seen.released)
    ratios = Likelihood(plan.noise).ratio(values, multipliers, learned.signals[owners], shares)
    drawn = seen.drawn[:, : len(owners)]
    return np.asarray(sampled(ratios, drawn.astype(np.float64) if fixed(seen, plan) else plan.probability).sum(axis=0))


def fixed(seen: Seen, plan: Plan) -> bool:
    """Whether samples differ less in size than Poisson samples do, beyond chance.

    The observer knows whom else the sampler drew. If sizes are fixed, that tells him whether the canary was drawn.
    """
    if plan.sampling == "shuffled":
        return True
    spread_of = plan.records * plan.probability * (1 - plan.probability)
    off = seen.drawn.sum(axis=1) - plan.records * plan.probability
    return spread_of > 1 and bool(chi2.cdf(np.square(off).sum() / spread_of, len(off)) < _CHANCE)
