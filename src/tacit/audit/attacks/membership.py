"""Membership inference: was this record in the training set?

    run_trials(train, records)      train models on random halves of a pool of records
    loss_scores(trials)             a record whose loss is small was probably there
    reference_scores(trials)        its loss, compared with its loss in models that saw it and in models that did not
    audit_membership(off, on, ...)  each attack, without and with a protection

Some of the models are targets, the others references, and no model is both: where each takes its turn as the target,
the same pairs count twice and intervals come out too narrow. Each record is in each training set by a fair coin, so
that the scores of one target also give a lower bound on epsilon (`one_run`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks.one_run import expected_limit, one_run_bound
from tacit.audit.finding import Cost, Finding, LowerBound, Score
from tacit.dp.claim import Claim

__all__ = [
    "Trials",
    "area_under_curve",
    "audit_membership",
    "loss_scores",
    "reference_scores",
    "run_trials",
    "true_positives",
]

Indices = NDArray[np.int64]
Losses = NDArray[np.float64]
Predict = Callable[[Indices], Losses]  # the loss of each of these records
Train = Callable[[Indices, int], Predict]  # trains on these records, with a seed
Scores = NDArray[np.float64]  # [model, record], large for a member
_CONFIDENCE = 0.95
_RESAMPLES = 400
_LARGEST_LOSS = 30.0
_FALSE_POSITIVES = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """Models trained on random halves of a pool. The first `targets` are attacked, the others are references."""

    took_part: NDArray[np.bool_]  # [model, record]
    losses: Losses  # [model, record]
    targets: int

    @property
    def members(self) -> NDArray[np.bool_]:
        """Who took part in the targets."""
        return self.took_part[: self.targets]


def run_trials(train: Train, records: int, *, models: int = 16, seed: int = 0) -> Trials:
    """Train `models` models, each record of the pool being in each training set with probability a half."""
    if models < 4 or records < 20:
        raise ValueError(f"need at least 4 models and 20 records, got {models} and {records}")
    took_part = np.random.default_rng([seed, 7]).random((models, records)) < 0.5
    everybody = np.arange(records)
    losses = np.stack([train(np.flatnonzero(row), seed + i)(everybody) for i, row in enumerate(took_part)])
    if losses.shape != took_part.shape or not np.isfinite(losses).all():
        raise ValueError("predict must return one finite loss for each record")
    return Trials(took_part, losses, models // 2)


def loss_scores(trials: Trials) -> Scores:
    """Members have smaller losses.

    Source: Yeom, Giacomelli, Fredrikson, Jha 2018, section 3.
    """
    return -trials.losses[: trials.targets]


def reference_scores(trials: Trials, mode: Literal["online", "offline"] = "online") -> Scores:
    """The likelihood of a record's confidence under models that saw it, over that under models that did not.

    Confidences are scaled to log(p / (1 - p)), which are nearly normal, with one variance for all records as there
    are few models. `offline` uses only models that did not see the record.
    Source: Carlini, Chien, Nasr et al. 2022, algorithm 1 and section VI.
    """
    confidence = _scaled(trials.losses)
    target, reference = confidence[: trials.targets], confidence[trials.targets :]
    inside = trials.took_part[trials.targets :]
    mean_out, spread_out = _moments(reference, ~inside)
    out = (target - mean_out) / spread_out
    if mode == "offline":
        return np.asarray(out)
    mean_in, spread_in = _moments(reference, inside)
    within = (target - mean_in) / spread_in
    return np.asarray((out**2 - within**2) / 2 - np.log(spread_in / spread_out))


def _scaled(losses: Losses) -> Losses:
    """log(p / (1 - p)) where the loss is -log p."""
    bounded = np.clip(losses, 1e-12, _LARGEST_LOSS)
    return np.asarray(-bounded - np.log(-np.expm1(-bounded)))


def _moments(values: Losses, where: NDArray[np.bool_]) -> tuple[Losses, float]:
    """The mean for each record, and one standard deviation for all. A record without any model has the mean of all."""
    counts = where.sum(axis=0)
    overall = float(values[where].mean())
    means = np.where(counts > 0, np.where(where, values, 0).sum(axis=0) / np.maximum(counts, 1), overall)
    spread = float(np.sqrt(np.square(values - means)[where].sum() / max(1, where.sum() - (counts > 0).sum())))
    return means, max(spread, 1e-9)


def area_under_curve(scores: Scores, took_part: NDArray[np.bool_]) -> float:
    """The probability that a member scores higher than another record: 0.5 without information."""
    members, others = np.sort(scores[took_part]), np.sort(scores[~took_part])
    below = np.searchsorted(others, members, side="left") + np.searchsorted(others, members, side="right")
    return float(below.mean() / 2 / len(others))


def true_positives(scores: Scores, took_part: NDArray[np.bool_], false_positives: float = _FALSE_POSITIVES) -> float:
    """The part of members above the threshold that lets so many of the others pass."""
    others = np.sort(scores[~took_part])
    allowed = int(false_positives * len(others))
    return float((scores[took_part] > others[len(others) - 1 - allowed]).mean())


def curve_score(scores: Scores, took_part: NDArray[np.bool_]) -> Score:
    return _bootstrapped("AUC of membership", area_under_curve, scores, took_part, 0.5)


def low_error_score(scores: Scores, took_part: NDArray[np.bool_]) -> Score:
    return _bootstrapped("members found at 1% false positives", true_positives, scores, took_part, _FALSE_POSITIVES)


def _bootstrapped(
    metric: str,
    measure: Callable[[Scores, NDArray[np.bool_]], float],
    scores: Scores,
    took_part: NDArray[np.bool_],
    baseline: float,
) -> Score:
    """With an interval from resampling both models and records: the scores of each depend on one another.

    Source: Owen 2007, The pigeonhole bootstrap: such intervals are rather too wide than too narrow.
    """
    rng = np.random.default_rng(0)
    values = []
    for _ in range(_RESAMPLES):
        drawn = np.ix_(*(rng.integers(0, size, size) for size in scores.shape))
        values.append(measure(scores[drawn], took_part[drawn]))
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    found = measure(scores, took_part)
    return Score(metric, found, float(low), float(high), _CONFIDENCE, baseline, took_part.size)


_ATTACKS: dict[str, Callable[[Trials], Scores]] = {
    "loss threshold": loss_scores,
    "reference models": reference_scores,
    "reference models that did not see the record": lambda trials: reference_scores(trials, "offline"),
}


def audit_membership(
    off: Trials,
    on: Trials,
    *,
    protection: str,
    proved: Claim | None = None,
    cost: Cost | None = None,
    confidence: float = 0.95,
) -> list[Finding]:
    """Each attack against training without and with a protection, the strongest first.

    The lower bound is that of one run: the scores of the first target.
    """
    delta = proved.delta if proved else 0.0
    limit = expected_limit(on.took_part.shape[1], delta=delta, confidence=confidence)
    not_tested = (
        f"epsilons above {limit:.3g} by membership: {on.took_part.shape[1]} records of one run cannot show more",
        "membership inference from the models after single steps: it uses the finished model",
    )
    found = []
    for name, score in _ATTACKS.items():
        scores_off, scores_on = score(off), score(on)
        bound: LowerBound = one_run_bound(scores_on[0], on.took_part[0], delta=delta, confidence=confidence)
        found.append(
            Finding(
                attack=f"membership inference by {name}",
                adversary="a reader of the trained model",
                sees=f"the losses of {on.took_part.shape[1]} records, half of which were trained on",
                protection=protection,
                proved=proved,
                audited=bound,
                off=curve_score(scores_off, off.members),
                on=curve_score(scores_on, on.members),
                also=((low_error_score(scores_off, off.members), low_error_score(scores_on, on.members)),),
                cost=cost,
                not_tested=not_tested,
            )
        )
    return sorted(found, key=lambda finding: -(finding.on.value if finding.on else 0))
