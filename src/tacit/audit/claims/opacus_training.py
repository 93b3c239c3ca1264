"""A claim of an Opacus training: its optimizer and its loader, run as they are (`tacit audit --opacus`).

The function takes no arguments and returns a dictionary:

    model, optimizer, loader    as `make_private` returned them
    loss            a function of outputs and targets; with ghost clipping the criterion that `make_private` returned
    epochs          of the training; 1 unless it is given
    engine          the PrivacyEngine: the claim is what its accountant says of all steps, unless --epsilon is given

*Optimizer*: steps of the training are taken with and without one record, the canary, whose gradient is clipped; every
other record is the same. The score is the projection of the noised gradient on the canary's, so that clipping, noise
and their scale are measured together: the ratio mu of one record's influence to the noise.
*Loader*: batches of indices are drawn and compared with Poisson samples (`batch_sampling`).
*Measured ε*: of all steps, composed from the two. It is a bound for an attacker who sees every noised gradient, which
is what the accountant's ε is about.

The learning rate is 0 meanwhile, so that the weights stay as they are; nothing of the engine's history is kept.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.audit.bounds import corrected
from tacit.audit.claims.batch_sampling import Sampling, observe
from tacit.audit.claims.returned import keyed
from tacit.audit.claims.samples import Effort, Measured, measure
from tacit.audit.claims.shuffling import fixed_mu, shuffled_at_least
from tacit.audit.claims.verdict import ClaimAudit, Recomputed, Row
from tacit.audit.finding import LowerBound
from tacit.dp.accounting import Ledger
from tacit.dp.claim import Claim
from tacit.dp.gaussian import gaussian_epsilon
from tacit.dp.release import GaussianEvent, check_delta, check_epsilon

_KEYS = ("model", "optimizer", "loader", "loss")
_OPTIONAL = ("epochs", "engine")
_OTHERS = 8  # records of every step, apart from the canary
_CANDIDATES = 4  # records that may be the canary
_SCALES = (1.0, 10.0, 100.0, 1000.0)  # of the canary's input: until its gradient is clipped
_ENOUGH = 0.98  # of the clipping norm
_MOST_EPOCHS = 10**6
_DISCRETISED = 0.01  # of ε: the accountant rounds up by less, and a lower bound must not


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """What the function of `--opacus` returned."""

    model: Any
    optimizer: Any
    loader: Any
    loss: Callable[[Any, Any], Any]
    epochs: int = 1
    engine: Any = None

    def __post_init__(self) -> None:
        lacking = [name for name in ("noise_multiplier", "max_grad_norm", "step") if not hasattr(self.optimizer, name)]
        if lacking:
            raise ValueError(
                f"optimizer is a {type(self.optimizer).__name__} without {', '.join(lacking)}: give the one that "
                "make_private returned"
            )
        if getattr(self.loader, "batch_sampler", None) is None or not hasattr(self.loader.dataset, "__len__"):
            raise ValueError(
                "loader has no batch_sampler over a data set with a length: its batches cannot be observed"
            )
        loss: object = self.loss
        if not callable(loss) or not hasattr(self.model, "parameters"):
            raise ValueError("model must be a module and loss a function of outputs and targets")
        epochs: object = self.epochs
        if isinstance(epochs, bool) or not (isinstance(epochs, int) and 1 <= epochs <= _MOST_EPOCHS):
            raise ValueError(f"epochs must be a whole number of at least 1, got {self.epochs!r}")
        if self.engine is not None and not hasattr(getattr(self.engine, "accountant", None), "history"):
            raise ValueError(f"engine is a {type(self.engine).__name__} without an accountant: give the PrivacyEngine")

    @classmethod
    def of(cls, made: object) -> Training:
        given = keyed(made, _KEYS, _OPTIONAL)
        return cls(**given)

    @property
    def steps(self) -> int:
        return self.epochs * len(self.loader)

    @property
    def records(self) -> int:
        return len(self.loader.dataset)


def audit_training(
    made: Training, *, subject: str, epsilon: float | None, delta: float, confidence: float, effort: Effort
) -> ClaimAudit:
    """Compare the ε of a training with its parameters, its noised gradients and its batches."""
    delta = check_delta(delta)
    with warnings.catch_warnings(), _undisturbed(made):
        warnings.simplefilter("ignore")  # Opacus and torch warn in every step
        steps = _Steps(made)
        rate, claimed = _stated(made, steps, delta)
        each = corrected(confidence, 2)
        sampling = observe(made.loader.batch_sampler, made.records, _sample_rate(made, rate), each)
        seen = measure(
            lambda: steps.score(canary=False),
            lambda: steps.score(canary=True),
            epsilon=math.inf,
            delta=delta,
            gaussian=True,
            confidence=each,
            effort=effort,
        )
    if epsilon is None and claimed is None:
        raise ValueError("the claim is not known: give --epsilon, or return the engine too")
    claim = Claim(check_epsilon(claimed if epsilon is None else epsilon), delta, "record", "add-remove")
    found = _measured(made, seen, sampling, delta, confidence)
    broken = (f"the loader does not draw Poisson samples: {'; '.join(sampling.departures)}",)
    row = Row(claim, _recomputed(made, sampling, rate, delta), (found,), broken if sampling.departures else ())
    said_by = "the engine's accountant" if epsilon is None else "--epsilon, --delta"
    facts, said = _facts(made, steps, seen, sampling, rate), _warnings(steps, seen, sampling, rate)
    return ClaimAudit(subject, said_by, (row,), confidence, facts, said, _NOT_TESTED)


_NOT_TESTED = (
    "the loop of the training: whether it takes all batches from this loader and all steps with this optimizer",
    "noise and clipping norms that change during the training",
    "models other than the one at the start, and what is published in addition to the gradients, such as losses",
)


@contextmanager
def _undisturbed(made: Training) -> Iterator[None]:
    """Weights and the engine's history are afterwards what they were."""
    import torch

    threads = torch.get_num_threads()
    rates = [group.get("lr") for group in made.optimizer.param_groups]
    hook, multiplier = getattr(made.optimizer, "step_hook", None), made.optimizer.noise_multiplier
    history = None if made.engine is None else copy.deepcopy(made.engine.accountant.history)
    try:
        torch.set_num_threads(1)  # steps of a few records: more threads only wait for each other
        for group in made.optimizer.param_groups:
            group["lr"] = 0.0
        yield
    finally:
        torch.set_num_threads(threads)
        for group, rate in zip(made.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        made.optimizer.step_hook, made.optimizer.noise_multiplier = hook, multiplier
        made.optimizer.zero_grad()
        if history is not None:
            made.engine.accountant.history = history


class _Steps:
    """Steps of the optimizer on the same few records, with the canary and without it."""

    def __init__(self, made: Training) -> None:
        self._made = made
        made.model.train()
        self._hook, made.optimizer.step_hook = getattr(made.optimizer, "step_hook", None), None
        inputs, targets = _some_records(made)
        many = min(_CANDIDATES, len(inputs))
        kept = slice(many, many + _OTHERS) if len(inputs) > many else slice(0, 0)
        self._others = inputs[kept], targets[kept]
        self._with = self._others
        self.direction, self.influence = None, 0.0
        self._choose(inputs[:many], targets[:many])

    def _choose(self, inputs: Any, targets: Any) -> None:
        """Take the record, and scale its input, so that its clipped gradient is as long as it can be."""
        import torch

        made, best = self._made, None
        multiplier, made.optimizer.noise_multiplier = made.optimizer.noise_multiplier, 0.0
        without = self.gradient(self._others) if len(self._others[0]) else None
        for scale in _SCALES if inputs.is_floating_point() else _SCALES[:1]:
            for place in range(len(inputs)):
                record = inputs[place : place + 1] * scale if scale != 1 else inputs[place : place + 1]
                batch = torch.cat([self._others[0], record]), torch.cat([self._others[1], targets[place : place + 1]])
                moved = self.gradient(batch) - (0 if without is None else without)
                length = float(moved.norm())
                if math.isfinite(length) and (best is None or length > best[0]):
                    best = length, moved, batch
            if best is not None and best[0] >= _ENOUGH * self.unit:
                break
        made.optimizer.noise_multiplier = multiplier
        if best is None or best[0] == 0:
            raise ValueError("no record changes the gradient: is the loss a function of the model's outputs?")
        self.influence, self.direction, self._with = best[0] / self.unit, best[1] / best[0], best[2]

    @property
    def unit(self) -> float:
        """What one clipped record adds to the gradient at the most: the clipping norm over the divisor."""
        optimizer = self._made.optimizer
        mean = getattr(optimizer, "loss_reduction", "mean") == "mean"
        return float(optimizer.max_grad_norm) / (float(optimizer.expected_batch_size) if mean else 1.0)

    def gradient(self, batch: tuple[Any, Any]) -> Any:
        """The noised gradient of one step, as one vector."""
        import torch

        made = self._made
        made.optimizer.zero_grad()
        made.loss(made.model(batch[0]), batch[1]).backward()
        made.optimizer.step()
        parts = [
            p.grad.reshape(-1) for group in made.optimizer.param_groups for p in group["params"] if p.requires_grad
        ]
        return torch.cat(parts).detach().double()

    def score(self, *, canary: bool) -> np.ndarray[Any, Any]:
        """The gradient along the canary's, in clipping norms."""
        noised = self.gradient(self._with if canary else self._others)
        return np.array([float(noised @ self.direction) / self.unit])

    def accounted(self) -> None:
        """One step that the engine's accountant sees."""
        self._made.optimizer.step_hook = self._hook
        self.gradient(self._with)
        self._made.optimizer.step_hook = None


def _some_records(made: Training) -> tuple[Any, Any]:
    """Inputs and targets of the first records, as the loader puts them together."""
    import torch

    wanted = min(made.records, _CANDIDATES + _OTHERS)
    if wanted < 2:
        raise ValueError(f"the data set has {made.records} records: at least 2 are needed")
    batch = made.loader.collate_fn([made.loader.dataset[place] for place in range(wanted)])
    if not (
        isinstance(batch, list | tuple) and len(batch) == 2 and all(isinstance(each, torch.Tensor) for each in batch)
    ):
        raise ValueError("a batch of the loader must be a tensor of inputs and a tensor of targets")
    device = next(made.model.parameters()).device
    return batch[0].to(device), batch[1].to(device)


def _stated(made: Training, steps: _Steps, delta: float) -> tuple[float, float | None]:
    """The sampling rate that the accountant uses, and the ε that it gives for all steps."""
    if made.engine is None:
        return 1 / len(made.loader), None
    accountant = made.engine.accountant
    accountant.history = []
    steps.accounted()
    if not accountant.history:
        raise ValueError("the engine's accountant sees no steps of this optimizer: give the engine that made it")
    multiplier, rate, _ = accountant.history[-1]
    accountant.history = [(multiplier, rate, made.steps)]
    return float(rate), float(accountant.get_epsilon(delta))


def _sample_rate(made: Training, stated: float) -> float:
    """The sampler's own, if it has one."""
    found = getattr(made.loader.batch_sampler, "sample_rate", stated)
    return float(found) if isinstance(found, int | float) and 0 < found <= 1 else stated


def _composed(multiplier: float, rate: float, steps: int, delta: float) -> float:
    ledger = Ledger("record", "add-remove")
    ledger.spend(GaussianEvent(multiplier, "record", "add-remove", rate), steps)
    return ledger.epsilon(delta)


def _recomputed(made: Training, sampling: Sampling, rate: float, delta: float) -> Recomputed | None:
    sigma = float(made.optimizer.noise_multiplier)
    if sigma <= 0:
        return Recomputed(math.inf, math.inf, "no noise at all")
    if sampling.kind == "poisson":
        epsilon = _composed(sigma, rate, made.steps, delta)
        return Recomputed(epsilon, epsilon, f"σ {sigma:.4g}, sampled with {rate:.4g}, {made.steps:,} steps")
    if sampling.repeats:
        return None
    times = made.epochs if sampling.kind in ("fixed", "shuffled") else made.steps
    epsilon = gaussian_epsilon(sigma / math.sqrt(times), delta)
    at_least = {"fixed": epsilon, "shuffled": shuffled_at_least(1 / sigma, sampling.steps, delta)}.get(
        sampling.kind, 0.0
    )
    how = f"σ {sigma:.4g}, without amplification, each record up to {times:,} times"
    return Recomputed(epsilon, min(at_least, epsilon), how)


def _measured(made: Training, seen: Measured, sampling: Sampling, delta: float, confidence: float) -> LowerBound:
    """A bound for the whole training, from one step and the batches."""
    mu, epsilon = seen.mu or 0.0, 0.0
    if mu > 0 and sampling.kind == "poisson" and sampling.rate_low > 0:
        epsilon = _composed(1 / mu, sampling.rate_low, made.steps, delta) * (1 - _DISCRETISED)
    elif mu > 0 and sampling.kind == "fixed":
        epsilon = gaussian_epsilon(1 / fixed_mu(mu, made.epochs), delta)
    elif mu > 0 and sampling.kind == "shuffled":
        epsilon = shuffled_at_least(mu, sampling.steps, delta)
    method = f"one step, mu at least {mu:.4g} by Clopper-Pearson, composed for {sampling.kind} batches"
    assumes = "the noise is Gaussian and independent in each step"
    return LowerBound(epsilon, delta, confidence, method, seen.samples, assumes)


def _facts(
    made: Training, steps: _Steps, seen: Measured, sampling: Sampling, rate: float
) -> tuple[tuple[str, str], ...]:
    return (
        ("noise multiplier, stated", f"{float(made.optimizer.noise_multiplier):.4g}"),
        ("noise multiplier, measured", f"{seen.sigma:.4g} (± {seen.sigma_error:.2g})"),
        (
            "influence of the canary, in clipping norms",
            f"{steps.influence:.4g} without noise, {seen.distance:.4g} with it",
        ),
        ("steps measured", f"{seen.samples:,}"),
        ("batches of the loader", f"{sampling.kind} ({type(made.loader.batch_sampler).__name__})"),
        ("sampling rate", f"{rate:.4g} stated, {sampling.rate:.4g} measured"),
        ("epochs, steps", f"{made.epochs:,}, {made.steps:,}"),
    )


def _warnings(steps: _Steps, seen: Measured, sampling: Sampling, rate: float) -> tuple[str, ...]:
    said = []
    stated = float(steps._made.optimizer.noise_multiplier)
    if seen.differs_from(stated):
        said.append(f"the noise is {seen.sigma:.4g} clipping norms and not the stated {stated:.4g}")
    if steps.influence > 1.01:
        said.append(f"one record adds {steps.influence:.4g} clipping norms to a gradient: it is not clipped alone")
    if steps.influence < _ENOUGH:
        said.append(
            f"no record was found whose gradient is clipped: the canary's is {steps.influence:.3g} of the norm, so "
            "that the measured ε is too low"
        )
    if sampling.kind == "poisson" and sampling.rate_low > rate:
        said.append(f"records are in a batch with {sampling.rate:.4g}, and {rate:.4g} is accounted for")
    return tuple(said)
