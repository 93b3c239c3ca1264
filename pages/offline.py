"""What a browser would fetch from other hosts to show the built site: nothing may be found.

`python -m pages.offline build/site` lists what it finds, and ends with 1 if there is anything.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

# Attributes whose address a browser fetches to show a page. A link that a reader may follow (`a href`) is not one.
_FETCHED = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "image": ("href", "xlink:href"),
    "img": ("src", "srcset"),
    "input": ("src",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "use": ("href", "xlink:href"),
    "video": ("src", "poster"),
}
_LINKS_NOT_FETCHED = {"alternate", "canonical", "next", "prev"}  # values of rel that only say how pages belong together
_OUTSIDE = re.compile(r"(?:https?:)?//[^\s\"')]+", re.IGNORECASE)
_IN_CSS = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])((?:https?:)?//[^\s\"')]+)", re.IGNORECASE)


class _Fetches(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        names = _FETCHED.get(tag, ())
        if tag == "link" and not set(values.get("rel", "").split()) <= _LINKS_NOT_FETCHED:
            names = ("href", "imagesrcset")
        for name in names:
            self.found += [
                address for address in _OUTSIDE.findall(values.get(name, "")) if _starts(values[name], address)
            ]
        self.found += _IN_CSS.findall(values.get("style", ""))


def _starts(value: str, address: str) -> bool:
    """Whether an address begins a candidate of the value, and is not a part of a relative path."""
    return any(candidate.strip().startswith(address) for candidate in value.split(","))


def fetched_by(text: str, suffix: str) -> list[str]:
    """The addresses of other hosts that a page (`.html`, `.svg`) or a style sheet (`.css`) makes a browser fetch."""
    found = _IN_CSS.findall(text)
    if suffix in {".html", ".svg"}:
        parser = _Fetches()
        parser.feed(text)
        found += parser.found
    return sorted(set(found))


def fetched(site: Path) -> Iterator[tuple[Path, str]]:
    """Each file of the built site with an address that it makes a browser fetch from another host."""
    for path in sorted(site.rglob("*")):
        if path.suffix in {".html", ".css", ".svg"}:
            for address in fetched_by(path.read_text(encoding="utf-8"), path.suffix):
                yield path.relative_to(site), address


def main(site: Path) -> int:
    if not (site / "index.html").exists():
        print(f"{site} holds no built site: run make docs first", file=sys.stderr)
        return 2
    found = list(fetched(site))
    for path, address in found:
        print(f"{path} makes a browser fetch {address}: keep a copy in docs/assets, or leave it out", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
