"""Patches by name: a piece of text within a function, wherever the function lies.

    Patch("Fast.begin", "multiplier * clip", "multiplier * clip / 2")
    place(patch, folder)            the one place that it changes; PlaceLost if there is none, or more than one
    apply(patches, folder)          changes the files of a copy

A function is addressed by its qualified name and found by parsing the sources, so that a patch survives the move of a
file. White space in the old text stands for any white space, so that it survives a line that is wrapped.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


class PlaceLost(Exception):
    """A patch fits nowhere, or in several places. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class Patch:
    """What to replace in the function `function`. Further lines of `new` are indented as the first one is."""

    function: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Place:
    """Characters of a file."""

    path: Path
    start: int
    stop: int


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions and methods below `tree` with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        else:
            yield from functions(node, prefix)


def place(patch: Patch, folder: Path) -> Place:
    """Where `patch` belongs in the Python sources below `folder`."""
    known, found = 0, []
    pattern = re.compile(r"\s+".join(map(re.escape, patch.old.split())))
    last = patch.function.rpartition(".")[2]
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if f"def {last}(" not in source:
            continue
        for name, node in functions(ast.parse(source)):
            if name == patch.function:
                known += 1
                start, stop = _span(source, node)
                found += [Place(path, m.start(), m.end()) for m in pattern.finditer(source, start, stop)]
    if len(found) != 1:
        reason = f"no function {patch.function}" if not known else f"{len(found)} times {patch.old!r} in it"
        raise PlaceLost(f"the patch of {patch.function} lost its place, there is {reason}: it must fit exactly once")
    return found[0]


def apply(patches: Sequence[Patch], folder: Path) -> None:
    """Change the files below `folder`."""
    for patch in patches:
        here = place(patch, folder)
        source = here.path.read_text(encoding="utf-8")
        line = source[source.rfind("\n", 0, here.start) + 1 : here.start]
        indent = line[: len(line) - len(line.lstrip())]
        changed = source[: here.start] + patch.new.replace("\n", f"\n{indent}") + source[here.stop :]
        ast.parse(changed)  # a fault that cannot be imported would be noticed for the wrong reason
        here.path.write_text(changed, encoding="utf-8")


def _span(source: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """The characters of a function, without its docstring: words about the code are not code."""
    lines = [f"{line}\n" for line in source.split("\n")]
    body = node.body
    if ast.get_docstring(node) is not None and len(body) > 1:
        body = body[1:]
    assert node.end_lineno is not None  # noqa: S101  # parsed from text
    return sum(map(len, lines[: body[0].lineno - 1])), sum(map(len, lines[: node.end_lineno]))
