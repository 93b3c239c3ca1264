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
from functools import lru_cache
from itertools import accumulate
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


def place(patch: Patch, folder: Path) -> Place:
    """Where `patch` belongs in the Python sources below `folder`."""
    known, found = 0, []
    pattern = re.compile(r"\s+".join(map(re.escape, patch.old.split())))
    last = patch.function.rpartition(".")[2]
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if f"def {last}(" not in source:
            continue
        for name, start, stop in _functions(source):
            if name == patch.function:
                known += 1
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


@lru_cache(maxsize=256)
def _functions(source: str) -> list[tuple[str, int, int]]:
    """All functions and methods by their qualified names, with where their bodies begin and end."""
    lengths = [len(line) + 1 for line in source.split("\n")]
    starts = [0, *accumulate(lengths)]
    return [(name, starts[first - 1], starts[last]) for name, first, last in _bodies(ast.parse(source), "")]


def _bodies(tree: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Lines, without those of the docstring: words about the code are not code."""
    for node in ast.iter_child_nodes(tree):
        inner = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body
            yield prefix + node.name, body[0].lineno, body[-1].end_lineno or body[-1].lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{prefix}{node.name}."
        yield from _bodies(node, inner)
