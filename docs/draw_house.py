"""Draw the house, docs/plots/house.svg, from the layers that `make check` holds: python docs/draw_house.py

A test compares the picture with what this draws, so that it cannot fall behind.
"""

from __future__ import annotations

import re
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "plots" / "house.svg"
WORDS = {  # what lies in a layer, by its first name
    "__main__": "",
    "board": "a page of this machine that follows runs",
    "cli": "commands: a sentence and an exit code for each end",
    "tasks": "the door for authors of tasks · glue for Flower fleets",
    "runs": "the verbs: load, plan, run, join, predict, audit, report, export",
    "kinds": "one folder a kind: horizontal, vertical_logistic, split, private_training",
    "lockstep": "what parties in lock step share",
    "kind": "what a kind is, and which kinds there are",
    "audit": "attacks and auditors that fit any kind; what an audit found",
    "report": "pages, charts, forecasts",
    "net": "parties on different machines · what a run leaves on disk · clusters",
    "config": "a file becomes settings",
    "training": "libraries: private SGD, alignment, secure aggregation, transfers, tables, splits",
    "wire": "typed messages and the channels they travel on",
    "crypto": "masks, shares, Paillier, signatures · mechanisms, noise, ledgers",
    "door": "the bottom: no imports of our own below",
}
WIDTH, ROW, GAP, LEFT = 1120, 34, 6, 590
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1b1f24 } .name { font-weight: 600 }
rect { fill: #eef2f7; stroke: #b8c4d3 } .kinds { fill: #d9ead3; stroke: #93b88a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ee } rect { fill: #242a33; stroke: #4b5666 } .kinds { fill: #274028; stroke: #5d8a5f }
}
"""


def layers() -> list[list[str]]:
    """The names of each layer, from the top."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (found,) = [each["layers"] for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    return [re.findall(r"\w+", layer) for layer in found]


def drawn() -> str:
    """The picture as SVG."""
    rows = [names for names in layers() if names != ["__main__"]]
    height = len(rows) * (ROW + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>The packages of Tacit in layers: imports point down only</title>",
        f"<style>{STYLE}</style>",
    ]
    for number, names in enumerate(rows):
        top = GAP + number * (ROW + GAP)
        shown = "kinds" if "kinds" in names else "layer"
        parts.append(f'<rect class="{shown}" x="{GAP}" y="{top}" width="{WIDTH - 2 * GAP}" height="{ROW}" rx="5"/>')
        parts.append(f'<text class="name" x="18" y="{top + 22}">{escape(" · ".join(names))}</text>')
        parts.append(f'<text x="{LEFT}" y="{top + 22}">{escape(WORDS[names[0]])}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)} is drawn.")
