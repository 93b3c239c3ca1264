"""A party's own columns as points of a scorecard, of a regression of two classes.

    card(fitted, model, scale, active=True)     one line for each part of each column

The points of a row are the sum of its points in the cards of all parties: offset + slope · log odds (see `points`).
Each column counts from its mean over the training rows, so that a party's card needs nothing of another's:

    a category, a bin, a group of weight of evidence    its points
    a number        points + points per unit · (value - at value); of `log`, the value is sign(x)·log(1 + |x|)
    the active      base points besides: those of the intercept
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tacit.config.source import ConfigError
from tacit.fixedpoint import Floats
from tacit.kind import CardScale
from tacit.kinds.vertical_logistic.coefficients import Feature, Linear, Weights, by_output
from tacit.kinds.vertical_logistic.points import Points
from tacit.kinds.vertical_logistic.protocol.model import Model
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.store.scores import Scores

BASE, ANY_OTHER = "(base points)", "(any other)"
HEADER = ("column", "transform", "part", "points", "points (rounded)", "points per unit", "at value")
TRANSFORMS, CLASSES, COLUMNS = "transforms", "classes", "columns"  # in a party's stored part, as JSON in bytes


class _Column(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def transform(self) -> Any: ...  # of categories and bins it has `parts`, and `rows` of the training in each

    @property
    def features(self) -> Sequence[Feature]: ...


class FittedColumns(Protocol):
    """The fitted transforms of a party, as `tacit.tables.fitted` has them."""

    @property
    def columns(self) -> Sequence[_Column]: ...

    @property
    def groups(self) -> Mapping[str, Sequence[tuple[str, float, int]]]: ...


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


def card(fitted: FittedColumns, model: Weights, scale: Points, *, active: bool) -> list[Line]:
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
        found += _lines(column, fitted.groups, slopes[own], means[own])
        place += count
    if place != len(means):
        raise ConfigError(f"{place} features have {len(means)} weights: the transforms are not the model's")
    return found


def _lines(
    column: _Column, groups: Mapping[str, Sequence[tuple[str, float, int]]], slopes: Floats, means: Floats
) -> Iterator[Line]:
    use = column.features[0].use
    if use in ("numeric", "log"):
        yield Line(column.name, use, "", 0.0, float(slopes[0]), float(means[0]))
        return
    if use == "woe":
        values = [(part, np.array([value])) for part, value, _ in groups[column.name]]
        if _meets_others(column.transform.groups, column.transform.fill):
            values.append((ANY_OTHER, np.zeros(1)))
    else:
        values = list(_indicators(column.transform))
    for part, features in values:
        yield Line(column.name, use, part, float(slopes @ (features - means)))


def _indicators(transform: Any) -> Iterator[tuple[str, Floats]]:
    """Each part with its features. The first of two categories has none: it follows from the other."""
    parts: tuple[str, ...] = getattr(transform, "every_part", transform.parts)
    left_out = len(parts) - len(transform.parts)
    for place, part in enumerate(parts):
        yield part, np.eye(len(parts))[place, left_out:]
    groups = getattr(transform, "quantiles", None)
    others = not transform.other if groups is None else _meets_others(groups, transform.fill)
    if others:
        yield ANY_OTHER, np.asarray(transform.rows)[left_out:] / max(1, sum(transform.rows))


def _meets_others(groups: Any, fill: Any) -> bool:
    """Whether a new row may be in no group: a new category, or a missing number if none was missing before."""
    return not hasattr(groups, "edges") or (groups.missing is None and fill.how == "own category")


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
    lines = card(restored(part), model, scale, active=active)
    return Scores(HEADER, [line.cells() for line in lines])


def plain(stored: Any) -> Any:
    """What was stored as JSON in bytes."""
    return json.loads(np.asarray(stored, dtype=np.uint8).tobytes())


def good_class(parts: Mapping[str, Mapping[str, Any]], label: str) -> int:
    """The number of the class that a label names, from the parts that are here: one of them may have the labels."""
    labels = [plain(part[CLASSES]) for part in parts.values() if CLASSES in part]
    known = [str(each) for each in labels[0]] if labels else []
    ordinals = ["first", "second"]
    if label not in known + ordinals:
        why = "" if known else f"{' and '.join(parts)} does not know the labels: "
        raise ConfigError(f"--good is {label!r}: {why}give {' or '.join(known or ordinals)}")
    return known.index(label) if label in known else ordinals.index(label)


def restored(part: Mapping[str, Any]) -> FittedColumns:
    """The transforms of a stored part; columns as they are, of a built-in task, which has none."""
    if TRANSFORMS not in part:
        return _Untouched(tuple(plain(part[COLUMNS])))
    from tacit.tables.fitted import Fitted

    return Fitted.restore(plain(part[TRANSFORMS]))


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """A column that is its own only feature."""

    name: str
    use: str = "numeric"
    part: str = ""
    transform: None = None

    @property
    def column(self) -> str:
        return self.name

    @property
    def features(self) -> tuple[PlainColumn, ...]:
        return (self,)


@dataclass(frozen=True, slots=True)
class _Untouched:
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[PlainColumn, ...]:
        return tuple(PlainColumn(name) for name in self.names)

    @property
    def groups(self) -> dict[str, tuple[tuple[str, float, int], ...]]:
        return {}
