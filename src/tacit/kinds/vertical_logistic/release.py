"""What a prediction tells about new rows, by `predict.release` of the file.

    refuse_unfit(settings, outputs)         before anything is trained or sent
    refuse_masked(settings, name, part)     a part that was trained on shares stays on shares
    rounded(part, settings)                 what a passive sends of its part of the scores
    deciles(scores)                         edges that the active stores at the end of its training
    released(scores, settings)              what is told of raw scores; on shares the protocol makes it
    table(ids, told, classes, settings)     the table that the active gets: id, score, decision
    spend(settings, place, ...)             the log and budget of a passive that answers

exact       the probability of the second class, or the value of a linear regression. Of several classes the probability
            of the one that is decided on, and one column for each
points      whole points of a scorecard (`points`). Each passive rounds its own part to whole points before it sends it,
            so that the active sees no more of it than that; the decision follows from the points that are released
decile      1 for the lowest tenth of the scores of held-out rows, up to 10. The active computes it from exact scores:
            it hides them from readers of the file, and not from the active
decision    the class that is decided on, likewise

On shares the active sees what is released and nothing else, whichever it is; there points are rounded down.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.points import Points
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.evaluation import probabilities
from tacit.lockstep.run import Place
from tacit.store.answers import Answers
from tacit.store.scores import Scores

DECILES = "deciles"  # in the active's stored part: edges between tenths of scores
_ON_SHARES = "on_shares"  # in the part of each party of a training on shares


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What is told of each row: (n, K) values, and of two classes whether the second one is decided on."""

    values: NDArray[Any]
    decided: NDArray[np.bool_] | None = None

    def rows(self, chosen: NDArray[np.int64]) -> Told:
        """Some of the rows, in this order."""
        return Told(self.values[chosen], None if self.decided is None else self.decided[chosen])


def refuse_unfit(settings: Settings, outputs: int) -> None:
    """ConfigError if the file asks for a release that a model with so many outputs has not."""
    release = settings.release
    if release in ("points", "decision") and settings.model == "linear":
        raise ConfigError(f"predict.release is {release}, and model is linear, which has no odds: take exact or decile")
    several = ("exact", "points") if settings.shared else ("exact",)
    if release not in several and outputs > 1:
        raise ConfigError(
            f"predict.release is {release}, and the label has {outputs} classes: take {' or '.join(several)}, or two "
            "classes"
        )


def protocol_of(settings: Settings) -> dict[str, NDArray[Any]]:
    """What a part stores of the protocol that it was trained with: a mark if it was on shares."""
    return {_ON_SHARES: np.ones(1, dtype=np.uint8)} if settings.shared else {}


def refuse_masked(settings: Settings, name: str, part: Mapping[str, Any]) -> None:
    """ConfigError if a part that was trained on shares would be used under masks, where the active sees scores."""
    if _ON_SHARES in part and not settings.shared:
        raise ConfigError(
            f"the model of {name} was trained with protocol: shared, and protocol is masked, in which "
            f"{settings.active} sees the passives' part of every score: use it with protocol: shared"
        )


def scale(settings: Settings) -> Points:
    """Points as the file counts them."""
    return Points.of(settings.predict.points, settings.predict.odds, settings.predict.pdo)


def rounded(part: Floats, settings: Settings) -> Floats:
    """A passive's part of the scores (n, K) as it sends it: under `points`, a whole number of points for each row."""
    if settings.release != "points":
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


def spend(settings: Settings, place: Place, people: bytes, rows: int) -> None:
    """Log that a passive is about to answer so many rows, within its budget; BudgetError if that is spent."""
    if place.part is not None:
        Answers(place.part).spend(rows, budget(settings, place.local), ids=people, now=time.time())


def released(scores: Floats, settings: Settings, *, edges: Floats | None = None) -> Told:
    """What the file lets be told of raw scores.

    Args:
        scores: (n, K), sums over all parties; of a linear regression values in the label's own unit.
        edges: as `deciles` gave them, for `release: decile`.
    """
    refuse_unfit(settings, scores.shape[1])
    decided = None
    if settings.model == "logistic" and scores.shape[1] == 1:
        decided = probabilities(scores) >= settings.predict.threshold
    match settings.release:
        case "exact" | "decision":
            return Told(scores, decided)
        case "points":
            points = np.rint(scale(settings).points(scores[:, 0])).astype(np.int64)
            return Told(points[:, None], by_points(points, settings))
        case "decile":
            return Told(1 + np.searchsorted(checked_edges(edges), scores[:, :1], side="right"), decided)


def checked_edges(edges: Floats | None) -> Floats:
    """The stored edges of deciles; ConfigError if there are none."""
    if edges is None or np.shape(edges) != (9,):
        raise ConfigError("predict.release is decile, and this model has stored no deciles: train it anew")
    return edges


def by_points(points: NDArray[np.int64], settings: Settings) -> NDArray[np.bool_]:
    """What is decided by released points."""
    raw = scale(settings).log_odds(points.astype(np.float64))
    return np.asarray(probabilities(raw[:, None]) >= settings.predict.threshold)


def table(ids: Sequence[str], told: Told, classes: Sequence[str], settings: Settings) -> Scores:
    """Each id with what is told about it: id, score, decision."""
    if settings.model == "logistic" and len(classes) < 2:
        raise ConfigError("this part of the model has no classes, as the active's has: name the active's own run")
    if told.values.shape[1] > 1:
        return _several(ids, told.values, classes, settings)
    decisions = [] if told.decided is None else [classes[int(each)] for each in told.decided]
    if settings.release == "decision":
        return Scores(("id", "decision"), list(zip(ids, decisions, strict=True)))
    values = told.values[:, 0].tolist()
    if settings.release == "exact" and settings.model == "logistic":
        values = probabilities(told.values).tolist()
    if told.decided is None:
        return Scores(("id", "score"), list(zip(ids, values, strict=True)))
    return Scores(("id", "score", "decision"), list(zip(ids, values, decisions, strict=True)))


def _several(ids: Sequence[str], values: NDArray[Any], classes: Sequence[str], settings: Settings) -> Scores:
    exact = settings.release == "exact"
    shown = probabilities(values) if exact else values
    best = (shown if exact else scale(settings).log_odds(values.astype(np.float64))).argmax(axis=1)
    rows = [
        (identity, each[code], classes[code], *each)
        for identity, code, each in zip(ids, best.tolist(), shown.tolist(), strict=True)
    ]
    return Scores(("id", "score", "decision", *(f"score {name}" for name in classes)), rows)


def sentences(settings: Settings) -> list[str]:
    """What a prediction tells, in words for `plan` and the report."""
    active, found = settings.active, []
    match settings.release:
        case "exact" if settings.shared:
            found.append(
                f"A prediction gives {active} the exact score of every row: it subtracts its own part, and sees what "
                "the others' parts add up to, which the training hid."
            )
        case "points" | "decile" | "decision" if settings.shared:
            words = {"points": "whole points", "decile": "tenths and the decision", "decision": "the decision"}
            found.append(f"A prediction gives {active} {words[settings.release]} of every row, and nothing else.")
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
        case "decision":
            found.append(
                f"A prediction writes decisions only, but {active} computes them from exact scores, which it sees."
            )
    rows = settings.predict.budget
    limit = f"at most {rows:,} rows" if rows is not None else "any number of rows, as predict.budget is not set,"
    found.append(f"Each passive answers {limit} with one model, unless its own file sets another budget.")
    return found
