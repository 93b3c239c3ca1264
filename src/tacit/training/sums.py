"""How a sum of clipped gradients gets its noise: the tiers.

    Fast        floating-point noise first, in the flat buffer of the engine, and the clipped gradients added on top
    Secure      the sum in float64, then on a grid of integers, plus discrete Gaussian noise from a CSPRNG
    Laplace     each record on a grid by itself, integers summed exactly, plus exact discrete Laplace noise

All leave the noisy sum, divided by `divisor`, in `engine.sum`: a division of its own would read and write all of it
once more. A record's contribution has at most norm `clip` (L1 for Laplace) as a real
number: that is the engine's guarantee, for the gradients that were recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from tacit.dp import mechanisms, noise
from tacit.randomness import secure_rng
from tacit.training.clip_factors import factors, share
from tacit.training.engine import Engine
from tacit.training.margins import unit_roundoff
from tacit.training.noise import Gaussian
from tacit.training.plan import Clipping, Level, Plan
from tacit.training.precision import exactly
from tacit.training.ranks import Alone, OwnPart, part_of
from tacit.training.recorded import Part, widened

_DOUBLE = torch.float64
_TERMS = 1 << 16  # products in one entry of one record's gradient: positions of a sequence or an image
_CANCELLATION = 64.0  # a gradient may be smaller than its terms by this factor before it is clipped harder
_LARGEST_SHARE = 0.25  # of the clipping norm that rounding may take
_LOG2_LARGER_SAMPLE = -256.0  # of the probability that a sample is larger than its bound
_LAPLACE_RESOLUTION_BITS, _ROUNDING_BITS = 10, 13  # as in `mechanisms`: rounding is at most 2^-13 of the sensitivity


class NoiseSource(Protocol):
    """Floating-point noise of the fast tier."""

    def normal(self, flat: Tensor, deviation: float) -> None:
        """Fill `flat` with Gaussian noise of mean 0."""


class NoisySum(Protocol):
    """The sum of one sample's clipped gradients."""

    order: Literal[1, 2]

    def begin(self, clip: float, multiplier: float) -> None:
        """A sample begins; whatever was under way is dropped."""

    def add(self, norms: Tensor, clip: float) -> None:
        """Add the recorded pass, clipped, and forget it."""

    def finish(self, clip: float, multiplier: float) -> None:
        """The sample is whole: leave its noisy sum, divided, in `engine.sum`."""


def noisy_sum(
    plan: Plan,
    engine: Engine,
    source: NoiseSource | None = None,
    rng: Generator | None = None,
    ranks: Alone | None = None,
) -> NoisySum:
    """The tier that `plan` asks for, divided by its batch. `source` and `rng` are for tests: they must be secret."""
    ranks = ranks or Alone()
    if plan.noise == "laplace":
        return Laplace(engine, rng or secure_rng(), plan.batch, plan.clipping, ranks)
    if plan.tier == "secure":
        return Secure(engine, largest_sample(plan), rng or secure_rng(), plan.batch, plan.clipping, plan.unit, ranks)
    own = part_of(ranks, engine.sum.numel())
    if source is None and own.stop > own.start:
        source = Gaussian(own.stop - own.start, engine.sum.dtype)
    return Fast(engine, OwnPart(own, source), plan.batch, plan.clipping, ranks)


class Fast:
    """Guarantee: that of Gaussian noise, were floats real numbers. What rounding reveals is not bounded: see the docs.

    The noise is in the buffer before the first gradient, so that no sum without noise exists.
    """

    order: Literal[1, 2] = 2

    def __init__(
        self,
        engine: Engine,
        source: NoiseSource,
        divisor: float = 1.0,
        clipping: Clipping = "flat",
        ranks: Alone | None = None,
    ) -> None:
        self._engine = engine
        self._ranks = ranks or Alone()
        self._clipping: Clipping = clipping
        self._source = source
        self._divisor = divisor
        self._deviation: float | None = None  # of noise that is not drawn yet

    def begin(self, clip: float, multiplier: float) -> None:
        self._deviation = multiplier * clip / self._divisor

    def add(self, norms: Tensor, clip: float) -> None:
        clipped = factors(self._engine, self._clipping, norms, clip, self._divisor)
        self._draw()
        self._engine.add_clipped(clipped)

    def finish(self, clip: float, multiplier: float) -> None:
        self._draw()  # where nobody was sampled
        self._ranks.add_up(self._engine.sum)

    def _draw(self) -> None:
        """Once a sample, and as late as can be: the buffer is then at hand for the gradients."""
        if self._deviation is not None:
            self._source.normal(self._engine.sum, self._deviation)
            self._deviation = None


class Secure:
    """A sum in float64, rounded to integers, with discrete Gaussian noise.

    Guarantee: that of continuous Gaussian noise with exactly the plan's multiplier, up to a statistical distance of
    2^-250 a step, for the recorded gradients as real numbers.
    Why: let S be the real sum of a sample and T what was computed. Each entry of T is a sum of n products, computed in
    float64 in any order, so it is off by at most γ_n times the sum of their absolute values (Higham 2002, section
    3.1). Over all entries that is ‖T − S‖ ≤ γ_n Σ_i f_i m_i, where m_i bounds the norm of record i's terms without
    cancellation (`Part.reach`). Factors are lowered until f_i m_i ≤ 64 C, and n ≤ B · 2^16, so ‖T − S‖ ≤ γ_n · 64 · B ·
    C =: E. Two neighbouring sums S, S' differ by at most C, so T and T' by at most C + 2E. `mechanisms.gaussian` adds
    what rounding to the grid moves, step · √d, and raises sigma for that whole sensitivity and for the smoothing of a
    discrete Gaussian. A Poisson sample has at most B records but with probability 2^-256, which is in the event's
    slack, as is the distance of the sampled noise (below d · 2^-2000). All of it holds for owners in place of records.
    Assumes: a record's recorded gradient is the same among any other records. Kernels may round it otherwise in a
    batch of another size; that difference is not bounded here.
    """

    order: Literal[1, 2] = 2

    def __init__(
        self,
        engine: Engine,
        largest: int,
        rng: Generator,
        divisor: float = 1.0,
        clipping: Clipping = "flat",
        unit: Level = "record",
        ranks: Alone | None = None,
    ) -> None:
        self._engine = engine
        self._ranks = ranks or Alone()
        self._unit: Level = unit
        self._clipping: Clipping = clipping
        self._rng = rng
        self._divisor = divisor
        self._total = torch.zeros(engine.sum.numel(), dtype=_DOUBLE, device=engine.sum.device)
        self.sensitivity = 1 + 2 * _rounding_share(largest)  # in units of the clipping norm

    def begin(self, clip: float, multiplier: float) -> None:
        self._total.zero_()

    def add(self, norms: Tensor, clip: float) -> None:
        with torch.no_grad(), exactly(self._engine.sum.device.type):
            engine = self._engine
            parts = recorded(engine)
            clipped = real_factors(engine, self._clipping, norms, clip)
            clipped = torch.minimum(clipped, self._most(parts, clip)).expand(len(parts), -1)
            pieces = self._total.split([parameter.numel() for parameter in engine.parameters])
            for part, piece, parameter, own in zip(parts, pieces, engine.parameters, clipped, strict=True):
                if part is not None:
                    widened(part, _DOUBLE).add_to(piece.view(parameter.shape), own)
        self._engine.discard()

    def _most(self, parts: Sequence[Part | None], clip: float) -> Tensor:
        """Factors that keep the terms of a record below 64 C; layer by layer, each below its share of that."""
        if self._clipping != "per_layer":
            return clip * _CANCELLATION / _reach(parts)
        layers = self._engine.layers
        groups = [
            [part for part, own in zip(parts, layers, strict=True) if own == each] for each in range(max(layers) + 1)
        ]
        records = next(part.records for part in parts if part is not None)
        most = [
            share(clip, len(groups)) * _CANCELLATION / _reach(group) if any(group) else self._total.new_ones(records)
            for group in groups
        ]
        return torch.stack(most)[torch.tensor(layers, device=self._total.device)]

    def finish(self, clip: float, multiplier: float) -> None:
        self._ranks.add_up(self._total)
        sums = self._total.cpu().numpy() / clip
        released = mechanisms.gaussian(
            sums, sensitivity=self.sensitivity, noise_multiplier=multiplier, unit=self._unit, rng=self._rng
        )
        self._engine.sum.copy_(torch.from_numpy(released.value * (clip / self._divisor)))
        self._ranks.share(self._engine.sum)
        self._total.zero_()


class Laplace:
    """Each record's clipped gradient on a grid, summed as integers, with discrete Laplace noise.

    Guarantee: 1 / multiplier, pure, for each record in the sample. A record adds an integer vector of L1 norm at most
    1 / step + d / 2 (in units of the clipping norm; each entry is rounded by at most half a step), integers add up
    without rounding, and the noise is sized for just that. No other record changes what it adds.
    Assumes: as for `Secure`, a record's recorded gradient is the same among any other records.
    Source: Ghosh, Roughgarden, Sundararajan 2009, Theorem 2.2.
    """

    order: Literal[1, 2] = 1

    def __init__(
        self,
        engine: Engine,
        rng: Generator,
        divisor: float = 1.0,
        clipping: Clipping = "flat",
        ranks: Alone | None = None,
    ) -> None:
        self._engine = engine
        self._ranks = ranks or Alone()
        self._clipping: Clipping = clipping
        self._rng = rng
        self._divisor = divisor
        self._total = torch.zeros(engine.sum.numel(), dtype=torch.int64, device=engine.sum.device)
        self._bits = 0

    def begin(self, clip: float, multiplier: float) -> None:
        finest = min(multiplier / 2**_LAPLACE_RESOLUTION_BITS, 1 / (self._total.numel() * 2**_ROUNDING_BITS))
        self._bits = math.ceil(-math.log2(finest))
        self._total.zero_()

    def add(self, norms: Tensor, clip: float) -> None:
        with torch.no_grad(), exactly(self._engine.sum.device.type):
            clipped = real_factors(self._engine, self._clipping, norms, clip)
            scale = math.ldexp(1.0, self._bits) / clip
            pieces = self._total.split([parameter.numel() for parameter in self._engine.parameters])
            for part, piece in zip(recorded(self._engine), pieces, strict=True):
                if part is not None:
                    _add_integers(part, clipped, scale, piece)
        self._engine.discard()

    def finish(self, clip: float, multiplier: float) -> None:
        self._ranks.add_up(self._total)
        steps = (1 << self._bits) + -(-self._total.numel() // 2)
        drawn = noise.discrete_laplace(Fraction(1 / multiplier) / steps, self._total.numel(), self._rng)
        values = np.ldexp((self._total.cpu().numpy() + drawn).astype(np.float64), -self._bits)
        self._engine.sum.copy_(torch.from_numpy(values * (clip / self._divisor)))
        self._ranks.share(self._engine.sum)
        self._total.zero_()


def _add_integers(part: Part, factors: Tensor, scale: float, piece: Tensor) -> None:
    """Round each record's scaled gradient and add them up; some records at a time, because rows are large."""
    span = max(1, (1 << 22) // max(1, piece.numel()))
    for start in range(0, part.records, span):
        stop = min(start + span, part.records)
        rows = part.instantiate(start, stop, _DOUBLE) * factors[start:stop, None]
        piece += rows.mul_(scale).round_().to(torch.int64).sum(0)


def recorded(engine: Engine) -> Sequence[Part | None]:
    """The parts of the recorded pass, one for each parameter."""
    return engine._pass.join()


def real_factors(engine: Engine, clipping: Clipping, norms: Tensor, clip: float) -> Tensor:
    """The factors in float64, for the gradients as they were recorded."""
    return engine.whole(factors(engine, clipping, norms, clip).to(_DOUBLE))


def _reach(parts: Sequence[Part | None]) -> Tensor:
    """For each record a bound on the norm of its gradient's terms, as if none cancelled."""
    present = [part.reach() for part in parts if part is not None]
    longest = max(terms for terms, _ in present)
    if longest > _TERMS:
        raise ValueError(
            f"an entry of one gradient adds up {longest} terms, the secure tier bounds the rounding of {_TERMS}"
            ": take shorter sequences, smaller images or fewer records of an owner, or tier='fast'"
        )
    total = torch.stack([reach.to(_DOUBLE).square() for _, reach in present]).sum(0).sqrt_()
    return total.clamp_(min=torch.finfo(_DOUBLE).tiny).mul_(1 + 1e-9)


def _rounding_share(largest: int) -> float:
    """E over C: see `Secure`. A few products more are counted for the factors and the division by C."""
    error = (largest * (_TERMS + 8) + 8) * unit_roundoff(_DOUBLE)
    share = math.inf if error > 0.01 else error / (1 - error) * (_CANCELLATION + 1) * largest
    if share > _LARGEST_SHARE:
        raise ValueError(
            f"samples of up to {largest} records round by more than {_LARGEST_SHARE} of the clipping norm at worst: "
            "take a smaller batch for tier='secure'"
        )
    return share


def largest_sample(plan: Plan) -> int:
    """A number of records, or of owners, that a sample exceeds with probability at most 2^-256.

    Source: Chernoff's bound: P(X >= a n) <= e^(-n KL(a, q)) for a binomial X of n trials with probability q <= a.
    """
    if plan.sampling == "shuffled":
        return -(-plan.units // plan.steps_an_epoch)
    if plan.truncate is not None:
        return plan.truncate
    trials, q = plan.units + 1, plan.probability  # the neighbour may have one more
    low, high = min(trials, math.ceil(q * trials)), trials
    while low < high:
        middle = (low + high) // 2
        if middle == trials or trials * _divergence(middle / trials, q) >= -_LOG2_LARGER_SAMPLE * math.log(2):
            high = middle
        else:
            low = middle + 1
    return low


def _divergence(a: float, q: float) -> float:
    if a <= q:
        return 0.0
    return a * math.log(a / q) + ((1 - a) * math.log((1 - a) / (1 - q)) if a < 1 else 0.0)
