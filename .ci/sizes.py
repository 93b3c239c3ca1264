"""No module above 450 lines and no function above 60 in src/, but for those below: the list only shrinks."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

MODULE, FUNCTION = 450, 60
PACKAGE = Path(__file__).parents[1] / "src" / "tacit"
STILL_TOO_LONG = {
    "cli/predict.py command": 62,
    "kinds/horizontal/attacks/__init__.py attacks": 68,
    "kinds/horizontal/rounds_view.py rounds_of": 62,
    "store/log_lines.py _words": 74,
}


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
    long, wrong = found(), []
    for name, lines in long.items():
        allowed = STILL_TOO_LONG.get(name)
        if allowed is None:
            wrong.append(f"{name} has {lines} lines: at most {FUNCTION if ' ' in name else MODULE}, so divide it")
        elif lines > allowed:
            wrong.append(f"{name} grew from {allowed} to {lines} lines: it was too long already, so divide it")
        elif lines < allowed:
            wrong.append(f"{name} has {lines} lines and not {allowed} any more: write that into {Path(__file__).name}")
    for name in sorted(STILL_TOO_LONG.keys() - long.keys()):
        wrong.append(f"{name} is short enough, or gone: take it out of {Path(__file__).name}")
    print("\n".join(wrong) or f"{len(long)} modules and functions are too long still, none more.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
