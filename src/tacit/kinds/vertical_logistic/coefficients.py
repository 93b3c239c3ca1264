"""A party's own weights as people read them: by column, in the standardised and in the original scale.

    own = coefficients(fitted.features, model, classes, active=True, linear=False, information=fitted.information)
    own.write(folder / "coefficients.csv")
    for event in own.told("bank"):
        sink.emit(event)

In the original scale a row's score is the sum, over all parties, of each party's offset and its weights times its
features. The active's offset is the intercept. Scores are log odds. Of a linear regression the label is
mean + unit · score: only the active knows these two numbers, and has a line for each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tacit.events import Bars, Event, Tabled
from tacit.fixedpoint import Floats
from tacit.store.scores import Scores, write_scores

FILE = "coefficients.csv"
SECTION = "Coefficients"
INTERCEPT, OFFSET = "(intercept)", "(offset of these columns)"
MEAN, UNIT = "(mean of the label)", "(unit of the label)"
_DRAWN = 30  # bars
_TOLD = 1000  # rows of the table on the page; the file has all


class Feature(Protocol):
    """A feature as the fitted transforms name it."""

    @property
    def column(self) -> str: ...

    @property
    def use(self) -> str: ...

    @property
    def part(self) -> str: ...

    @property
    def name(self) -> str: ...


class _Scaler(Protocol):
    @property
    def mean(self) -> Floats: ...

    @property
    def factor(self) -> Floats: ...


class Weights(Protocol):
    """A party's part of a model: weights (d, K), intercept (K,), a scaler of d columns."""

    @property
    def weights(self) -> Floats: ...

    @property
    def intercept(self) -> Any: ...

    @property
    def scaler(self) -> _Scaler: ...


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A party's part of the scores as one line: offset + features @ weights, without a scaler. K outputs."""

    weights: Floats  # (d, K)
    offset: Floats  # (K,)

    @classmethod
    def of(cls, model: Weights) -> Linear:
        """The part of a model, in the original scale of its features."""
        standardised = by_output(model)
        weights = standardised * model.scaler.factor[:, None]
        return cls(weights, np.atleast_1d(model.intercept) - model.scaler.mean @ weights)


def by_output(model: Weights) -> Floats:
    """The standardised weights as (d, K)."""
    weights = np.asarray(model.weights)
    return weights if weights.ndim == 2 else weights[:, None]


@dataclass(frozen=True, slots=True)
class Coefficient:
    """The weight of one feature for one output; or the intercept, or what scales the label."""

    column: str
    use: str  # empty for the intercept
    part: str  # a category, a bin, or empty
    name: str
    output: str  # the class, of several; or empty
    standardised: float | None  # None of what scales the label
    original: float
    information: float | None = None  # of a column with weight of evidence

    @property
    def odds_ratio(self) -> float:
        """By what the odds are multiplied if the feature grows by 1."""
        return math.exp(self.original) if self.original < 709 else math.inf


@dataclass(frozen=True, slots=True)
class Coefficients:
    """All weights of one party, its intercept or offset first."""

    rows: tuple[Coefficient, ...]
    linear: bool
    active: bool
    raised: str  # what a positive weight raises, in words

    def table(self, rows: Sequence[Coefficient] | None = None) -> Scores:
        """As a header and cells. What no row has is left out: classes, odds ratios, information values."""
        rows = self.rows if rows is None else rows
        columns: dict[str, list[Any]] = {
            "column": [each.column for each in rows],
            "transform": [each.use for each in rows],
            "part": [each.part for each in rows],
        }
        if any(each.output for each in self.rows):
            columns["class"] = [each.output for each in rows]
        columns["weight (standardised)"] = ["" if each.standardised is None else each.standardised for each in rows]
        columns["weight (original scale)"] = [each.original for each in rows]
        if not self.linear:
            columns["odds ratio"] = [each.odds_ratio if each.use else "" for each in rows]
        if any(each.information is not None for each in self.rows):
            columns["information value"] = ["" if each.information is None else each.information for each in rows]
        return Scores(tuple(columns), list(zip(*columns.values(), strict=True)))

    def write(self, path: Path) -> None:
        """Store them as CSV, every number in full."""
        write_scores(self.table(), path)

    def told(self, name: str) -> list[Event]:
        """The bars and the table for the page of the party of this name."""
        weighty = sorted((each for each in self.rows if each.use), key=lambda each: -abs(each.standardised or 0.0))
        labels = [f"{each.name} [{each.output}]" if each.output else each.name for each in weighty]
        drawn = {label: each.standardised or 0.0 for label, each in zip(labels, weighty[:_DRAWN], strict=False)}
        found: list[Event] = []
        if drawn:
            some = f"The {_DRAWN} largest of {len(weighty)}" if len(weighty) > _DRAWN else "All"
            caption = (
                f"{some} weights of the columns of {name} itself. Blue raises {self.raised}, amber lowers it, by so "
                "much if the feature grows by one standard deviation."
            )
            unit = f"{'score' if self.linear else 'log odds'} per standard deviation"
            found.append(Bars(f"Weights of {name}", unit, caption, drawn, SECTION))
        return [*found, self._tabled(name, weighty)]

    def _tabled(self, name: str, weighty: list[Coefficient]) -> Tabled:
        kept = {id(each) for each in weighty[:_TOLD]}
        rows = [each for each in self.rows if not each.use or id(each) in kept]
        table = self.table(rows)
        some = f" The {_TOLD} largest; {FILE} has all." if len(weighty) > _TOLD else ""
        whose = "The intercept" if self.active else "The offset"
        odds = " An odds ratio is of one unit of the feature."
        if self.linear:
            known = "." if self.active else ", which only the active knows."
            odds = f" The label is its mean plus its unit times the score{known}"
        caption = (
            f"In the original scale, a row's score is the sum over all parties of the offset and of weights times "
            f"features. {whose} is {name}'s own part of it.{odds}{some}"
        )
        return Tabled(
            f"Coefficients of {name}", caption, list(table.header), [list(row) for row in table.rows], SECTION
        )


def coefficients(
    features: Sequence[Feature],
    model: Weights,
    classes: Sequence[str],
    *,
    active: bool,
    linear: bool,
    information: Mapping[str, float] | None = None,
) -> Coefficients:
    """A party's own weights.

    Args:
        classes: of which several have an output each; a passive that knows none gives (), and numbers stand for them.
        information: the information value of each column with weight of evidence.
    """
    standardised, original = by_output(model), Linear.of(model)
    if len(features) != len(standardised):
        raise ValueError(
            f"{len(features)} features have {len(standardised)} weights: the transforms are not the model's"
        )
    outputs = _outputs(standardised.shape[1], classes)
    intercept = np.atleast_1d(model.intercept)
    found = [
        Coefficient(
            INTERCEPT if active else OFFSET, "", "", "", output, float(intercept[each]), float(original.offset[each])
        )
        for each, output in enumerate(outputs)
    ]
    values = information or {}
    for row, feature in enumerate(features):
        for each, output in enumerate(outputs):
            weights = float(standardised[row, each]), float(original.weights[row, each])
            name = feature.name
            found.append(
                Coefficient(
                    feature.column, feature.use, feature.part, name, output, *weights, values.get(feature.column)
                )
            )
    target = getattr(model, "target", None)
    if target is not None:
        found += [
            Coefficient(MEAN, "", "", "", "", None, target.mean),
            Coefficient(UNIT, "", "", "", "", None, target.unit),
        ]
    of = f" of {classes[1]}" if len(classes) == 2 else ""
    return Coefficients(tuple(found), linear, active, "the score" if linear else f"the log odds{of}")


def _outputs(count: int, classes: Sequence[str]) -> list[str]:
    if count == 1:
        return [""]
    return list(classes) if len(classes) == count else [f"class {number}" for number in range(1, count + 1)]
