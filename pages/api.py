"""The pages docs/reference/api-PACKAGE.md: every promised name with its signature and docstring."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LIST = Path(__file__).resolve().parent.parent / "docs" / "api.md"  # what is promised, module by module
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def modules() -> dict[str, dict[str, str]]:
    """Each public module, and its names with the sentence of docs/api.md."""
    parts = re.split(r"^## `(.+)`$", LIST.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    entry = re.compile(r"^- `(.+?)`: (.+)$", re.MULTILINE)
    return {module: dict(entry.findall(text)) for module, text in zip(parts[::2], parts[1::2], strict=True)}


def groups() -> list[str]:
    """The packages that have a page of their own: the second part of a module's name."""
    return list(dict.fromkeys(_group(module) for module in modules()))


def _group(module: str) -> str:
    return ".".join(module.split(".")[:2])


def page(group: str) -> str:
    """The page of the promised names of a package."""
    lines = [
        f"# {group}",
        "",
        "Made by `python -m pages` from the docstrings. The list of promised names is in [public names](../api.md).",
    ]
    for module, names in modules().items():
        if _group(module) != group:
            continue
        lines += ["", f"## {module}", ""]
        loaded = importlib.import_module(module)
        if words := _doc(loaded):
            lines += [words.partition("\n\n")[0], ""]
        for name, sentence in names.items():
            lines += _entry(module, name, getattr(loaded, name), sentence)
    return "\n".join(lines).rstrip() + "\n"


def _entry(module: str, name: str, value: Any, sentence: str) -> Iterator[str]:
    yield from [f"### `{module}.{name}`", "", f"{sentence[0].upper()}{sentence[1:]}", ""]
    if inspect.isclass(value) or inspect.isroutine(value):
        yield from ["```python", _signature(name, value), "```", ""]
        yield from _words(value)
    if inspect.isclass(value):
        for method, inner in _methods(value):
            yield from [f"**`{method}`**", "", "```python", _signature(method, inner), "```", ""]
            yield from _words(inner)


def _words(value: Any) -> Iterator[str]:
    """The docstring: its first paragraph as prose, the rest as it is laid out."""
    first, _, rest = _doc(value).partition("\n\n")
    if first:
        yield from [first, ""]
    if rest:
        yield from ["```text", rest, "```", ""]


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods of a class of this package, in the order of the source."""
    if not kind.__module__.startswith("tacit"):
        return
    for name, inner in vars(kind).items():
        inner = inner.__func__ if isinstance(inner, classmethod | staticmethod) else inner
        if not name.startswith("_") and inspect.isfunction(inner):
            yield name, inner


def _signature(name: str, value: Any) -> str:
    """The call as it is written in Python, one argument a line if it is long."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    arguments = list(_arguments(signature))
    result = "" if signature.return_annotation is signature.empty else f" -> {_type(signature.return_annotation)}"
    line = f"{name}({', '.join(arguments)}){result}"
    return line if len(line) <= 100 else "\n".join([f"{name}(", *(f"    {each}," for each in arguments), f"){result}"])


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    """Each argument, with the marks `/` and `*` between those that are given by position and by name."""
    parameters = list(signature.parameters.values())
    for index, each in enumerate(parameters):
        before = parameters[index - 1].kind if index else None
        if each.kind is each.KEYWORD_ONLY and before not in (each.KEYWORD_ONLY, each.VAR_POSITIONAL):
            yield "*"
        star = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        typed = "" if each.annotation is each.empty else f": {_type(each.annotation)}"
        default = "" if each.default is each.empty else f"{' = ' if typed else '='}{_value(each.default)}"
        yield f"{star}{each.name}{typed}{default}"
        after = parameters[index + 1].kind if index + 1 < len(parameters) else None
        if each.kind is each.POSITIONAL_ONLY and after is not each.POSITIONAL_ONLY:
            yield "/"


def _type(annotation: Any) -> str:
    return annotation.strip("\"'") if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _value(default: Any) -> str:
    return default.__name__ if inspect.isfunction(default) else _ADDRESS.sub("", repr(default))


def _doc(value: Any) -> str:
    words = inspect.getdoc(value) if not inspect.isclass(value) else value.__doc__
    if words is None or (inspect.isclass(value) and words.startswith(f"{value.__name__}(")):
        return ""
    return _ADDRESS.sub("", inspect.cleandoc(words))
