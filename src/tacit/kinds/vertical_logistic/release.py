"""What a prediction tells about new rows, by `predict.release` of the file.

    refuse_unfit(settings, outputs)         before anything is trained or sent
    rounded(part, settings)                 what a passive sends of its part of the scores
    deciles(scores)                         edges that the active stores at the end of its training
    released(ids, scores, classes, ...)     the table that the active gets: id, score, decision

exact       the probability of the second class, or the value of a linear regression. Of several classes the probability
            of the one that is decided on, and one column for each
points      whole points of a scorecard (`points`). Each passive rounds its own part to whole points before it sends it,
            so that the active sees no more of it than that; the decision follows from the points that are released
decile      1 for the lowest tenth of the scores of held-out rows, up to 10. The active computes it from exact scores:
            it hides them from readers of the file, and not from the active
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.points import Points
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.evaluation import probabilities
from tacit.store.scores import Scores


def refuse_unfit(settings: Settings, outputs: int) -> None:
    """ConfigError if the file asks for a release that a model with so many outputs has not."""
    release = settings.predict.release
    if release == "points" and settings.model == "linear":
        raise ConfigError("predict.release is points, and model is linear, which has no odds: take exact or decile")
    if release != "exact" and outputs > 1:
        raise ConfigError(
            f"predict.release is {release}, and the label has {outputs} classes: take exact, or two classes"
        )


def scale(settings: Settings) -> Points:
    """Points as the file counts them."""
    return Points.of(settings.predict.points, settings.predict.odds, settings.predict.pdo)


def rounded(part: Floats, settings: Settings) -> Floats:
    """A passive's part of the scores (n, K) as it sends it: under `points`, a whole number of points for each row."""
    if settings.predict.release != "points":
        return part
    slope = scale(settings).slope
    return np.asarray(np.rint(part * slope) / slope)


def deciles(scores: Floats) -> Floats:
    """The nine edges between tenths of raw scores (n, 1)."""
    return np.asarray(np.quantile(scores[:, 0], np.arange(1, 10) / 10))


def budget(settings: Settings, local: Local) -> int | None:
    """The rows that this party answers with one model: as its own file says, or else the shared one."""
    own = local.predict.budget if local.predict is not None else None
    return own if own is not None else settings.predict.budget


def released(
    ids: Sequence[str],
    scores: Floats,
    classes: Sequence[str],
    settings: Settings,
    *,
    edges: Floats | None = None,
) -> Scores:
    """Each id with what the file lets be told about it.

    Args:
        scores: (n, K), raw sums over all parties; of a linear regression values in the label's own unit.
        classes: their names, in the order of the codes; none if linear.
        edges: as `deciles` gave them, for `release: decile`.
    """
    refuse_unfit(settings, scores.shape[1])
    if settings.model == "logistic" and len(classes) < 2:
        raise ConfigError("this part of the model has no classes, as the active's has: name the active's own run")
    if scores.shape[1] > 1:
        return _several(ids, probabilities(scores), classes)
    told, raw = _told(scores[:, 0], settings, edges)
    if settings.model == "linear":
        return Scores(("id", "score"), list(zip(ids, told, strict=True)))
    decided = probabilities(raw[:, None]) >= settings.predict.threshold
    decisions = [classes[int(each)] for each in decided]
    return Scores(("id", "score", "decision"), list(zip(ids, told, decisions, strict=True)))


def _told(scores: Floats, settings: Settings, edges: Floats | None) -> tuple[list[float] | list[int], Floats]:
    """What is told of each row, and the raw scores that its decision follows from."""
    match settings.predict.release:
        case "exact":
            return probabilities(scores[:, None], linear=settings.model == "linear").tolist(), scores
        case "points":
            points = np.rint(scale(settings).points(scores))
            return points.astype(np.int64).tolist(), scale(settings).log_odds(points)
        case "decile":
            if edges is None or np.shape(edges) != (9,):
                raise ConfigError("predict.release is decile, and this model has stored no deciles: train it anew")
            return (1 + np.searchsorted(edges, scores, side="right")).tolist(), scores


def _several(ids: Sequence[str], chances: Floats, classes: Sequence[str]) -> Scores:
    best = chances.argmax(axis=1)
    rows = [
        (identity, chance[code], classes[code], *chance)
        for identity, code, chance in zip(ids, best.tolist(), chances.tolist(), strict=True)
    ]
    return Scores(("id", "score", "decision", *(f"score {name}" for name in classes)), rows)


def sentences(settings: Settings) -> list[str]:
    """What a prediction tells, in words for `plan` and the report."""
    active, release = settings.active, settings.predict.release
    found = []
    match release:
        case "exact":
            found.append(f"A prediction gives {active} the exact score of every row.")
        case "points":
            found.append(
                f"A prediction gives {active} whole points: each passive rounds its part of a score to a whole point "
                "before it sends it."
            )
        case "decile":
            found.append(
                f"A prediction writes tenths only, but {active} computes them from exact scores, which it sees: take "
                "points if the passives are to hide more."
            )
    rows = settings.predict.budget
    limit = f"at most {rows:,} rows" if rows is not None else "any number of rows, as predict.budget is not set,"
    found.append(f"Each passive answers {limit} with one model, unless its own file sets another budget.")
    return found
