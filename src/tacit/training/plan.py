"""One plan ties the sampler, the noise and the accountant of a private training together.

    plan = Plan(records=len(data), batch=256, epochs=10, epsilon=3, delta=1e-5)
    plan.initial_noise, plan.steps, plan.epsilon_after(steps)
    model, optimizer, loader = plan.attach(model, optimizer, data)      # then the ordinary loop
    Plan(records=len(data), unit="owner", owners=len(set(ids)), records_per_owner=8, batch=64, ...)     # for persons

A step takes a Poisson sample: each record by itself, with probability batch / records. Its clipped gradient sum gets
noise of `noise_multiplier` times the clipping norm and is divided by `batch`, the expected size, whatever came.
With `unit="owner"` the sample is one of owners: each adds the mean gradient of at most `records_per_owner` of its
records, clipped as one. The event of a step is known before training, and so is what the whole training costs. Nothing
here needs torch, but for `attach`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from tacit.dp.accounting import Budget, Ledger, check_count
from tacit.dp.calibration import least_noise
from tacit.dp.mechanisms import laplace_event
from tacit.dp.pricing import Method
from tacit.dp.release import Event, GaussianEvent, Relation, check_choice, check_delta, check_positive, number
from tacit.dp.schedules import ClipAdaptation, Decay, NoiseDecay
from tacit.training.levels import Levels
from tacit.training.truncation import log2_exceeding, smallest_size

if TYPE_CHECKING:
    from torch import nn, optim

    from tacit.training.monitor import Monitor
    from tacit.training.optimizer import PrivateOptimizer
    from tacit.training.sampler import Loader

Noise = Literal["gaussian", "laplace"]
Tier = Literal["fast", "secure"]
Sampling = Literal["poisson", "shuffled"]
Clipping = Literal["flat", "automatic", "per_layer"]
Level = Literal["record", "owner"]
M = TypeVar("M", bound="nn.Module")

TOLERANCE = 1 + 1e-9  # of a budget: what was calibrated to an epsilon meets it
_UNIFORM_BITS = 53  # of the numbers that a sample is drawn with
# For each step: the tail of floating-point noise of up to 2^46 numbers; exact noise, and samples that are too large.
LOG2_SLACK = {"fast": -200.0, "secure": -250.0}


@dataclass(frozen=True)
class Plan:
    """How a training goes, and what it costs.

    Args:
        records: in the private data. Their number is taken to be public.
        batch: the expected size of a sample.
        epochs: each of about records / batch steps.
        epsilon: what the whole training may cost at `delta`; or give `noise_multiplier`, noise over clipping norm.
        clip: the norm to which each record's gradient is clipped.
        clipping: `automatic` brings nearly all gradients to that norm, `per_layer` clips each layer: `clip_factors`.
        adapt: how the clipping norm follows the gradients; the noisy share of unclipped records is paid for.
        count_noise: of that share, as a part of the expected batch.
        decay, rate: how the noise falls over the steps; it begins at `noise_multiplier`.
        noise: `laplace` clips in L1 and is for small models; it is drawn exactly in both tiers.
        tier: `fast` draws floating-point noise, `secure` exact integers on a grid; see `sums`.
        sampling: `shuffled` cuts a permutation into batches, and is accounted without amplification by sampling.
        physical: the most records that are in memory at once; larger samples are added up piece by piece.
        truncate: samples of more records are cut to so many at random, and all others are filled up with records that
            count nothing, so that all batches have one size. That a sample is cut is paid for as slack.
        unit: whom the guarantee is for: each `record`, or each `owner` of records, with all that it has.
        owners: how many there are, for unit="owner". Their number is then public, and `batch` counts owners.
        records_per_owner: of an owner in a sample at most so many records take part, drawn anew for each step.

    Guarantee: (epsilon_after(steps), delta) for the models after each step together; for units added or removed
    under Poisson sampling, for units whose gradient is taken out under shuffled batches.
    Assumes: nobody who sees a model knows who was in a sample; the number of units is public.
    Why drawing records anew is free: given the owners in a sample, the records of each are drawn by themselves, from
    its own. Take any outcome of the draws of all other owners: the two sums differ by what the one owner adds, at most
    `clip` whatever was drawn of it. The price of a mixture of such pairs is at most that of the worst one.
    Source: McMahan, Ramage, Talwar, Zhang 2018, section 2: users are sampled, and the update of each is clipped.
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
    clipping: Clipping = "flat"
    truncate: int | None = None
    unit: Level = "record"
    owners: int | None = None
    records_per_owner: int | None = None
    method: ClassVar[Method] = "pld"  # by which the training is priced

    def __post_init__(self) -> None:
        for name in ("records", "batch", "epochs"):
            check_count(name, getattr(self, name))
        self._check_unit()
        if self.batch > self.units:
            raise ValueError(f"batch is {self.batch}, and there are only {self.units} {self.unit}s: lower it")
        if self.physical is not None:
            check_count("physical", self.physical)
        check_delta(self.delta)
        for name in ("clip", "count_noise"):
            check_positive(name, getattr(self, name))
        check_choice("noise", self.noise, Noise)
        check_choice("tier", self.tier, Tier)
        check_choice("sampling", self.sampling, Sampling)
        check_choice("clipping", self.clipping, Clipping)
        self._check_noise()
        self._check_clipping()
        if self.truncate is not None:
            self._check_truncation(self.truncate)

    def _check_unit(self) -> None:
        check_choice("unit", self.unit, Level)
        given = {name: getattr(self, name) for name in ("owners", "records_per_owner")}
        if self.unit == "record":
            for name, value in given.items():
                if value is not None:
                    raise ValueError(f"{name} is {value!r} for unit='record': take unit='owner', or leave it out")
            return
        for name, value in given.items():
            if value is None:
                raise ValueError(f"unit is 'owner': give {name} too")
            check_count(name, value)
        if self.units > self.records:
            raise ValueError(f"owners is {self.owners}, and there are only {self.records} records: an owner has one")
        if self.truncate is not None:
            raise ValueError("truncate is for samples of records: leave it out for unit='owner'")
        if self.physical is not None and self.physical < given["records_per_owner"]:
            raise ValueError(
                f"physical is {self.physical}, an owner has up to {self.records_per_owner} records in a sample, which "
                "are clipped together: raise physical, or lower records_per_owner"
            )

    def _check_clipping(self) -> None:
        if self.clipping != "flat" and self.adapt is not None:
            raise ValueError(
                f"adapt moves the norm of flat clipping, clipping is {self.clipping}: leave one of them out"
            )
        if self.clipping == "per_layer" and self.noise == "laplace":
            raise ValueError("per_layer shares a norm in L2, laplace noise is for L1: take clipping='flat'")

    def _check_truncation(self, truncate: int) -> None:
        check_count("truncate", truncate)
        if self.sampling != "poisson" or self.noise != "gaussian":
            raise ValueError("truncate is for poisson samples and gaussian noise, whose price has slack: leave it out")
        if self.physical is not None and truncate % self.physical:
            raise ValueError(
                f"truncate is {truncate} and physical {self.physical}: give a multiple, so that all pieces are alike"
            )
        trials = self.records + 1
        if log2_exceeding(trials, self.probability, truncate) > self.log2_most_cut:
            raise ValueError(
                f"samples exceed truncate={truncate} too often for delta {self.delta:g} over {self.steps} steps: give "
                f"{smallest_size(trials, self.probability, self.log2_most_cut)} or more"
            )

    def _check_noise(self) -> None:
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise ValueError("give either epsilon, what the whole training may cost, or noise_multiplier")
        given = "epsilon" if self.noise_multiplier is None else "noise_multiplier"
        check_positive(given, getattr(self, given))
        if self.decay is None and number(self.rate) != 0:
            raise ValueError(f"rate is {self.rate!r} without a decay: choose one of Time, Step and Exp")
        if self.decay is not None and number(self.rate) == 0:
            raise ValueError(f"decay is {self.decay!r} with a rate of 0, so that nothing falls: give a rate")
        if self.decay is not None:
            _ = self._levels.ratio  # refuses a rate that cannot be accounted for
        if self.adapt is not None and not isinstance(self.adapt, ClipAdaptation):
            raise ValueError(
                f"adapt is {self.adapt!r}: give a tacit.dp.schedules.ClipAdaptation('Linear' or 'Geometric', quantile, "
                "rate)"
            )
        if self.noise == "laplace" and self.adapt is not None:
            raise ValueError("adapt is for gaussian noise, which the noisy count shares its price with: leave it out")

    # --- how it goes

    @property
    def units(self) -> int:
        """How many records or owners samples are drawn from."""
        return self.records if self.owners is None else self.owners

    @property
    def probability(self) -> float:
        """With which each unit is in a sample: a multiple of 2^-53, so that it is drawn as exactly what it is."""
        if self.sampling == "shuffled":
            return 1.0
        return math.ldexp(max(1, (self.batch << _UNIFORM_BITS) // self.units), -_UNIFORM_BITS)

    @property
    def log2_most_cut(self) -> float:
        """log2 of how often `truncate` may cut a sample: what that costs is at most a fourth of delta."""
        dearest = 10.0 if self.epsilon is None else min(50.0, self.epsilon)
        return math.log2(self.delta / (4 * self.steps * (1 + math.exp(dearest))))

    @property
    def relation(self) -> Relation:
        """A permutation is cut for a number of units, which therefore stays: one of them is taken out."""
        return "add-remove" if self.sampling == "poisson" else "zero-out"

    @property
    def steps_an_epoch(self) -> int:
        return max(1, round(self.units / self.batch))

    @property
    def steps(self) -> int:
        return self.epochs * self.steps_an_epoch

    @property
    def drawn(self) -> Tier:
        """The tier of the noise that is drawn: Laplace noise has no fast one."""
        return "secure" if self.noise == "laplace" else self.tier

    @cached_property
    def initial_noise(self) -> float:
        """Noise over sensitivity at the first step: as given, or the least that keeps the training within epsilon."""
        if self.noise_multiplier is not None:
            return float(self.noise_multiplier)
        assert self.epsilon is not None  # noqa: S101  # checked when it was made
        return least_noise(
            lambda initial: self._ledger(initial, self.steps).epsilon(self.delta, self.method), float(self.epsilon)
        )

    def noise_of(self, step: int) -> float:
        """Noise of the gradients over the clipping norm at `step`: what the count leaves of the whole.

        Source: Andrew, Thakkar, McMahan, Ramaswamy 2021, Theorem 1: the centred count has sensitivity 1/2.
        """
        whole = self._level(self.initial_noise, step)
        if self.adapt is None:
            return whole
        left = whole**-2 - (2 * self.count_noise * self.batch) ** -2
        if left <= 0:
            raise ValueError(
                f"the noisy count alone costs more than noise of {whole:.4g} allows: raise count_noise above "
                f"{whole / (2 * self.batch):.4g}, now {self.count_noise:g}"
            )
        return float(left**-0.5)

    # --- what it costs

    def event(self, step: int) -> Event:
        """What `step` costs a unit that is in its sample, or may be."""
        return self._event(self._level(self.initial_noise, step))

    def ledger(self, steps: int = 0) -> Ledger:
        """In which the first `steps` steps are paid; with a budget if `epsilon` was given."""
        ledger = self._ledger(self.initial_noise, steps)
        if self.epsilon is not None:
            ledger.budget = Budget(self.epsilon * TOLERANCE, self.delta, self.method)
        return ledger

    def epsilon_after(self, steps: int, method: Method | None = None) -> float:
        """What the first `steps` steps cost at `delta`."""
        if steps == 0:
            return 0.0
        return self._ledger(self.initial_noise, steps).epsilon(self.delta, method or self.method)

    def summary(self) -> dict[str, Any]:
        """The plan in plain numbers and words, for a report."""
        return {
            **{key: value for key, value in asdict(self).items() if value is not None},
            "steps": self.steps,
            "probability": self.probability,
            "noise_multiplier": self.initial_noise,
            "epsilon": self.epsilon_after(self.steps),
            "method": self.method,
            "tier": self.drawn,
            "relation": self.relation,
        }

    def _event(self, multiplier: float) -> Event:
        if self.noise == "gaussian":
            return GaussianEvent(multiplier, self.unit, self.relation, self.probability, log2_slack=self._log2_slack)
        return laplace_event(multiplier, self.probability, unit=self.unit, relation=self.relation)

    @property
    def _log2_slack(self) -> float:
        """What was drawn is so far from Gaussian noise on a Poisson sample: the tier's tail, and samples that were cut.

        A mechanism that cuts samples gives another result than one that does not with at most the probability that a
        sample of the larger neighbour is cut.
        """
        if self.truncate is None:
            return LOG2_SLACK[self.tier]
        cut = log2_exceeding(self.records + 1, self.probability, self.truncate)
        return float(np.logaddexp2(LOG2_SLACK[self.tier], cut))

    @property
    def _levels(self) -> Levels:
        assert self.decay is not None  # noqa: S101
        return Levels(NoiseDecay(1.0, self.decay, self.rate), self.steps)

    def _level(self, initial: float, step: int) -> float:
        return initial if self.decay is None else initial * self._levels.at(step)

    def _ledger(self, initial: float, steps: int) -> Ledger:
        ledger = Ledger(self.unit, self.relation)
        if self.sampling == "shuffled":
            # A unit is in one batch of each epoch: it pays one step an epoch, at most the one with the least noise.
            for end in range(self.steps_an_epoch, steps + self.steps_an_epoch, self.steps_an_epoch):
                ledger.spend(self._event(self._level(initial, min(steps, end) - 1)))
        elif steps:
            counts = [(1.0, steps)] if self.decay is None else self._levels.counts(steps)
            for level, count in counts:
                ledger.spend(self._event(initial * level), count)
        return ledger

    # --- training

    def attach(
        self,
        model: M,
        optimizer: optim.Optimizer | Sequence[optim.Optimizer],
        data: Any,
        *,
        reduction: Literal["mean", "sum"] = "mean",
        loss_scale: float = 1.0,
        monitors: Sequence[Monitor] = (),
        check: bool = True,
        memory: int = 512 << 20,
        owners: Any = None,
        distributed: bool = False,
    ) -> tuple[M, PrivateOptimizer, Loader]:
        """The same model, an optimizer whose steps are private, and a loader of samples. See `attach.attach`."""
        from tacit.training import require_torch

        require_torch()
        from tacit.training.attach import attach

        return attach(
            self, model, optimizer, data, reduction=reduction, loss_scale=loss_scale, monitors=monitors, check=check,
            memory=memory, owners=owners, distributed=distributed,
        )  # fmt: skip
