"""Labels inferred in split learning: what a follower makes of the gradients that cross back to it (topology V).

    audit_labels(settings)      each attack without and with LabelDP or noised gradients
    norm_scores                 the rarer of two classes has the longer gradients
    cosine_scores               records of one class have gradients that point the same way

The follower sees what its recorder kept of the very training: the gradient of each record's loss at the cut, each time
that the record is visited. Both attacks take all visits together. Without information the AUC is one half.

A record's features may go with its label, and with its gradients whatever the label is. Therefore each training is
repeated with fair coins for labels, of which features tell nothing. The follower's guesses of the coins also give the
lower bound on epsilon, that of one run.
Source of the attacks: Li, Sun, Yang et al. 2022, Label leakage and protection in two-party split learning, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from tacit.audit.attacks.membership import area_under_curve
from tacit.audit.attacks.one_run import expected_limit, one_run_bound
from tacit.audit.bounds import corrected
from tacit.audit.finding import Finding, LowerBound, Score
from tacit.audit.intervals import resampled
from tacit.dp.claim import Claim
from tacit.kinds.split.attacks.embeddings import Make, cost_of
from tacit.kinds.split.attacks.recording import Recording, at_most, record_cut
from tacit.kinds.split.common_terms import LABELS, RECORDS
from tacit.kinds.split.settings import Gradients, LabelProtection, Settings
from tacit.kinds.split.task import Top
from tacit.kinds.split.tasks.load import make_part

Scores = NDArray[np.float64]  # [record, class], large where the attacker thinks that it is the label
Labels = NDArray[np.int64]  # from 0 on
_KNOWN = 10  # records of each class whose labels the attacker knows
_KNOWS = f"the labels of {_KNOWN} records of each class"
_SURE = 0.999  # confidence of lower bounds: one above the proof says that the proof is wrong
_COINS = 47  # of the seed's streams
_NOT_TESTED = (
    "a follower that learns the labels from its features and the labels that it inferred",
    "a follower that sends activations of its own making, or that keeps the trained network and completes it",
)


@dataclass(frozen=True, slots=True)
class Guard:
    """What protects labels: their randomization, and noise on the gradients."""

    label_dp: LabelProtection | None = None
    gradients: Gradients = field(default_factory=Gradients)

    def on(self, settings: Settings) -> Settings:
        update = {"label_dp": self.label_dp, "gradients": self.gradients, "budget": None}
        return settings.model_copy(update=update)

    def __str__(self) -> str:
        found = [] if self.label_dp is None else [f"LabelDP with eps {self.label_dp.eps:g}"]
        given = self.gradients
        if given.protection == "noised":
            level = f"epsilon {given.epsilon:g}" if given.epsilon else f"noise multiplier {given.noise_multiplier:g}"
            found.append(f"gradients clipped to {given.clip:g} and noised, {level} for the training")
        return ", ".join(found) or "none"


LEVELS = (
    *(Guard(LabelProtection(eps=eps)) for eps in (5.0, 3.0, 1.0)),
    *(Guard(gradients=Gradients(protection="noised", clip=0.1, epsilon=eps)) for eps in (100.0, 8.0, 1.0)),
)


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """The gradients that a follower saw, [visit, record, number], and the true labels."""

    recording: Recording
    gradients: NDArray[np.float64]
    labels: Labels

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    def known(self) -> list[NDArray[np.int64]]:
        """Records of each class whose labels the attacker knows: the first ones."""
        return [np.flatnonzero(self.labels == label)[:_KNOWN] for label in range(self.classes)]

    def unknown(self) -> NDArray[np.int64]:
        return np.setdiff1d(np.arange(len(self.labels)), np.concatenate(self.known()))


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The same training on the true labels, and on fair coins in their place."""

    true: Followed
    coins: Followed

    @classmethod
    def of(cls, guard: Guard, settings: Settings, follower: str, records: int | None, make: Make) -> Pair:
        return cls(*(follow(guard, settings, follower, records, make, coins) for coins in (False, True)))


def norm_scores(gradients: NDArray[np.float64], known: Sequence[NDArray[np.int64]]) -> Scores:
    """By the length of a record's gradients among all, in each visit; known records tell which of two classes has the
    longer ones.

    The model says of most records that they are of the frequent class, so that the loss of the others is larger.
    """
    lengths = np.linalg.norm(gradients, axis=2)
    score = np.mean([rankdata(visit) / len(visit) for visit in lengths], axis=0)
    first, second = (float(score[rows].mean()) for rows in known)
    return np.stack([score, -score] if first > second else [-score, score], axis=1)


def cosine_scores(gradients: NDArray[np.float64], known: Sequence[NDArray[np.int64]]) -> Scores:
    """By the angle between a record's gradient and those of known records of each class, over all visits."""
    unit = gradients / np.maximum(np.linalg.norm(gradients, axis=2, keepdims=True), 1e-300)
    total = np.zeros((gradients.shape[1], len(known)))
    for visit in unit:
        means = np.stack([visit[rows].mean(axis=0) for rows in known])
        total += visit @ (means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-300)).T
    others = (total.sum(axis=1, keepdims=True) - total) / (len(known) - 1)
    return np.asarray(total - others)


def audit_labels(
    settings: Settings,
    guards: Sequence[Guard] | None = None,
    *,
    follower: str | None = None,
    records: int | None = 1000,
    make: Make = make_part,
    confidence: float = _SURE,
) -> list[Finding]:
    """Infer labels in a training without protection of labels, and under each guard; the strongest attack first.

    Args:
        guards: that of the file if None; where it has none, several.
        follower: who attacks; the first one if None.
        records: at most so many are trained on; None for all.
        confidence: of the lower bounds of all guards together.
    """
    if settings.topology != "V":
        raise ValueError(f"a follower of topology V is the attacker, got {settings.topology}: see audit_tokens")
    name = settings.followers[0] if follower is None else follower
    if name not in settings.followers:
        raise ValueError(f"{name!r} is not a follower: use one of {', '.join(settings.followers)}")
    own = Guard(settings.label_dp, settings.gradients)
    chosen = guards or (LEVELS if str(own) == "none" else [own])
    off = Pair.of(Guard(), settings, name, records, make)
    each = corrected(confidence, len(chosen))
    found = []
    for guard in chosen:
        on = Pair.of(guard, settings, name, records, make)
        found += [_finding(attack, guard, off, on, each) for attack in _attacks(off.true)]
    return sorted(found, key=lambda finding: -(finding.on.value if finding.on else 0))


def follow(
    guard: Guard, settings: Settings, follower: str, records: int | None, make: Make, coins: bool = False
) -> Followed:
    """Train under this guard and keep what the follower sees; with `coins`, on random labels out of two classes."""
    settings = guard.on(settings)
    parts = at_most({name: make(settings, name) for name in settings.parties}, records)
    top = parts[settings.leader]
    assert isinstance(top, Top)  # noqa: S101
    values, labels = _classes(top.train.labels)
    if coins:
        labels = np.random.default_rng([settings.seed, _COINS]).integers(0, 2, len(labels))
        parts[settings.leader] = replace(top, train=replace(top.train, labels=values[labels]))
    recording = record_cut(settings, parts)
    seen = recording.view(follower, settings.leader).gradients().astype(np.float64)
    return Followed(recording, seen.reshape(*seen.shape[:2], -1), labels)


def _classes(labels: NDArray[Any] | None) -> tuple[NDArray[Any], Labels]:
    """The classes, in order, and which of them each label is. Rows of one-hot labels are not attacked."""
    if labels is None or labels.ndim != 1:
        raise ValueError("labels must be one number for each record to be inferred")
    values, places = np.unique(labels, return_inverse=True)
    if not 2 <= len(values) <= 1000 or np.bincount(places).min() <= _KNOWN:
        raise ValueError(f"need 2 to 1000 classes with more than {_KNOWN} records each, got {len(values)}")
    return values, places.astype(np.int64)


def _attacks(followed: Followed) -> tuple[str, ...]:
    return ("direction", "length") if followed.classes == 2 else ("direction",)


def _scores(attack: str, followed: Followed) -> Scores:
    if attack == "length":
        return norm_scores(followed.gradients, followed.known())
    return cosine_scores(followed.gradients, followed.known())


def score_of(attack: str, followed: Followed, metric: str = "AUC of labels") -> Score:
    """The AUC of the true label over the records that are not known; for several classes a mean, one against all."""
    rows = followed.unknown()
    scores, labels = _scores(attack, followed)[rows], followed.labels[rows]
    classes = [1] if followed.classes == 2 else list(range(followed.classes))

    def measure(drawn: NDArray[np.int64]) -> float:
        masks = [(label, labels[drawn] == label) for label in classes]
        return float(np.mean([area_under_curve(scores[drawn, c], m) for c, m in masks if 0 < m.sum() < len(m)]))

    return resampled(metric, measure, len(rows), 0.5)


def _claim(followed: Followed) -> Claim | None:
    """Of a label under LabelDP, of a whole record under noised gradients."""
    settings = followed.recording.settings
    ledgers = followed.recording.outcomes[settings.leader].ledgers
    if settings.label_dp is not None:
        return Claim(ledgers[LABELS].pure_epsilon(), 0.0, "label", "replace-one")
    if settings.gradients.protection == "noised":
        delta = settings.gradients.delta
        return Claim(ledgers[RECORDS].epsilon(delta), delta, "record", "replace-one")
    return None


def _bound(coins: Followed, claim: Claim | None, confidence: float) -> LowerBound:
    rows = coins.unknown()
    scores = _scores("direction", coins)[rows, 1]
    delta = claim.delta if claim else 0.0
    return one_run_bound(scores, coins.labels[rows] == 1, delta=delta, confidence=confidence)


def _finding(attack: str, guard: Guard, off: Pair, on: Pair, confidence: float) -> Finding:
    claim = _claim(on.true)
    bound = _bound(on.coins, claim, confidence) if attack == "direction" else None
    also = tuple(score_of(attack, pair.coins, "AUC of labels that are fair coins") for pair in (off, on))
    not_tested: tuple[str, ...] = _NOT_TESTED
    if bound is not None:
        limit = expected_limit(bound.samples, delta=bound.delta, confidence=confidence)
        not_tested += (f"epsilons above {limit:.3g} by gradients: {bound.samples} records cannot show more",)
    return Finding(
        attack=f"labels inferred from the {attack} of gradients",
        adversary="follower, honest but curious",
        sees=f"the gradient of each record at the cut, {len(on.true.gradients)} times; knows {_KNOWS}",
        protection=str(guard),
        proved=claim,
        audited=bound,
        off=score_of(attack, off.true),
        on=score_of(attack, on.true),
        also=((also[0], also[1]),),
        cost=cost_of(off.true.recording, on.true.recording),
        not_tested=not_tested,
    )
