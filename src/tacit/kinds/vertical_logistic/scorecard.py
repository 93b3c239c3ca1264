"""A party's own columns as points of a scorecard, of a regression of two classes.

    card(fitted, model, scale, active=True)     one line for each part of each column

The points of a row are the sum of its points in the cards of all parties: offset + slope · log odds (see `points`).
Each column counts from its mean over the training rows, so that a party's card needs nothing of another's:

    a category, a bin, a group of weight of evidence    its points
    a number        points + points per unit · (value - at value); of `log`, the value is sign(x)·log(1 + |x|)
    the active      also base points: those of the intercept
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.config.source import ConfigError
from tacit.fixedpoint import Floats
from tacit.kind import CardScale
from tacit.kinds.vertical_logistic.coefficients import Linear, Weights, by_output
from tacit.kinds.vertical_logistic.own_table import transforms_of
from tacit.kinds.vertical_logistic.points import Points
from tacit.kinds.vertical_logistic.protocol.model import Model
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.store.scores import Scores
from tacit.tables.evidence import Woe
from tacit.tables.fitted import Fitted, FittedColumn
from tacit.tables.groups import Categories, Quantiles
from tacit.tables.missing import Fill
from tacit.tables.transforms import Bin, Log, Numeric, OneHot

BASE, ANY_OTHER = "(base points)", "(any other)"
HEADER = ("column", "transform", "part", "points", "points (rounded)", "points per unit", "at value")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a card."""

    column: str
    transform: str
    part: str
    points: float
    per_unit: float | None = None  # of a number
    at: float | None = None  # the value at which it has these points

    def cells(self) -> tuple[Any, ...]:
        number = ("", "") if self.per_unit is None else (self.per_unit, self.at)
        return self.column, self.transform, self.part, self.points, round(self.points), *number


def card(fitted: Fitted, model: Weights, scale: Points, *, active: bool) -> list[Line]:
    """The lines of a party's card."""
    weights = Linear.of(model).weights
    if weights.shape[1] != 1:
        raise ConfigError(f"this model has {weights.shape[1]} classes: a scorecard is of two")
    slopes, means = scale.slope * weights[:, 0], model.scaler.mean
    found, place = [], 0
    if active:
        intercept = float(np.atleast_1d(model.intercept)[0])
        found.append(Line(BASE, "", "", scale.offset + scale.slope * intercept))
    for column in fitted.columns:
        count = len(column.features)
        own = slice(place, place + count)
        found += _lines(column, slopes[own], means[own])
        place += count
    if place != len(means):
        raise ConfigError(f"{place} features have {len(means)} weights: the transforms are not the model's")
    return found


def _lines(column: FittedColumn, slopes: Floats, means: Floats) -> Iterator[Line]:
    use, transform = column.features[0].use, column.counted
    match transform:
        case Numeric() | Log():
            yield Line(column.name, use, "", 0.0, float(slopes[0]), float(means[0]))
            return
        case Woe():
            values = [
                (part, np.array([value])) for part, value in zip(transform.groups.names, transform.values, strict=True)
            ]
            if _meets_others(transform.groups, transform.fill):
                values.append((ANY_OTHER, np.zeros(1)))
        case Bin():
            values = _indicators(transform.parts, 0, transform.rows, _meets_others(transform.quantiles, transform.fill))
        case OneHot():
            parts = transform.every_part  # the first of two has no column: it follows from the other
            values = _indicators(parts, len(parts) - len(transform.parts), transform.rows, not transform.other)
    for part, features in values:
        yield Line(column.name, use, part, float(slopes @ (features - means)))


def _indicators(
    parts: Sequence[str], left_out: int, rows: Sequence[int], others: bool
) -> list[tuple[str, NDArray[np.float64]]]:
    """Each part with its features; the first `left_out` have no column. `others`: a new row may be in no part."""
    found = [(part, np.eye(len(parts))[place, left_out:]) for place, part in enumerate(parts)]
    if others:
        found.append((ANY_OTHER, np.asarray(rows)[left_out:] / max(1, sum(rows))))
    return found


def _meets_others(groups: Quantiles | Categories, fill: Fill) -> bool:
    """Whether a new row may be in no group: a new category, or a missing number if none was missing before."""
    return isinstance(groups, Categories) or (groups.missing is None and fill.how == "own category")


# --- from what a party stored


def scorecard(settings: Settings, name: str, part: Mapping[str, Any], asked: CardScale) -> Scores:
    """The card of one party, from its stored part of the model."""
    if settings.model == "linear":
        raise ConfigError("model is linear: a scorecard is of a regression of two classes, which has odds")
    model = Model.restore(part)
    outputs = by_output(model).shape[1]
    if outputs > 1:
        raise ConfigError(f"this model has {outputs} classes: a scorecard is of two")
    active = name == settings.active
    own = settings.predict
    scale = Points.of(
        own.points if asked.points is None else asked.points,
        own.odds if asked.odds is None else asked.odds,
        own.pdo if asked.pdo is None else asked.pdo,
        good=good_class({name: part}, asked.good) if isinstance(asked.good, str) else asked.good or 0,
    )
    lines = card(transforms_of(part), model, scale, active=active)
    return Scores(HEADER, [line.cells() for line in lines])


def good_class(parts: Mapping[str, Mapping[str, Any]], label: str) -> int:
    """The number of the class that a label names, from the parts that are here: one of them may have the labels."""
    classes = [Model.restore(part).classes for part in parts.values()]
    known = next(([str(each) for each in names] for names in classes if names), [])
    ordinals = ["first", "second"]
    if label not in known + ordinals:
        why = "" if known else f"{' and '.join(parts)} does not know the labels: "
        raise ConfigError(f"--good is {label!r}: {why}give {' or '.join(known or ordinals)}")
    return known.index(label) if label in known else ordinals.index(label)
