"""One plan ties the sampler, the noise and the accountant of a private training together.

    plan = Plan(records=len(data), batch=256, epochs=10, epsilon=3, delta=1e-5)
    plan.noise_multiplier, plan.steps, plan.epsilon_after(step)
    model, optimizer, loader = plan.attach(model, optimizer, data)      # then the ordinary loop

A step takes a Poisson sample: each record by itself, with probability batch / records. Its clipped gradient sum gets
noise of `noise_multiplier` times the clipping norm and is divided by `batch`, the expected size, whatever came.
The event of a step is known before training, and so is what the whole training costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tacit.dp.accounting import Budget, Ledger, check_count
from tacit.dp.calibration import noise_multiplier
from tacit.dp.gaussian import least
from tacit.dp.pricing import Method
from tacit.dp.release import Event, GaussianEvent, PureEvent, check_choice, check_delta, check_positive
from tacit.dp.schedules import ClipAdaptation, Decay, NoiseDecay

Noise = Literal["gaussian", "laplace"]
Tier = Literal["fast", "secure"]
Sampling = Literal["poisson", "shuffled"]
LEVELS = 32  # of a noise that decays: each is a line of the ledger


@dataclass(frozen=True)
class Plan:
    """How a training goes, and what it costs.

    Args:
        records: in the private data.
        batch: the expected size of a sample.
        epochs: each of about records / batch steps.
        epsilon: what the whole training may cost at `delta`; or give `noise_multiplier`, noise over clipping norm.
        clip: the norm to which each record's gradient is clipped.
        adapt: how the clipping norm follows the gradients; the noisy share of unclipped records is paid for.
        count_noise: of that share, as a part of the expected batch.
        decay, rate: how the noise falls over the steps; it begins at `noise_multiplier`.
        noise: `laplace` clips in L1 and is for small models.
        tier: `fast` draws continuous noise from torch's generator, `secure` discrete noise from a cryptographic one.
        sampling: `shuffled` cuts a permutation into batches, and is accounted without amplification by sampling.
        physical: the most records that are in memory at once; larger samples are added up piece by piece.
    """

    records: int
    batch: int
    epochs: int
    epsilon: float | None = None
    delta: float = 1e-5
    noise_multiplier: float | None = None
    clip: float = 1.0
    adapt: ClipAdaptation | None = None
    count_noise: float = 0.05
    decay: Decay | None = None
    rate: float = 0.0
    noise: Noise = "gaussian"
    tier: Tier = "fast"
    sampling: Sampling = "poisson"
    physical: int | None = None

    def __post_init__(self) -> None:
        for name in ("records", "batch", "epochs"):
            check_count(name, getattr(self, name))
        if self.batch > self.records:
            raise ValueError(f"batch is {self.batch}, and there are only {self.records} records: lower it")
        check_delta(self.delta)
        check_positive("clip", self.clip)
        check_choice("noise", self.noise, Noise)
        check_choice("tier", self.tier, Tier)
        check_choice("sampling", self.sampling, Sampling)
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise ValueError("give either epsilon, what the training may cost, or noise_multiplier")
        if self.noise == "laplace" and (self.adapt or self.decay or self.sampling == "poisson"):
            raise ValueError("laplace noise goes with sampling: shuffled, and without adapt and decay")
        if self.adapt is not None and self.noise_of(0) is None:
            raise ValueError("adapt: the noise of the count alone exceeds the budget: raise count_noise")
        if self.physical is not None:
            check_count("physical", self.physical)

    @property
    def probability(self) -> float:
        """With which each record is in a sample."""
        return self.batch / self.records if self.sampling == "poisson" else 1.0

    @property
    def steps_an_epoch(self) -> int:
        return max(1, round(self.records / self.batch))

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_an_epoch

    @cached_property
    def initial_noise(self) -> float:
        """Noise over sensitivity at the first step: as given, or the least that keeps the training within epsilon."""
        if self.noise_multiplier is not None:
            return check_positive("noise_multiplier", self.noise_multiplier)
        epsilon = check_positive("epsilon", self.epsilon)
        if self.noise == "laplace":
            return self.epochs / epsilon
        if self.decay is None and self.sampling == "poisson":
            return noise_multiplier(epsilon, self.delta, steps=self.steps, sampling_probability=self.probability)

        def meets(initial: float) -> bool:
            return self._ledger(initial, self.steps).epsilon(self.delta, self.method) <= epsilon

        return least(meets, 1e-4)

    @property
    def method(self) -> Method:
        """How the training is priced. A noise of many levels by RDP: their distributions take minutes to compose."""
        return "rdp" if self.decay is not None else "pld"

    def noise_of(self, step: int) -> float | None:
        """Noise of the gradients over the clipping norm at `step`: what the count leaves of the whole."""
        whole = self._level(self.initial_noise, step)
        if self.adapt is None:
            return whole
        # Source: Andrew et al. 2021, Theorem 1: the centred count has sensitivity 1/2.
        left = whole**-2 - (2 * self.count_noise * self.batch) ** -2
        return None if left <= 0 else left**-0.5

    def event(self, step: int) -> Event:
        """What `step` costs."""
        return self._event(self._level(self.initial_noise, step))

    def ledger(self, steps: int = 0) -> Ledger:
        """In which so many steps are paid; with a budget where `epsilon` was given."""
        ledger = self._ledger(self.initial_noise, steps)
        if self.epsilon is not None:
            ledger.budget = Budget(self.epsilon * (1 + 1e-9), self.delta, self.method)
        return ledger

    def epsilon_after(self, steps: int, method: Method | None = None) -> float:
        return self._ledger(self.initial_noise, steps).epsilon(self.delta, method or self.method)

    def _event(self, multiplier: float) -> Event:
        if self.noise == "laplace":
            return PureEvent(1 / multiplier, "record", "add-remove")
        return GaussianEvent(multiplier, "record", "add-remove", self.probability)

    def _level(self, initial: float, step: int) -> float:
        """The multiplier of a step. A decaying one moves in levels, so that each can be accounted for exactly."""
        if self.decay is None:
            return initial
        width = max(1, math.ceil(self.steps / LEVELS))
        return NoiseDecay(initial, self.decay, self.rate).at(step // width * width)

    def _ledger(self, initial: float, steps: int) -> Ledger:
        ledger = Ledger("record", "add-remove")
        if self.sampling == "shuffled":
            # A record is in one batch of each epoch: its cost is that of one step an epoch, the largest of them.
            done = math.ceil(steps / self.steps_an_epoch)
            for epoch in range(done):
                last = min(steps, (epoch + 1) * self.steps_an_epoch) - 1
                ledger.spend(self._event(self._level(initial, last)))
            return ledger
        levels: dict[float, int] = {}
        for step in range(steps):
            level = self._level(initial, step)
            levels[level] = levels.get(level, 0) + 1
        for level, count in levels.items():
            ledger.spend(self._event(level), count)
        return ledger
