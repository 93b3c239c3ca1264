"""Links of a page, rewritten for the site: a file outside docs/ becomes a page of it, or an address of the source."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = "https://github.com/tacit-learning/tacit/blob/main/"  # where files outside the site are read

_INCLUDE = re.compile(r"\A<!-- include (\S+) -->\s*\Z")
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def included(markdown: str) -> Path | None:
    """The file outside docs/ that a page stands for, or None."""
    found = _INCLUDE.match(markdown)
    return ROOT / found.group(1) if found else None


def pages_of_files() -> dict[Path, Path]:
    """Each file outside docs/ that is a page of the site, and that page."""
    found = {}
    for page in sorted(DOCS.rglob("*.md")):
        if (source := included(page.read_text(encoding="utf-8"))) is not None:
            found[source] = page
    return found


def rewritten(markdown: str, source: Path, page: Path) -> str:
    """The text of `source`, with its links as the page `page` of the site needs them.

    A link to a file of the site stays relative; one to a folder of it takes its index; any other file of the
    repository is linked in the source. Code blocks are left alone.
    """
    pages = pages_of_files()

    def one(match: re.Match[str]) -> str:
        return f"{match.group(1)}{_target(match.group(2), source, page, pages)}{match.group(3)}"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(one, part) for part in parts)


def _target(link: str, source: Path, page: Path, pages: dict[Path, Path]) -> str:
    path, mark, anchor = link.partition("#")
    if not path or "://" in path or path.startswith(("mailto:", "/")):
        return link
    file = Path(os.path.normpath(source.parent / path))
    file = pages.get(file, file)
    if file.is_dir() and (file / "index.md").exists():
        file /= "index.md"
    if not file.is_relative_to(DOCS):
        return f"{SOURCE}{file.relative_to(ROOT).as_posix()}{mark}{anchor}"
    return Path(os.path.relpath(file, page.parent)).as_posix() + mark + anchor
