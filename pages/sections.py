"""The sections of a file as they are in the code: each key with its type, range, default and other spellings."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tacit.sections import Added

_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_NAMES = {int: "whole number", float: "number", str: "text", bool: "true or false"}
# What stands for a free name in a path, by the key of the mapping.
_FREE = {"parties": "PARTY", "data": "PARTY", "columns": "COLUMN"}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a file."""

    path: str  # as in encrypt.dp_encrypt.dp_eps; names that the user chooses in capitals
    owner: str  # the section's class, with its module: two kinds may share one
    name: str
    takes: str  # type and range
    default: str
    also: tuple[str, ...]  # other spellings
    comment: str  # behind the field in the code
    since: str  # as the field is marked; empty if it is not


def keys_of(model: type[BaseModel], before: str = "", flat_at: str | None = None) -> Iterator[Key]:
    """Every key of a section, those of sections inside it after it. `flat_at`: where its keys may stand too."""
    for name, info in model.model_fields.items():
        path = before + name
        inner = dict(_inner(info, name))
        if not inner or None in inner.values():
            also = [before + info.alias] if info.alias else []
            also += [flat_at + each for each in (name, info.alias) if each and flat_at is not None]
            takes = _takes(info.annotation, info.metadata)
            owner = _defining(model, name)
            comment = comments(owner).get(name, "")
            yield Key(
                path,
                f"{owner.__module__}.{owner.__qualname__}",
                name,
                takes,
                _default(info),
                tuple(also),
                comment,
                next((mark.since for mark in info.metadata if isinstance(mark, Added)), ""),
            )
        for tail, section in inner.items():
            if section is not None:
                lifted = before if name in getattr(model, "flat", {}) else None
                yield from keys_of(section, f"{path}{tail}.", lifted)


def _defining(model: type[BaseModel], name: str) -> type:
    """The class that has the field: the section itself, or the one it extends."""
    return next(each for each in model.__mro__ if name in inspect.get_annotations(each))


def _inner(info: FieldInfo, name: str) -> Iterator[tuple[str, type[BaseModel] | None]]:
    """The sections that a value may be: under the key itself, or under names that the user chooses."""
    for option in _options(info.annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            yield "", option
        elif get_origin(option) is dict and len(get_args(option)) == 2:
            section = get_args(option)[1]
            if isinstance(section, type) and issubclass(section, BaseModel):
                yield f".{_FREE.get(name, 'NAME')}", section
            else:
                yield ".*", None
        elif option is not type(None):
            yield "", None


def _options(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _options(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [option for each in get_args(annotation) for option in _options(each)]
    return [annotation]


def _takes(annotation: Any, metadata: list[Any]) -> str:
    """Type and range in words."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return _takes(inner, [*more, *metadata])
    if get_origin(annotation) in (Union, UnionType):
        options = [_takes(each, metadata) for each in get_args(annotation) if each is not type(None)]
        return " or ".join(dict.fromkeys(options))
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{_written(each)}`" for each in get_args(annotation))
    if get_origin(annotation) in (tuple, list):
        return f"list of {_takes(get_args(annotation)[0], [])}"
    if get_origin(annotation) is dict:
        section = get_args(annotation)[1]
        named = isinstance(section, type) and issubclass(section, BaseModel)
        return "section, one for each name" if named else "section of keys and values"
    if annotation is Any:
        return "any value"
    if registered := _registered(metadata):
        return ", ".join(f"`{each}`" for each in registered)
    words = _NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))
    bounds = _bounds(metadata)
    return f"{words}, {bounds}" if bounds else words


def _registered(metadata: list[Any]) -> list[str]:
    """Names that a registry of the package gives (`encrypt_type`)."""
    for each in metadata:
        schema = getattr(each, "__get_pydantic_json_schema__", None)
        if schema is not None and isinstance(each, type):
            return list(schema(None, None)["enum"])
    return []


def _bounds(metadata: list[Any]) -> str:
    found = []
    for each in metadata:
        more = each.metadata if isinstance(each, FieldInfo) else [each]
        for bound in more:
            found += [
                f"{words} {_number(getattr(bound, key))}" for key, words in _BOUNDS.items() if hasattr(bound, key)
            ]
            if pattern := getattr(bound, "pattern", None):
                found.append(_PATTERNS.get(pattern, f"must match `{pattern}`"))
            if getattr(bound, "func", None) is not None:
                found += [words for words in [_SAID.get(bound.func.__name__)] if words]
    return " and ".join(dict.fromkeys(found))


_SAID = {"_address": "HOST:PORT"}
_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,59}$": "letters, digits, `_`, `.` and `-`, at most 60",
    r"^[A-Za-z0-9_]{1,40}$": "letters, digits and `_`, at most 40",
}


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.default_factory() if info.default_factory is not None else info.default  # type: ignore[call-arg]
    if value is None or value is PydanticUndefined:
        return "none"
    return f"`{_written(value)}`"


def _written(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case dict() | tuple() | list():
            return "{}" if not value else str(value)
    return str(value)


@cache
def comments(model: type) -> dict[str, str]:
    """The trailing comment of each field of a class, with the lines of comment that directly follow."""
    try:
        source = inspect.getsource(model)
    except OSError:
        return {}
    lines: dict[int, tuple[bool, str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0]] = (token.line.lstrip().startswith("#"), token.string.lstrip("# "))
    tree = ast.parse(inspect.cleandoc(source) if source[0].isspace() else source).body[0]
    found = {}
    for node in tree.body if isinstance(tree, ast.ClassDef) else []:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words = [lines[each][1] for each in range(node.lineno, (node.end_lineno or 0) + 1) if each in lines]
            following = (node.end_lineno or 0) + 1
            while words and lines.get(following, (False, ""))[0]:
                words.append(lines[following][1])
                following += 1
            found[node.target.id] = " ".join(words)
    return found
