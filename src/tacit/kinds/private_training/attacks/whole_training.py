"""A whole private training, every step observed: is the canary of a coordinate in the data, or not?

As in the file: the plan's noise with its decay, its sampling probability, its clipping norm with its adaptation, the
file's optimizer, and some of the file's own records. A coin for each canary decides whether it is in the data; the
sampler draws it into some of the steps. The score is the logarithm of the likelihood ratio of all that was released, by
the plan, or by what single steps showed (`single_steps.Learned`). Records that the sampler draws more often than it
should are judged by themselves too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from tacit.audit.attacks.canaries import NOTHING, OWN
from tacit.audit.tradeoff import Columns
from tacit.kinds.private_training.attacks.likelihood import Likelihood, Numbers, sampled
from tacit.kinds.private_training.attacks.observer import Cast, Flags, Seen, Training, observe
from tacit.kinds.private_training.attacks.plan_sizes import with_units
from tacit.kinds.private_training.attacks.single_steps import LENGTH, Learned, balanced, paid, spread
from tacit.kinds.private_training.attacks.truncated import truncated_like
from tacit.training.plan import Plan

_OWN = 8  # records of the file's own, trained on as they are: more would only blur what the observer sees
_CHANCE = 1e-9  # that sizes of Poisson samples are taken for fixed ones, or any record for one that is drawn too often
_FEW = 40  # guesses of each outcome, below which records that are drawn often are not judged by themselves
Pair = tuple[Columns, Columns]


@dataclass(frozen=True, slots=True)
class Work:
    """How many trainings, of how many canaries and at most so many steps."""

    trainings: int
    canaries: int
    steps: int


def training_plan(plan: Plan, units: int, steps: int) -> Plan:
    """The same noise and the same sampling probability for so many records or owners, and at most so many steps."""
    batch = max(1, round(plan.batch / plan.units * units))
    small = with_units(plan, units, batch, epsilon=None, noise_multiplier=plan.initial_noise, physical=None)
    return truncated_like(plan, replace(small, epochs=max(1, min(plan.epochs, steps // small.steps_an_epoch))))


def guess_trainings(
    training: Training, plan: Plan, learned: Learned, work: Work, rng: Generator
) -> tuple[dict[str, Pair], Plan]:
    """Scores of canaries that are not in the data and of those that are, in random order, and the plan of it.

    Of all records; and of those alone that were drawn too often, if there are such.
    """
    spots, owners = spread(training.sizes(), work.canaries, rng)
    canaries = len(spots)
    below = 0 if plan.adapt is None else round(canaries / 2 * plan.adapt.quantile / (1 - plan.adapt.quantile))
    everyone = np.concatenate([spots, np.full(below, NOTHING), np.full(_OWN, OWN)])  # the norm stays where it is
    small = training_plan(plan, len(everyone), work.steps)
    observed: list[tuple[Seen, Flags]] = []
    for coins in balanced(work.trainings, canaries, rng):
        present = np.concatenate([coins, np.ones(below + _OWN, dtype=np.bool_)])
        cast = Cast(
            spots=everyone,
            lengths=np.full(len(everyone), LENGTH),
            present=np.broadcast_to(present, (small.steps, len(everyone))),
            watched=spots,
            fresh=False,
        )
        observed.append((observe(training, small, cast), coins))
    coins = np.array([tossed for _, tossed in observed])
    rates, often = _rates([seen.drawn[:, :canaries] for seen, _ in observed], small)
    found = {}
    everyone_judged = np.ones(canaries, dtype=np.bool_)
    all_of_them, some = f"all {plan.unit}s", f"{plan.unit}s drawn often"
    for name, probability, chosen in ((all_of_them, None, everyone_judged), (some, rates, often)):
        scores = np.array([score(seen, small, learned, owners, probability) for seen, _ in observed])
        pair = scores[~coins & chosen], scores[coins & chosen]
        if chosen.all() or min(map(len, pair)) >= _FEW:
            found[name] = rng.permutation(pair[0])[:, None], rng.permutation(pair[1])[:, None]
    return found, small


def _rates(drawn: Sequence[Flags], plan: Plan) -> tuple[Numbers, Flags]:
    """How often each canary was drawn, as a part of the steps; and which of them beyond chance too often."""
    steps = sum(map(len, drawn))
    counts = np.sum([each.sum(axis=0) for each in drawn], axis=0)
    if plan.sampling == "shuffled":
        return np.ones(len(counts)), np.zeros(len(counts), dtype=np.bool_)
    chance = binom.sf(counts - 1, steps, plan.probability)
    return counts / steps, np.asarray(chance < _CHANCE / len(counts))


def score(
    seen: Seen,
    plan: Plan,
    learned: Learned,
    owners: NDArray[np.int64],
    probability: Numbers | None = None,
) -> Numbers:
    """For each canary the logarithm of the likelihood ratio of a whole training; it is drawn with the plan's
    probability, or one of its own."""
    multipliers = np.array([paid(plan, step) for step in range(plan.steps)])[:, None]
    steps = learned.steps[np.minimum(np.arange(plan.steps), len(learned.steps) - 1)]
    shares = np.minimum(steps[:, None], learned.tensors[owners])
    values = np.nan_to_num(seen.released)
    ratios = Likelihood(plan.noise).ratio(values, multipliers, learned.signals[owners], shares)
    drawn: Numbers | float = plan.probability if probability is None else probability
    if fixed(seen, plan):
        drawn = seen.drawn[:, : len(owners)].astype(np.float64)
    return np.asarray(sampled(ratios, drawn).sum(axis=0))


def fixed(seen: Seen, plan: Plan) -> bool:
    """Whether samples differ less in size than Poisson samples do, beyond chance.

    The observer knows whom else the sampler drew. If sizes are fixed, that tells him whether the canary was drawn.
    """
    if plan.sampling == "shuffled":
        return True
    spread_of = plan.units * plan.probability * (1 - plan.probability)
    off = seen.drawn.sum(axis=1) - plan.units * plan.probability
    return spread_of > 1 and bool(chi2.cdf(np.square(off).sum() / spread_of, len(off)) < _CHANCE)
