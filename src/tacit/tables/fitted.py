"""All transforms of a party's table, fitted on the training rows and kept with its part of the model.

fitted = fit(choices, cells, readings, training_rows)
features = fitted.apply(cells)              # of any rows: n × len(fitted.features)
Fitted.restore(fitted.state())              # by plain JSON, exactly
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tacit.fixedpoint import Ints
from tacit.tables.cells import Cells, Floats, Reading, is_missing, take
from tacit.tables.choose import Choice
from tacit.tables.evidence import Grouped, Woe, evidence, group, with_labels
from tacit.tables.settings import Use
from tacit.tables.transforms import Bin, Log, Numeric, OneHot

Transform = Numeric | Log | Bin | OneHot | Woe

VERSION = 1
MOST_FEATURES = 100_000
_LONGEST_NAME = 10_000  # characters of a column's name

_FIT: Mapping[str, Callable[[Cells, Choice], Transform | Grouped]] = {
    "numeric": Numeric.fit,
    "log": Log.fit,
    "bin": Bin.fit,
    "one_hot": OneHot.fit,
    "woe": group,
}
_KINDS: Mapping[str, type[Transform]] = {"numeric": Numeric, "log": Log, "bin": Bin, "one_hot": OneHot, "woe": Woe}
_USES: Mapping[type[Transform | Grouped], Use] = {
    Numeric: "numeric",
    Log: "log",
    Bin: "bin",
    OneHot: "one_hot",
    Woe: "woe",
    Grouped: "woe",
}


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of numbers that a model learns from."""

    column: str  # of the table
    use: Use
    part: str = ""  # the category or the bin

    @property
    def name(self) -> str:
        """As people read it: "city = Rome", "age: 12 to 30", "age"."""
        if not self.part:
            return self.column
        return f"{self.column} = {self.part}" if self.use == "one_hot" else f"{self.column}: {self.part}"


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """A column of the table and what it becomes; `Grouped` if its labels have not been counted yet."""

    name: str
    transform: Transform | Grouped

    @property
    def features(self) -> tuple[Feature, ...]:
        use = _USES[type(self.transform)]
        return tuple(Feature(self.name, use, part) for part in self.transform.parts)

    @property
    def counted(self) -> Transform:
        """The transform, which needs no counts of labels any more."""
        if isinstance(self.transform, Grouped):
            raise ValueError(f"column {self.name}: its labels have not been counted yet, and woe needs the counts")
        return self.transform


@dataclass(frozen=True, slots=True)
class Fitted:
    """All columns of a party that a model learns from, in order, and how their texts are read."""

    columns: tuple[FittedColumn, ...]
    readings: Mapping[str, Reading]

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError("a column is there twice")
        if (count := sum(len(column.transform.parts) for column in self.columns)) > MOST_FEATURES:
            raise ValueError(f"the columns make {count} features, at most {MOST_FEATURES}: drop some or raise `rare`")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table that are needed."""
        return tuple(column.name for column in self.columns)

    @property
    def features(self) -> tuple[Feature, ...]:
        return tuple(feature for column in self.columns for feature in column.features)

    def apply(self, cells: Mapping[str, Cells]) -> Floats:
        """Rows × features. What a row becomes does not depend on the others."""
        if absent := [name for name in self.names if name not in cells]:
            raise ValueError(f"the table has no column {', '.join(absent)}, which the model needs")
        rows = {len(column) for column in cells.values()}
        if len(rows) > 1:
            raise ValueError(f"columns of {min(rows)} and {max(rows)} rows do not belong to one table")
        features = np.empty((max(rows, default=0), len(self.features)))
        start = 0
        for column in self.columns:
            end = start + len(column.transform.parts)
            transform = column.counted
            with _named(column.name):
                features[:, start:end] = transform.apply(cells[column.name])
            start = end
        return features

    @property
    def waiting(self) -> Mapping[str, Grouped]:
        """Columns of weight of evidence whose labels have not been counted yet."""
        return {column.name: column.transform for column in self.columns if isinstance(column.transform, Grouped)}

    def with_counts(self, counts: Mapping[str, tuple[Grouped, Ints]]) -> Fitted:
        """With counts of label 1 in each group of a waiting column, merged further since or not."""
        if strange := counts.keys() - self.waiting.keys():
            raise ValueError(f"column {', '.join(sorted(strange))}: it does not wait for counts of labels")
        columns = []
        for column in self.columns:
            if column.name in counts:
                with _named(column.name):
                    column = replace(column, transform=evidence(*counts[column.name]))
            columns.append(column)
        return replace(self, columns=tuple(columns))

    @property
    def groups(self) -> Mapping[str, tuple[tuple[str, float, int], ...]]:
        """Of columns of weight of evidence: the name, value and training rows of each group."""
        return {name: tuple(zip(woe.groups.names, woe.values, woe.rows, strict=True)) for name, woe in self._evidence()}

    @property
    def information(self) -> Mapping[str, float]:
        """The information value of columns of weight of evidence."""
        return {name: woe.information for name, woe in self._evidence()}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about columns that tell nothing."""
        return tuple(
            f"column {name}: one group of rows is left, so its weight of evidence is 0 and it has no effect: drop it"
            for name, woe in self._evidence()
            if woe.groups.count == 1
        )

    def _evidence(self) -> Iterator[tuple[str, Woe]]:
        for column in self.columns:
            if isinstance(column.transform, Woe):
                yield column.name, column.transform

    def state(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        columns = [{"name": column.name, **column.counted.state()} for column in self.columns]
        return {
            "version": VERSION,
            "columns": columns,
            "readings": {name: asdict(reading) for name, reading in self.readings.items()},
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Fitted:
        """The same as was stored; a ValueError if it is damaged."""
        try:
            return cls._restored(state)
        except ValueError as error:
            raise ValueError(f"the stored transforms are damaged: {error}") from error

    @classmethod
    def _restored(cls, state: Any) -> Fitted:
        if not isinstance(state, Mapping) or state.keys() != {"version", "columns", "readings"}:
            raise ValueError("they need version, columns and readings")
        version, columns, readings = state["version"], state["columns"], state["readings"]
        if type(version) is not int or version != VERSION:
            raise ValueError(f"their version is {version!r:.20}, and this program reads {VERSION}")
        if not isinstance(columns, Sequence) or isinstance(columns, str) or len(columns) > MOST_FEATURES:
            raise ValueError(f"columns must be a list of at most {MOST_FEATURES}")
        if not isinstance(readings, Mapping) or len(readings) > len(columns):
            raise ValueError("readings must be a mapping of columns")
        fitted = tuple(_column(column) for column in columns)
        if strange := readings.keys() - {column.name for column in fitted}:
            raise ValueError(f"readings of {len(strange)} columns that are not there")
        return cls(fitted, {name: _reading(reading) for name, reading in readings.items()})


def _reading(state: Any) -> Reading:
    if not isinstance(state, Mapping):
        raise ValueError("a reading must be a mapping")
    return Reading.restore(state)


def _column(state: Any) -> FittedColumn:
    if not isinstance(state, Mapping) or not {"name", "use"} <= state.keys():
        raise ValueError("a column needs name and use")
    name, use = state["name"], state["use"]
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        raise ValueError(f"the name of a column must be a text of at most {_LONGEST_NAME} characters")
    if not isinstance(use, str) or use not in _KINDS:
        raise ValueError(f"column {name}: the use {use!r:.20} is unknown")
    with _named(name):
        return FittedColumn(name, _KINDS[use].restore({key: state[key] for key in state.keys() - {"name", "use"}}))


def fit(
    choices: Sequence[Choice],
    cells: Mapping[str, Cells],
    readings: Mapping[str, Reading],
    rows: Ints,
    labels: Ints | None = None,
) -> Fitted:
    """Fit what was chosen on the training rows.

    Args:
        rows: the training rows' places in the table. Nothing is learnt from any other row.
        labels: at the party that has them, 0 or 1 for each of these rows: weight of evidence is filled in at once.
            Without them its columns wait for counts.
    """
    used = [choice for choice in choices if choice.use != "drop"]
    rows = np.asarray(rows, np.int64)
    if not len(rows):
        raise ValueError("there are no training rows to fit transforms on")
    if labels is not None and len(labels) != len(rows):
        raise ValueError(f"{len(labels)} labels for {len(rows)} training rows")
    columns = []
    for choice in used:
        with _named(choice.name):
            if rows.min() < 0 or rows.max() >= (count := len(cells[choice.name])):
                raise ValueError(f"training rows go from {rows.min()} to {rows.max()}, and the table has {count}")
            if choice.column.missing == "refuse":
                _check_present(cells[choice.name], rows)
            transform = _FIT[choice.use](take(cells[choice.name], rows), choice)
            if isinstance(transform, Grouped) and labels is not None:
                if not np.array_equal(np.unique(labels), [0, 1]):
                    raise ValueError("woe needs two classes: say one_hot, bin or numeric")
                transform = with_labels(transform, labels)
            columns.append(FittedColumn(choice.name, transform))
    return Fitted(tuple(columns), {choice.name: readings[choice.name] for choice in used if choice.name in readings})


def _check_present(cells: Cells, rows: Ints) -> None:
    """Refuse missing cells by their place in the table, before they are taken out of it."""
    missing = is_missing(cells)[rows]
    if missing.any():
        row = int(rows[missing.argmax()]) + 1
        raise ValueError(f"row {row} has no value, and `missing: refuse` takes none: fill it in or leave it out")


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"column {name}: {error}") from error
