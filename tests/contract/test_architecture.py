"""docs/architecture.md: its picture is drawn from the layers that are checked, and what it names is there."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tacit"
PAGE = ROOT / "docs" / "architecture.md"
EACH_KIND = "each kind has its own"
VERB = "a verb, its command and what it comes to in a kind"
THING = "a thing, and what attacks it, shows it or uses it under the same word"
OWN = "each of two libraries has its own, by the same word of its papers"
SAME_NAME = {  # file stems that stand more than once, and why
    "choose": "what a file leaves open: the engine of a simulation, and what becomes of a column",
    **dict.fromkeys(
        ("boundary", "forecast", "messages", "most", "settings", "task", "costs", "party", "party_forecast"), EACH_KIND
    ),
    **dict.fromkeys(("cancer", "digits", "load", "text"), "built-in data, by the name that files give it"),
    **dict.fromkeys(("audit", "data", "evidence", "export", "join"), VERB),
    **dict.fromkeys(("plan", "predict", "report", "run", "scorecard"), VERB),
    **dict.fromkeys(("labels", "masks", "mechanisms", "page", "promises", "scores", "wire"), THING),
    **dict.fromkeys(("meeting", "prediction", "scales", "training"), "on shares, with a dealer and without one"),
    "recomputed": "what a check of a pack is, and each kind's own",
    "own_table": "a party's table, for every vertical kind, and what the regression adds",
    "record": "what a run left, and what a party sees of a training",
    "files": "those of a run, and those that hold tables",
    "frames": "of the wire, and of pandas and polars",
    **dict.fromkeys(
        (
            "cells",
            "checks",
            "client",
            "evaluation",
            "features",
            "losses",
            "noise",
            "optimizer",
            "pool",
            "progress",
            "release",
            "server",
            "shares",
            "sums",
            "traffic",
        ),
        OWN,
    ),
}


def test_the_picture_is_drawn_from_the_layers() -> None:
    spec = importlib.util.spec_from_file_location("draw_house", ROOT / "docs" / "draw_house.py")
    assert spec is not None
    assert spec.loader is not None
    draw_house = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw_house)
    drawn = draw_house.drawn()
    assert (ROOT / "docs" / "plots" / "house.svg").read_text(encoding="utf-8") == drawn
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert folders == {name for name in folders if re.search(rf"\b{name}\b", drawn)}


def test_what_the_page_names_exists() -> None:
    kinds = [folder.name for folder in (PACKAGE / "kinds").iterdir() if (folder / "__init__.py").exists()]
    text = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"`([a-z_]+(?:/[a-zA-Z_]+)*(?:/|\.py))`", text):
        places = [
            name,
            *(f"kinds/{kind}/{name}" for kind in kinds),
            *(f"kinds/horizontal/{each}/{name}" for each in ("simulate",)),
        ]
        wanted = [place.replace("NAME", "split").replace("KIND", "split") for place in places]
        assert any((base / place).exists() for base in (PACKAGE, ROOT) for place in wanted), name


def test_a_name_that_stands_twice_has_a_reason() -> None:
    stems = Counter(path.stem for path in PACKAGE.rglob("*.py") if path.stem != "__init__")
    twice = {stem for stem, count in stems.items() if count > 1}
    assert twice == SAME_NAME.keys()
