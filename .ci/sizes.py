"""No module above 450 lines and no function above 60 in src/."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

MODULE, FUNCTION = 450, 60
PACKAGE = Path(__file__).parents[1] / "src" / "tacit"


def found() -> dict[str, int]:
    """What is too long, and how long it is."""
    long = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source, name = path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix()
        if (lines := len(source.splitlines())) > MODULE:
            long[name] = lines
        long |= {f"{name} {function}": lines for function, lines in _functions(ast.parse(source)) if lines > FUNCTION}
    return long


def _functions(node: ast.AST, inside: str = "") -> list[tuple[str, int]]:
    listed = []
    for child in ast.iter_child_nodes(node):
        name = inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{inside}.{child.name}".lstrip(".")
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            listed.append((name, (child.end_lineno or child.lineno) - child.lineno + 1))
        listed += _functions(child, name)
    return listed


def main() -> int:
    long = found()
    for name, lines in long.items():
        print(f"{name} has {lines} lines: at most {FUNCTION if ' ' in name else MODULE}, so divide it")
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
