"""Draw docs/plots/who-sees-what.svg, what crosses between the parties of each kind: python docs/draw_who_sees_what.py

A test compares the picture with the output of this script, and each arrow with the release boundary of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "plots" / "who-sees-what.svg"
TITLE = "Who sees what in each kind of training: the parties, and what crosses between them"
WIDTH, EDGE, BOX, PAD = 800, 10, 196, 12
ROW, HEAD, GAP = 34, 30, 16
LEGEND = {
    "clear": "in the clear",
    "noised": "noised",
    "masked": "masked or encrypted",
    "shares": "secret shares",
}
STYLE = """
text { font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1b1f24 }
.kind { font-size: 14px; font-weight: 600 } .name, .mark { font-weight: 600 } .quiet { fill: #57606a }
.page { fill: #ffffff } .party { fill: #eef2f7; stroke: #b8c4d3 } .rule { stroke: #d0d7de }
line, path { stroke-width: 2; fill: none }
.clear { stroke: #b3261e } .noised { stroke: #8a5a00; stroke-dasharray: 9 3 2 3 }
.masked { stroke: #0a5bbf; stroke-dasharray: 8 4 } .shares { stroke: #1a7f37; stroke-dasharray: 2 3 }
.random { stroke: #57606a } .tip { stroke-dasharray: none }
text.clear { fill: #b3261e; stroke: none } text.noised { fill: #8a5a00; stroke: none }
text.masked { fill: #0a5bbf; stroke: none } text.shares { fill: #1a7f37; stroke: none }
text.random { fill: #57606a; stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ee } .quiet { fill: #9aa4b2 }
  .page { fill: #14181d } .party { fill: #242a33; stroke: #4b5666 } .rule { stroke: #3a434f }
  .clear { stroke: #ff8a80 } .noised { stroke: #e3b341 } .masked { stroke: #79c0ff } .shares { stroke: #7ee787 }
  .random { stroke: #9aa4b2 }
  text.clear { fill: #ff8a80 } text.noised { fill: #e3b341 } text.masked { fill: #79c0ff }
  text.shares { fill: #7ee787 } text.random { fill: #9aa4b2 }
}
"""


@dataclass(frozen=True)
class Arrow:
    """What crosses between the two parties of a panel, and how."""

    mark: str  # a key of LEGEND
    words: str
    to: str  # "right", "left" or "both"
    field: str = ""  # MESSAGE.FIELD in the release boundary of the kind; "" for the model, which leaves no client
    given: tuple[str, ...] = ()  # settings under which the field crosses in this way, as for --set
    shown: str = ""  # instead of the mark


@dataclass(frozen=True)
class Panel:
    """One kind: two parties, the arrows between them and, on shares, a dealer below."""

    kind: str
    about: str
    example: str  # a file of this kind
    left: tuple[str, ...]  # the name of the party, then lines about it
    right: tuple[str, ...]
    arrows: tuple[Arrow, ...]
    below: tuple[str, ...] = ()


def _upload(mark: str, words: str, kind: str, field: str, shown: str = "") -> Arrow:
    return Arrow(mark, f"{words} · {kind}", "right", field, (f"encrypt.encrypt_type={kind}",), shown)


PANELS = (
    Panel(
        "horizontal",
        "many clients, one coordinator; encrypt_type selects one of the four uploads",
        "digits.yaml",
        ("each client", "has its records", "sees the model of each round"),
        (
            "coordinator",
            "has the model",
            "sees single updates or, with",
            "masks, only their sum",
            "sees who takes part",
        ),
        (
            Arrow("clear", "model", "left"),
            _upload("clear", "update, sample count, loss", "NOT_ENCRYPT", "Update.vector"),
            _upload("noised", "update", "DP_ENCRYPT", "Update.vector"),
            _upload("masked", "update, sample count", "PW_ENCRYPT", "Masked.words"),
            _upload("masked", "update", "DDP_ENCRYPT", "Masked.words", "masked and noised"),
        ),
    ),
    Panel(
        "vertical_logistic, protocol: masked",
        "the same people, different columns",
        "vertical_cancer.yaml",
        ("each passive", "has features", "sees its own gradients", "keeps its own weights"),
        (
            "active",
            "has labels and features",
            "sees scores: of one passive,",
            "or the sum of several",
            "keeps its own weights",
        ),
        (
            Arrow("clear", "scores w·x, of a single passive", "right", "Scores.words"),
            Arrow(
                "masked", "scores w·x, of several passives", "right", "Scores.words", ("parties.shop={role: passive}",)
            ),
            Arrow("masked", "residues", "left", "Residues.ciphertexts", shown="encrypted"),
            Arrow("masked", "gradient", "right", "MaskedGradient.ciphertexts", shown="masked and encrypted"),
            Arrow("masked", "the same gradient, decrypted", "left", "Decrypted.values"),
        ),
    ),
    Panel(
        "vertical_logistic, protocol: shared",
        "the same, with a dealer; no party sees scores or gradients",
        "vertical_shared.yaml",
        ("each passive", "has features", "sees its own weights"),
        ("active", "has labels and features", "sees its own weights, figures", "and predictions"),
        (
            Arrow("shares", "tables, weights, scores, residues, gradients", "both", "Opening.words"),
            Arrow("shares", "results, which the receiver adds up", "both", "Revealed.words"),
        ),
        ("dealer", "has no data", "sees the numbers of rows,", "columns and steps"),
    ),
    Panel(
        "vertical_trees",
        "the same, with boosted trees",
        "vertical_trees.yaml",
        ("each passive", "has features", "sees which of its splits", "won, and no rows of nodes"),
        ("active", "has labels and features", "sees sums by bin, from which", "the bins of cells follow"),
        (
            Arrow("masked", "gradients", "left", "Corrections.words"),
            Arrow("shares", "sums of gradients by bin", "right", "ShareSums.words"),
            Arrow("clear", "splits that won", "left", "Divide.left"),
            Arrow("clear", "which rows go left", "right", "Sides.flags"),
        ),
    ),
    Panel(
        "split",
        "one network, cut between parties (V; in U the leader has the records)",
        "split_cancer.yaml",
        ("each follower", "has features and the", "bottom network", "sees gradients"),
        ("leader", "has labels and the", "top network", "sees activations"),
        (
            Arrow("clear", "activations", "right", "Activations.body", ("embedding_dp=null",)),
            Arrow("noised", "activations as bits · EmbeddingDP", "right", "Activations.body"),
            Arrow("clear", "gradients", "left", "Gradient.body"),
            Arrow(
                "noised",
                "gradients · protection: noised",
                "left",
                "Gradient.body",
                ("gradients={protection: noised, clip: 1.0, epsilon: 8, delta: 1.0e-5}",),
            ),
        ),
    ),
    Panel(
        "private_training",
        "one party; nothing is sent while it trains",
        "private_digits.yaml",
        ("party", "has the records", "sees its own losses"),
        ("reader of the model", "sees the trained weights"),
        (Arrow("noised", "model, with ε for each record", "right", "model.safetensors.all"),),
    ),
)
FOOT = (
    "Not drawn: sizes, public keys and who takes part, which cross in the clear; alignment of ids; counts of labels;",
    "inference vectors of the evaluation without labels; predictions. The report of a run lists every field.",
)


def _text(x: float, y: float, words: str, style: str = "", anchor: str = "") -> str:
    named = f' class="{style}"' if style else ""
    placed = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{named}{placed} x="{x:g}" y="{y:g}">{escape(words)}</text>'


def _box(x: float, y: float, height: float, lines: tuple[str, ...]) -> list[str]:
    found = [f'<rect class="party" x="{x:g}" y="{y:g}" width="{BOX}" height="{height:g}" rx="6"/>']
    found.append(_text(x + PAD, y + 21, lines[0], "name"))
    return found + [_text(x + PAD, y + 39 + 16 * place, words) for place, words in enumerate(lines[1:])]


def _tip(x: float, y: float, mark: str, way: int) -> str:
    """The head of an arrow at x, pointing right (1) or left (-1)."""
    return f'<path class="{mark} tip" d="M{x - 8 * way:g} {y - 5:g}L{x:g} {y:g}L{x - 8 * way:g} {y + 5:g}"/>'


def _arrow(arrow: Arrow, y: float) -> list[str]:
    left, right = EDGE + BOX + 10, WIDTH - EDGE - BOX - 10
    words = f'<tspan class="mark">{escape(arrow.shown or arrow.mark)}</tspan> · {escape(arrow.words)}'
    found = [f'<text class="{arrow.mark}" text-anchor="middle" x="{WIDTH / 2:g}" y="{y - 7:g}">{words}</text>']
    found.append(f'<line class="{arrow.mark}" x1="{left:g}" y1="{y:g}" x2="{right:g}" y2="{y:g}"/>')
    if arrow.to in ("right", "both"):
        found.append(_tip(right, y, arrow.mark, 1))
    if arrow.to in ("left", "both"):
        found.append(_tip(left, y, arrow.mark, -1))
    return found


def _dealer(lines: tuple[str, ...], y: float, boxes: float) -> list[str]:
    """A third party in the middle, with an arrow to each of the two others, whose boxes end at `boxes`."""
    x = (WIDTH - BOX) / 2
    found = _box(x, y, 26 + 16 * len(lines), lines)
    bend = y + 24
    for side, edge, way in ((EDGE + BOX / 2, x, "end"), (WIDTH - EDGE - BOX / 2, x + BOX, "start")):
        found.append(f'<path class="random" d="M{edge:g} {bend:g}H{side:g}V{boxes + 2:g}"/>')
        found.append(f'<path class="random" d="M{side - 5:g} {boxes + 10:g}L{side:g} {boxes + 2:g}l5 8"/>')
        near = edge - PAD if way == "end" else edge + PAD
        found.append(_text(near, bend + 17, "random seeds", "random", way))
    return found


def _panel(panel: Panel, top: float) -> tuple[list[str], float]:
    """The panel, and where it ends."""
    found = [f'<line class="rule" x1="{EDGE}" y1="{top:g}" x2="{WIDTH - EDGE}" y2="{top:g}"/>']
    found.append(
        f'<text x="{EDGE}" y="{top + 21:g}"><tspan class="kind">{escape(panel.kind)}</tspan>'
        f'<tspan class="quiet" dx="10">{escape(panel.about)}</tspan></text>'
    )
    y = top + HEAD
    lines = max(len(panel.left), len(panel.right))
    height = max(ROW * len(panel.arrows) + 8, 26 + 16 * lines)
    found += _box(EDGE, y, height, panel.left) + _box(WIDTH - EDGE - BOX, y, height, panel.right)
    first = y + 28 + (height - ROW * len(panel.arrows) - 8) / 2
    for place, arrow in enumerate(panel.arrows):
        found += _arrow(arrow, first + ROW * place)
    if panel.below:
        found += _dealer(panel.below, y + height + 8, y + height)
        height += 8 + 26 + 16 * len(panel.below)
    return found, y + height + GAP


def drawn() -> str:
    """The picture as SVG."""
    parts, x = [], float(EDGE)
    for mark, words in LEGEND.items():
        parts.append(f'<line class="{mark}" x1="{x:g}" y1="22" x2="{x + 34:g}" y2="22"/>')
        parts.append(_text(x + 42, 26, words, f"{mark} mark"))
        x += 76 + 7 * len(words)
    y: float = 44
    for panel in PANELS:
        found, y = _panel(panel, y)
        parts += found
    parts += [_text(EDGE, y + 6 + 16 * place, words, "quiet") for place, words in enumerate(FOOT)]
    y += 16 * len(FOOT) + 6
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:g}" role="img">',
            f"<title>{escape(TITLE)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" x="0" y="0" width="{WIDTH}" height="{y:g}" rx="8"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)} is drawn.")
