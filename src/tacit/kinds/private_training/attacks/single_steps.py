"""Single steps of a private training: is the canary of a coordinate in this step's sum, or not?

Each step has a canary for each of many coordinates, in every parameter tensor, and a coin decides for each of them. All
are in the sample, so that the claim is that of one step without sampling. The observer knows every coin but the one
that he guesses.

What he learns from the steps with even numbers, and uses in those with odd ones: how far a canary moves its coordinate,
in each tensor; coordinates and steps with less noise than planned; noise that he can predict, from another coordinate,
from what many coordinates share, from another step or from another training. Where he learned of such, he guesses there
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import chi2

from tacit.audit.attacks.canaries import NOTHING, Spots
from tacit.audit.tradeoff import Columns, Curve, gaussian_curve
from tacit.dp.accounting import Ledger
from tacit.dp.release import GaussianEvent
from tacit.kinds.private_training.attacks.likelihood import Likelihood, Numbers
from tacit.kinds.private_training.attacks.observer import Cast, Flags, Seen, Training, observe
from tacit.kinds.private_training.attacks.plan_sizes import with_units
from tacit.kinds.private_training.attacks.truncated import truncated_like
from tacit.training.plan import Plan

LENGTH = 10.0  # of a canary's gradient, in clipping norms
_FEW = 40  # guesses of each outcome, below which a part of them is not judged by itself
_NEAR = 4.0  # variances that count as equally small
_SURE = 7.0  # deviations of a correlation of independent noise
_AGAIN = 64  # steps of another training, to see whether its noise is the same
_COMPARED = 2048  # steps that are compared with each other
_WIDE = 32  # numbers of a step, below which it is not compared with others
_SHARED = 8  # directions of noise that many coordinates share
_CHANCE = 1e-9  # that independent noise is taken for shared noise
_UNSEEN = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """How the training departs from the plan, for the score of a whole training."""

    signals: Numbers  # of each tensor
    tensors: Numbers  # shares of the planned variance in each tensor
    steps: Numbers  # and in each step


@dataclass(frozen=True, slots=True, eq=False)
class Guesses:
    """A score and a coin for each canary of each step that is judged."""

    scores: Numbers  # [steps, canaries]
    coins: Flags
    shares: Numbers  # of the planned variance that is left between the canary and the observer
    owners: NDArray[np.int64]  # the tensor of each canary
    moves: int = 1  # the most that the inner optimizer was stepped for one sample

    def of(self, tensor: int | None, rng: Generator) -> tuple[Columns, Columns]:
        """Scores without and with the canary, of a tensor or of all, in random order; where least noise is left."""
        chosen = np.broadcast_to(self.owners == tensor if tensor is not None else True, self.coins.shape)
        least = self.shares[chosen].min()
        narrow = chosen & (self.shares <= _NEAR * least)
        enough = min((narrow & self.coins).sum(), (narrow & ~self.coins).sum()) >= _FEW
        if enough and self._promises(narrow) > self._promises(chosen):
            chosen = narrow
        without, with_it = self.scores[chosen & ~self.coins], self.scores[chosen & self.coins]
        return rng.permutation(without)[:, None], rng.permutation(with_it)[:, None]

    def _promises(self, chosen: Flags) -> float:
        """How clearly these guesses can show that there is less noise than planned: the more of them, and the less."""
        return float(np.sqrt(chosen.sum()) * (self.shares[chosen] ** -0.5 - 1).mean())


def step_plan(plan: Plan, units: int, steps: int) -> Plan:
    """So many steps on all of so many records or owners, each with the noise of the plan's last step."""
    small = with_units(
        plan,
        units,
        units,
        epochs=steps,
        epsilon=None,
        noise_multiplier=plan.initial_noise if plan.decay is None else plan._level(plan.initial_noise, plan.steps - 1),
        decay=None,
        rate=0.0,
    )
    return truncated_like(plan, small)


def paid(plan: Plan, step: int) -> float:
    """The noise multiplier of a step's sum that the ledger pays for: of the event, less what the noisy count takes."""
    event = plan.event(step)
    if not isinstance(event, GaussianEvent):
        return plan.noise_of(step)
    if plan.adapt is None:
        return event.noise_multiplier
    return float((event.noise_multiplier**-2 - (2 * plan.count_noise * plan.batch) ** -2) ** -0.5)


def step_curve(plan: Plan) -> Curve:
    """What is claimed of the sum of a step on all records."""
    if plan.noise == "gaussian":
        return gaussian_curve(paid(plan, 0))
    ledger = Ledger(plan.unit, plan.relation)
    ledger.spend(plan.event(0))
    return Curve.of(ledger)


def spread(sizes: Mapping[str, int], canaries: int, rng: Generator) -> tuple[Spots, NDArray[np.int64]]:
    """Different coordinates, as many in each tensor as can be, and at least one; and the tensor of each."""
    room = np.array(list(sizes.values()))
    counts = np.ones_like(room)
    while counts.sum() < canaries and (counts < room).any():
        left = int(canaries - counts.sum())
        filled = np.flatnonzero(counts < room)[:left]
        counts[filled] = np.minimum(room[filled], counts[filled] + left // len(filled))
    starts = np.cumsum([0, *room[:-1]])
    spots = [
        start + rng.choice(size, count, replace=False) for start, size, count in zip(starts, room, counts, strict=True)
    ]
    return np.concatenate(spots).astype(np.int64), np.repeat(np.arange(len(room)), counts)


def balanced(tosses: int, canaries: int, rng: Generator) -> Flags:
    """Coins for each canary, of which half show each side: a few tosses too have enough of both."""
    return rng.permuted(np.tile(np.arange(tosses)[:, None] % 2 == 0, (1, canaries)), axis=0)


def guess_steps(
    training: Training, plan: Plan, canaries: int, steps: int, rng: Generator
) -> tuple[Guesses, Learned, Plan]:
    """Observe so many steps, learn from half of them, and guess in the others."""
    sizes = training.sizes()
    spots, owners = spread(sizes, canaries, rng)
    small = step_plan(plan, len(spots) + 1, steps)  # one record without a gradient: no sample is empty
    coins = np.empty((steps, len(spots)), dtype=np.bool_)
    for half in (0, 1):
        coins[half::2] = balanced(len(coins[half::2]), len(spots), rng)
    cast = Cast(
        spots=np.append(spots, NOTHING),
        lengths=np.full(len(spots) + 1, LENGTH),
        present=np.hstack([coins, np.ones((steps, 1), dtype=np.bool_)]),
        watched=_with_company(spots, owners, list(sizes.values())),
        fresh=True,
    )
    seen = observe(training, small, cast)
    nobody = replace(cast, present=cast.present & (cast.spots == NOTHING))
    again = observe(training, replace(small, epochs=min(steps, _AGAIN)), nobody)
    guesses, learned = learn(seen, again, coins, owners, Likelihood(plan.noise), paid(small, 0))
    return guesses, learned, small


def _with_company(spots: Spots, owners: NDArray[np.int64], sizes: Sequence[int]) -> Spots:
    """The canaries' coordinates, and those that may share noise with them: neighbours, half a vector away, and in the
    same place of the next tensor."""
    size, room = sum(sizes), np.array(sizes)
    half, starts, following = (size + 1) // 2, np.cumsum([0, *sizes[:-1]]), (owners + 1) % len(sizes)
    inside = spots - starts[owners]
    alike = (starts[following] + inside)[inside < room[following]]
    near = np.concatenate([spots ^ 1, spots + 1, spots + half, spots - half, alike])
    others = np.setdiff1d(near[(near >= 0) & (near < size)], spots)
    return np.concatenate([spots, others])


def learn(
    seen: Seen, again: Seen, coins: Flags, owners: NDArray[np.int64], likelihood: Likelihood, multiplier: float
) -> tuple[Guesses, Learned]:
    """What the even steps tell, and the scores of the odd ones."""
    values, canaries = np.nan_to_num(seen.released), len(owners)
    even, odd = np.arange(0, len(values), 2), np.arange(1, len(values), 2)
    signals = _signals(values[even, :canaries], coins[even], owners)
    noise = values.copy()
    noise[:, :canaries] -= coins * signals[owners]  # coins of others, and of other steps, are known to him
    coordinates = likelihood.share(noise[even, :canaries], multiplier, axis=0)
    steps = _step_shares(noise, canaries, likelihood, multiplier)
    predicted, left = _predicted(noise, np.nan_to_num(again.released), canaries, even)
    shares = np.minimum(coordinates * left, steps)[odd]
    scores = likelihood.ratio(values[odd, :canaries] - predicted[odd], multiplier, signals[owners], shares)
    tensors = [
        likelihood.share(noise[even][:, :canaries][:, owners == each].ravel(), multiplier, axis=0)
        for each in range(len(signals))
    ]
    learned = Learned(signals, np.array(tensors), likelihood.share(noise, multiplier, axis=1))
    return Guesses(scores, coins[odd], shares, owners, int(seen.moves.max())), learned


def _signals(values: Numbers, coins: Flags, owners: NDArray[np.int64]) -> Numbers:
    """How far a canary of each tensor moves its coordinate: 1 unless it is another distance beyond chance."""
    found = np.ones(owners.max() + 1)
    for tensor in range(len(found)):
        own, tossed = values[:, owners == tensor], coins[:, owners == tensor]
        inside, outside = own[tossed], own[~tossed]
        apart = inside.mean() - outside.mean()
        error = np.sqrt(inside.var() / inside.size + outside.var() / outside.size)
        found[tensor] = apart if abs(apart - 1) > _SURE * error + 1e-3 else 1.0
    return found


def _step_shares(noise: Numbers, canaries: int, likelihood: Likelihood, multiplier: float) -> Numbers:
    """For each step and canary the share of the planned variance, seen in coordinates whose coins are known to him."""
    shares = np.ones((len(noise), canaries))
    columns = np.arange(noise.shape[1])
    for half in (0, 1):
        known = (columns % 2 != half) | (columns >= canaries)
        if known.any():
            shares[:, half::2] = likelihood.share(noise[:, known], multiplier, axis=1)[:, None]
    return shares


def _predicted(noise: Numbers, again: Numbers, canaries: int, even: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """For each step and canary what other numbers say of its noise, and the share of the variance that they leave."""
    predicted, left = np.zeros((len(noise), canaries)), np.ones((len(noise), canaries))
    before = np.full_like(noise, np.nan)
    before[1:] = noise[:-1]
    other = np.full_like(noise, np.nan)
    other[: len(again)] = again[: len(noise)]
    twins = [noise[:, _twins(noise[even], canaries)]] if noise.shape[1] > 1 else []  # a number is no twin of itself
    for company in (before[:, :canaries], other[:, :canaries], *twins):
        known = ~np.isnan(company[:, 0])
        rows = even[known[even]]
        if len(rows) < 12:
            continue
        own, its = noise[rows, :canaries], company[rows]
        power = np.square(its).mean(axis=0) + _UNSEEN
        slope = (own * its).mean(axis=0) / power
        squared = np.clip(slope**2 * power / (np.square(own).mean(axis=0) + _UNSEEN), 0.0, 1.0)
        sure = np.sqrt(squared) > np.tanh(_SURE / np.sqrt(len(rows) - 3))
        better = known[:, None] & sure & (np.maximum(1 - squared, _UNSEEN) < left)
        predicted = np.where(better, slope * np.nan_to_num(company), predicted)
        left = np.where(better, np.maximum(1 - squared, _UNSEEN), left)
    for found, rest in (_repeated(noise, again, canaries), _shared(noise, canaries, even)):
        better = rest < left
        predicted, left = np.where(better, found, predicted), np.where(better, rest, left)
    return predicted, left


def _halves(columns: int, canaries: int) -> list[tuple[slice, Flags]]:
    """Every other canary, and the coordinates by which its noise is judged: those of which all coins are known."""
    places = np.arange(columns)
    return [(slice(half, canaries, 2), (places % 2 != half) | (places >= canaries)) for half in (0, 1)]


def _repeated(noise: Numbers, again: Numbers, canaries: int) -> tuple[Numbers, Numbers]:
    """As `_predicted`, from the step that is most alike, of this training or the other one: how much the coordinates of
    the other half have in common says how much a canary's has."""
    predicted, left = np.zeros((len(noise), canaries)), np.ones((len(noise), canaries))
    compared = min(len(noise), _COMPARED)
    rows = np.concatenate([noise[:compared], again])
    for own, known in _halves(noise.shape[1], canaries):
        width = int(known.sum())
        if width < _WIDE:
            continue
        lengths = np.sqrt(np.square(rows[:, known]).sum(axis=1)) + _UNSEEN
        unit = rows[:, known] / lengths[:, None]
        alike = unit[:compared] @ unit.T
        alike[np.arange(compared), np.arange(compared)] = 0.0
        best = np.abs(alike).argmax(axis=1)
        common = alike[np.arange(compared), best]
        sure = np.abs(common) > np.tanh(_SURE / np.sqrt(width - 3))
        slope = np.where(sure, common * lengths[:compared] / lengths[best], 0.0)
        predicted[:compared, own] = slope[:, None] * rows[best][:, own]
        left[:compared, own] = np.where(sure, np.maximum(1 - common**2, _UNSEEN), 1.0)[:, None]
    return predicted, left


def _shared(noise: Numbers, canaries: int, even: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """As `_predicted`, from what many coordinates share: the directions in which those of the other half vary most."""
    predicted, left = np.zeros((len(noise), canaries)), np.ones((len(noise), canaries))
    for own, known in _halves(noise.shape[1], canaries):
        directions = min(_SHARED, int(known.sum()), len(even) // 12)
        if not directions or not len(range(*own.indices(canaries))):
            continue
        _, _, vectors = np.linalg.svd(noise[even][:, known], full_matrices=False)
        for vector in vectors[:directions]:
            common = noise[:, known] @ vector
            power = np.square(common[even]).mean() + _UNSEEN
            slope = (noise[even, own] * common[even, None]).mean(axis=0) / power
            squared = slope**2 * power / (np.square(noise[even, own]).mean(axis=0) + _UNSEEN)
            if chi2.sf(len(even) * squared.sum(), len(squared)) < _CHANCE:
                predicted[:, own] += common[:, None] * slope
                left[:, own] -= np.minimum(squared, left[0, own] - _UNSEEN)
    return predicted, left


def _twins(noise: Numbers, canaries: int) -> NDArray[np.int64]:
    """For each canary the other coordinate whose noise resembles its own most."""
    unit = noise / (np.sqrt(np.square(noise).sum(axis=0)) + _UNSEEN)
    alike = np.abs(unit[:, :canaries].T @ unit)
    alike[np.arange(canaries), np.arange(canaries)] = -1.0
    return np.asarray(alike.argmax(axis=1))
