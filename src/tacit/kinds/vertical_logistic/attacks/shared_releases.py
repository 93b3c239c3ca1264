"""What the active learns of the others' part of a score from predictions on shares, by what the file releases.

    others_part(low, high, own, spread)     the best guess of it, if the score is known to lie between two bounds
    audit_prediction(settings, tables, transcript)      the finding: exact scores as the control

The active knows its own part. It takes the others' part as normal with the spread that it has, which it is given. Whole
points hide little: with pdo 20 a point is 0.035 of the log odds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import truncnorm

from tacit.audit.finding import Finding, Score
from tacit.audit.intervals import mean_score
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic import release
from tacit.kinds.vertical_logistic.attacks.shared_transcript import Transcript, predicted
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared.prediction import Releases

_SPREAD = 1.0  # of all scores: weights are scaled to it, as those of a few steps are small


def others_part(low: Floats, high: Floats, own: Floats, spread: float) -> Floats:
    """The mean of a normal part between the bounds that are left once one's own part is taken off."""
    left, right = (low - own) / spread, (high - own) / spread
    left, right = np.clip(left, -30.0, 29.9), np.clip(right, -29.9, 30.0)
    middle = (left + right) / 2
    far = (left > 8) | (right < -8) | (right - left < 1e-6)  # where the normal's tail is below a float's reach
    found = truncnorm.mean(np.where(far, -1.0, left), np.where(far, 1.0, right))
    nearest = np.where(left > 8, left, np.where(right < -8, right, middle))
    return np.asarray(np.where(far, nearest, found) * spread)


def audit_prediction(settings: Settings, tables: Mapping[str, Floats], transcript: Transcript) -> Finding:
    """The file's release of rows of its own tables, by the weights of the recorded training."""
    terms, active = transcript.terms, settings.active
    parts = {name: tables[name] @ model.weights for name, model in transcript.models.items()}
    total = np.sum(list(parts.values()), axis=0)
    factor = _SPREAD / max(float(total.std()), 1e-9)
    models = {
        name: type(model)(model.weights * factor, None if model.intercept is None else model.intercept * 0, b"")
        for name, model in transcript.models.items()
    }
    own = (parts[active] * factor)[:, 0]
    truth = ((total - parts[active]) * factor)[:, 0]
    edges = np.quantile(own + truth, np.arange(1, 10) / 10)
    common = (terms.parties, terms.dealer, active, terms.rows, bytes(16))
    chosen = _chosen(settings, common, edges)
    scores = []
    for releases in (Releases(*common, release="exact"), chosen):
        told, _ = predicted(tables, models, releases)
        low, high = _bounds(np.asarray(told, dtype=np.float64)[:, 0], releases)
        scores.append(_error(others_part(low, high, own, float(truth.std()) or 1.0), truth))
    exact = settings.release == "exact"
    return Finding(
        attack="the others' part of scores, from predictions",
        adversary="active, honest but curious",
        sees=f"what predict.release: {settings.release} tells of {terms.rows} rows; knows its own part",
        protection="none: scores are released" if exact else f"predict.release: {settings.release}",
        off=scores[0],
        on=None if exact else scores[1],
        not_tested=("weights of the others from many predictions of rows that are known",),
    )


def _chosen(settings: Settings, common: tuple[tuple[str, ...], str, str, int, bytes], edges: Floats) -> Releases:
    match settings.release:
        case "exact":
            return Releases(*common, release="exact")
        case "points":
            scale = release.scale(settings)
            return Releases(*common, release="points", factor=scale.slope, offset=scale.offset)
        case "decile":
            return Releases(*common, thresholds=tuple(edges.tolist()))
        case "decision":
            return Releases(*common, thresholds=(0.0,))


def _bounds(told: Floats, releases: Releases) -> tuple[Floats, Floats]:
    """Between which scores each row's lies."""
    match releases.release:
        case "exact":
            return told - 1e-9, told + 1e-9
        case "points":
            ends = ((told - releases.offset) / releases.factor, (told + 1 - releases.offset) / releases.factor)
            return np.minimum(*ends), np.maximum(*ends)
        case "steps":
            edges = np.array([-np.inf, *releases.thresholds, np.inf])
            return edges[told.astype(int)], edges[told.astype(int) + 1]


def _error(guesses: Floats, truth: Floats) -> Score:
    spread = float(truth.std()) or 1.0
    baseline = float(np.abs(truth - truth.mean()).mean()) / spread
    metric = "error of the others' part of a score, in standard deviations of it"
    return mean_score(metric, np.abs(guesses - truth) / spread, baseline, smaller_is_worse=True)
