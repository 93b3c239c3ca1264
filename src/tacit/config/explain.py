"""What is wrong with a value, in plain words: where it stands, what it is, what is expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tacit.config.source import Keys
from tacit.config.spelling import Placed, spots

_LONGEST_VALUE = 60
Schema = dict[str, Any]


def explain(error: ValidationError, placed: Placed) -> list[str]:
    """One line for each mistake. Of a value that may be one thing or another, what is wrong with the nearest."""
    details = error.errors(include_url=False)
    deepest: dict[Keys, int] = {}
    for detail in details:
        if (union := _union(detail)) is not None:
            deepest[union] = max(deepest.get(union, 0), len(detail["loc"]))
    kept = [each for each in details if (union := _union(each)) is None or len(each["loc"]) == deepest[union]]
    return list(dict.fromkeys(_sentence(detail, placed) for detail in kept))


def _union(detail: ErrorDetails) -> Keys | None:
    """The key above the first member of a union, if the mistake is in one: pydantic names it as `dict[str,int]`."""
    parts = [str(part) for part in detail["loc"]]
    place = next((place for place, part in enumerate(parts) if _is_member(part)), None)
    return None if place is None else tuple(parts[:place])


def _is_member(part: str) -> bool:
    return "[" in part and part != "[key]"


def nearest(word: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), None)


def _sentence(detail: ErrorDetails, placed: Placed) -> str:
    path = tuple(part for part in map(str, detail["loc"]) if part != "[key]" and not _is_member(part))
    origin = placed.origin(path)
    schema = _schema(placed.model, path)
    if detail["type"] == "extra_forbidden" or detail["loc"][-1:] == ("[key]",):
        return f"{origin.where}{origin.key} is not a known key{_advice(placed.model, path, schema)}"
    if detail["type"] == "missing":
        return f"{origin.where}{origin.key} is missing: give {_expected(schema)}"
    if detail["type"] == "value_error":  # a model's own words, which name the keys
        words = str(detail["ctx"]["error"])
        if schema.get("type") == "object":
            return f"{_where_named(words, path, placed)}{words}"
        if _union(detail) is not None:
            return f"{origin.where}{origin.key}: {words}"
        return f"{origin.where}{origin.key} is {_shown(detail['input'])}: it {words}"
    finite = detail["type"] == "finite_number"
    return f"{origin.where}{origin.key} is {_shown(detail['input'])}: give {_expected(schema, finite=finite)}"


def _where_named(words: str, path: Keys, placed: Placed) -> str:
    """The place of the first key that the words name, and that was written in this section."""
    for word in re.findall(r"\w+", words):
        for keys, origin in placed.origins.items():
            if keys[: len(path)] == path and keys[-1:] == (word,):
                return origin.where
    return placed.origin(path).where


def _advice(model: type[BaseModel], path: Keys, schema: Schema) -> str:
    """What to write instead of an unknown key."""
    *outer, key = path
    section: type[BaseModel] | None = model
    for name in outer:
        section = spots(section)[name].section if section and name in spots(section) else None
    here = list(spots(section)) if section else schema.get("enum", [])
    elsewhere = {name: full for full in _full_names(model) for name in [full.rpartition(".")[2]]}
    if (near := nearest(key, here)) is not None:
        return f": did you mean {near}?"
    if (near := nearest(key, elsewhere)) is not None:
        return f": did you mean {elsewhere[near]}?"
    return f": known here are {', '.join(here)}" if here else ""


def _full_names(model: type[BaseModel], before: str = "") -> Iterable[str]:
    for key, spot in spots(model).items():
        yield before + key
        if spot.section:
            yield from _full_names(spot.section, f"{before}{key}.")


def _schema(model: type[BaseModel], path: Keys) -> Schema:
    """The JSON schema of a key; of a key of a free mapping, that of its values or, if it is unknown, its keys."""
    whole = _whole(model)
    schema: Schema = whole
    for key in path:
        schema = _resolved(schema, whole)
        within = schema.get("properties", {})
        names = schema.get("propertyNames", {})
        if key in within:
            schema = within[key]
        elif names and key not in names.get("enum", [key]):
            schema = names
        else:
            free = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
            schema = next((each for each in free if isinstance(each, dict)), {})
    return _resolved(schema, whole)


@cache
def _whole(model: type[BaseModel]) -> Schema:
    return model.model_json_schema(by_alias=False)


def _resolved(schema: Schema, whole: Schema) -> Schema:
    """Follow a reference, and leave out the alternative of giving nothing."""
    options = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
    schema = options[0] if len(options) == 1 else schema
    reference = schema.get("$ref", "").rpartition("/")[2]
    return whole["$defs"][reference] if reference else schema


def _expected(schema: Schema, *, finite: bool = False) -> str:
    """What a key takes."""
    if "enum" in schema or "const" in schema:
        *others, last = [_shown(option, quoted=False) for option in schema.get("enum", [schema.get("const")])]
        return f"{', '.join(others)} or {last}" if others else last
    match schema.get("type"):
        case "integer" | "number" as kind:
            noun = "a whole number" if kind == "integer" else "a finite number" if finite else "a number"
            bounds = " and ".join(f"{words} {schema[key]}" for key, words in _BOUNDS.items() if key in schema)
            return f"{noun}{' of' if bounds.startswith('at') else ''} {bounds}".rstrip()
        case "boolean":
            return "true or false"
        case "string":
            return f"text that matches {schema['pattern']}" if "pattern" in schema else "text"
        case "object":
            keys = schema.get("properties", {})
            return f"a section with the keys {', '.join(keys)}" if keys else "a section of keys and values"
        case _:
            return "another value"


_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


def _shown(value: Any, *, quoted: bool = True) -> str:
    """A value as it would stand in the file."""
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case dict():
            return "a section"
        case list() | tuple():
            return "a list"
        case str() if not quoted:
            return value
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
