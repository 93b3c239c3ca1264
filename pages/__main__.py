"""Write the generated pages: python -m pages [PAGE...]. With --check, list those that are stale, and end with 1."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from pages import api, benchmarks, events, keys, readme, readme_zh, verbs, wire, wire_vectors

DOCS = Path(__file__).resolve().parent.parent / "docs"
KINDS = ("horizontal", "private_training", "vertical_logistic", "vertical_trees", "split", "local")
PAGES: dict[str, Callable[[], str]] = {
    **{f"reference/keys-{name.replace('_', '-')}.md": partial(keys.page, name) for name in KINDS},
    "benchmarks.md": benchmarks.page,
    "../README.md": readme.page,
    "../README.zh-CN.md": readme_zh.page,
    "reference/commands.md": verbs.page,
    **{f"reference/api-{name.replace('.', '-')}.md": partial(api.page, name) for name in api.groups()},
    "reference/events.md": events.page,
    "reference/wire.md": wire.page,
    "reference/wire-vectors.json": wire_vectors.stored,
}


def stale(names: Iterable[str] = tuple(PAGES)) -> list[str]:
    """The pages that differ from what would be written."""
    return [name for name in names if not (DOCS / name).exists() or _text(DOCS / name) != PAGES[name]()]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        found = stale()
        for name in found:
            print(f"docs/{name} is not what the code says: run python -m pages", file=sys.stderr)
        return 1 if found else 0
    if unknown := [name for name in arguments if name not in PAGES]:
        print(f"{unknown[0]} is no generated page: known are {', '.join(PAGES)}", file=sys.stderr)
        return 2
    for name in stale(arguments or list(PAGES)):
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
