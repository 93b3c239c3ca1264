"""Ids as all parties write them, and the rows that are kept for them.

An id is one column, or a key made of several: then it is a hash, which is the same at every party whose parts are. Each
part is compared as `tacit.align.intersection.normalised` does it, in Unicode's form NFC and without white space around;
with `casefold` capital letters do not count either. Rows that are the same in every cell are one row.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.crypto.byte_strings import frame
from tacit.tables.cells import Ints, Raw, canonical_texts
from tacit.tables.problems import Problem, Severity, counted
from tacit.tables.settings import Data, Ids

_KEY_CHARACTERS = 32  # of a hash: 128 bits
_MOST, _SPARSE = 0.8, 0.1  # of ids of digits: one width; how many of the possible numbers come
_SHORT = 4  # digits: shorter ids are numbered from 1


@dataclass(frozen=True, slots=True, eq=False)
class Identified:
    """The ids of the rows that are kept, their row numbers in the table, and what is wrong with ids."""

    ids: list[str]
    rows: Ints
    problems: tuple[Problem, ...]


def ids_of(raw: Raw, data: Data, columns: Sequence[str] | None = None) -> Identified:
    """The ids of a table. `columns`: those that hold them; by default what `data.id` names, or the first."""
    names = columns or ((data.id,) if isinstance(data.id, str) else data.id) or raw.names[:1]
    parts = [canonical_texts(raw.column(name)) for name in names]
    label = " + ".join(names)
    problems = []
    for name, texts in zip(names, parts, strict=True):
        problems += _doubts(raw, name, texts, data.ids)
    own = [normal(texts, data.ids) for texts in parts]
    ids = own[0] if len(own) == 1 else [key(row) for row in zip(*own, strict=True)]
    blank = [row for row, cells in enumerate(zip(*own, strict=True)) if not all(cells)] if _any_blank(own) else []
    if blank:
        what = f"{counted(len(blank), 'row has', 'rows have')} no id"
        problems.append(raw.problem("error", "blank id", what, "fill it in, or remove the row", label, blank))
    if len(set(ids)) == len(ids):
        return Identified(ids, np.arange(len(ids), dtype=np.int64), tuple(problems))
    kept, again, same = _once(raw, ids, set(blank), {raw.names.index(name) for name in names})
    if same:
        what = f"{counted(len(same), 'row is', 'rows are')} the same as an earlier one in every cell"
        problems.append(raw.problem("warning", "same row", what, "each is taken once", label, same))
    if again:
        what = f"{counted(len(again), 'row has', 'rows have')} the id of an earlier row with other cells"
        refuse = data.ids.dedupe == "refuse"
        remedy = "keep one, or set ids: {dedupe: first}" if refuse else "the first row of each id is taken"
        texts = [parts[0][row] for row in again] if len(parts) == 1 else []
        severity: Severity = "error" if refuse else "warning"
        problems.append(raw.problem(severity, "id twice", what, remedy, label, again, texts))
    rows = np.array(kept, dtype=np.int64)
    return Identified([ids[row] for row in kept], rows, tuple(problems))


def normal(texts: Sequence[str], settings: Ids) -> list[str]:
    """Ids as they are compared."""
    joined = "".join(texts)
    if joined.isascii() and joined.split() == [joined]:
        return [text.casefold() for text in texts] if settings.casefold else list(texts)
    return [_normal(text, settings) for text in texts]


def _normal(text: str, settings: Ids) -> str:
    text = unicodedata.normalize("NFC", text).strip()  # as an alignment does it, whatever `strip` says
    return unicodedata.normalize("NFC", text.casefold()) if settings.casefold else text


def key(parts: Sequence[str]) -> str:
    """One id of several parts: SHA-256 over the parts, each behind its length, in hexadecimal."""
    framed = frame(b"tacit id key", *(part.encode("utf-8", "surrogatepass") for part in parts))
    return hashlib.sha256(framed).hexdigest()[:_KEY_CHARACTERS]


def _any_blank(parts: Sequence[Sequence[str]]) -> bool:
    return any("" in texts for texts in parts)


def _once(raw: Raw, ids: Sequence[str], blank: set[int], places: set[int]) -> tuple[list[int], list[int], list[int]]:
    """The rows to keep, those with the id of an earlier one, and those that are the same as it in every cell."""
    others = [canonical_texts(column) for place, column in enumerate(raw.columns) if place not in places]
    first: dict[str, int] = {}
    kept, again, same = [], [], []
    for row, each in enumerate(ids):
        earlier = row if row in blank else first.setdefault(each, row)
        if earlier == row:
            kept.append(row)
        elif all(cells[row] == cells[earlier] for cells in others):
            same.append(row)
        else:
            again.append(row)
    return kept, again, same


def _doubts(raw: Raw, name: str, texts: Sequence[str], settings: Ids) -> list[Problem]:
    """Ids that may be written in another way at other parties."""
    problems = []
    if padded := (raw.padded or {}).get(name, ()):
        what = f"{counted(len(padded), 'id has', 'ids have')} white space around"
        remedy = "it is left out" if settings.strip else "correct them, or set ids: {strip: true}"
        problems.append(raw.problem("warning" if settings.strip else "error", "id spaces", what, remedy, name, padded))

    def doubt(kind: str, rows: Sequence[int], what: tuple[str, str], remedy: str) -> None:
        if rows:
            cells = [texts[row] for row in rows]
            problems.append(raw.problem("warning", kind, counted(len(rows), *what), remedy, name, rows, cells))

    if not settings.casefold:
        differ = " from another one in capital letters only"
        remedy = "if they mean the same, set ids: {casefold: true} at every party"
        doubt("id case", _spelled_twice(texts), (f"id differs{differ}", f"ids differ{differ}"), remedy)
    for kind, pattern, what_is, remedy in _SPREADSHEET:
        rows = [row for row, text in enumerate(texts) if pattern.fullmatch(text)] if _may(kind, texts) else []
        doubt(kind, rows, what_is, remedy)
    fewer = ("id has fewer digits than most", "ids have fewer digits than most")
    doubt("id zeros", _lost_zeros(texts), fewer, "if zeros in front were lost, put them back")
    return problems


_SPREADSHEET = (
    (
        "id exponent",
        re.compile(r"[0-9]+([.,][0-9]+)?[eE]\+?[0-9]+"),
        ("id is written as 1.23E+05", "ids are written as 1.23E+05"),
        "a spreadsheet rounded them: take them from the source again, as text",
    ),
    (
        "id decimals",
        re.compile(r"[0-9]+[.,]0+"),
        ("id ends in .0", "ids end in .0"),
        "they were numbers with missing values among them: write them without it",
    ),
)


def _may(kind: str, texts: Sequence[str]) -> bool:
    """Whether a search by a pattern can find anything: one look at all the text is cheaper."""
    joined = "".join(texts)
    return ("e" in joined.lower()) if kind == "id exponent" else (".0" in joined or ",0" in joined)


def _spelled_twice(texts: Sequence[str]) -> list[int]:
    joined = "".join(texts)
    if joined.lower() == joined or joined.upper() == joined:
        return []
    spellings: dict[str, str] = {}
    return [row for row, text in enumerate(texts) if text and spellings.setdefault(text.casefold(), text) != text]


def _lost_zeros(texts: Sequence[str]) -> list[int]:
    """Rows with fewer digits than most, if ids are digits of one width: not those that count 1, 2, 3, … 10, 11."""
    if not "".join(texts).isdecimal():
        return []
    widths = Counter(map(len, filter(None, texts)))
    width, many = widths.most_common(1)[0]
    if width < _SHORT or len(widths) == 1 or max(widths) > width or many < _MOST * widths.total():
        return []
    whole = any(text[0] == "0" for text in texts if len(text) == width)
    if not whole and len(set(texts)) > _SPARSE * max(int(text) for text in texts if text):
        return []
    return [row for row, text in enumerate(texts) if 0 < len(text) < width]
