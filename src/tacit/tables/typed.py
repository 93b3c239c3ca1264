"""Columns of Python's own objects, as databases and frames give them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import Any
from uuid import UUID

import numpy as np

from tacit.tables.cells import Cells, Numbers, Texts, canonical, clean
from tacit.tables.dates import days_of

_EXACT = 2**53
_EPOCH = date(1970, 1, 1).toordinal()


def typed_column(values: Sequence[Any]) -> tuple[Cells, list[int]] | str:
    """A column, and the rows with white space around a text; or the name of any other type.

    Numbers, booleans and decimals make a column of numbers; dates one of dates; anything mixed is text, in which a
    number has its one text ("7" for 7.0). Integers that a float cannot hold make the column text.
    """
    present = [value for value in map(_item, values) if value is not None]
    kinds = {_kind(value) for value in present}
    other = sorted(kind for kind in kinds if kind not in ("number", "large", "date", "text"))
    if other:
        return other[0]
    if kinds == {"number"}:
        return Numbers(np.array([np.nan if (item := _item(each)) is None else float(item) for each in values])), []
    if kinds == {"date"}:
        return Numbers(
            np.array([np.nan if (item := _item(each)) is None else _days(item) for each in values]), "date"
        ), []
    texts, spaces = clean(["" if (item := _item(each)) is None else _text(item) for each in values])
    return Texts(texts), spaces


def _item(value: Any) -> Any:
    """A cell as a Python object; None if it is missing: None, NaN, NaT or pandas' NA."""
    if value is None or isinstance(value, str):
        return value
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, np.generic):
        value = value.item() if not isinstance(value, np.datetime64) else value.astype("datetime64[us]").item()
    if isinstance(value, float | Decimal) and value != value:
        return None
    return value


def _kind(value: Any) -> str:
    if isinstance(value, str | UUID):
        return "text"
    if isinstance(value, Integral):
        return "number" if abs(int(value)) <= _EXACT else "large"
    if isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
        return "large" if whole and abs(value) > _EXACT else "number"
    if isinstance(value, Real):
        return "number"
    return "date" if isinstance(value, date) else type(value).__name__


def _days(value: date) -> float:
    if not isinstance(value, datetime):
        return float(value.toordinal() - _EPOCH)
    if value.tzinfo is not None:
        value = value.astimezone(UTC)
    days = value.toordinal() - _EPOCH
    seconds = days * 86400 + value.hour * 3600 + value.minute * 60 + value.second
    return days_of(seconds * 1_000_000 + value.microsecond)


def _text(value: Any) -> str:
    match _kind(value):
        case "large":
            return str(int(value))
        case "number" if np.isfinite(float(value)):
            return canonical(float(value))
        case "date":
            return str(value.isoformat())
    return str(value)
