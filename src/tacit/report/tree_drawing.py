"""A tree of splits from left to right: each node has a row of its own, what a split sends left is above it.

In this order no line crosses words. Each owner of splits has a colour, leaves have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tacit.report.markup import Markup, element, join

_COLOURS = ("blue", "amber", "teal", "violet", "green")  # as in styles/chart.css
_ROW, _STEP, _RADIUS = 18.0, 20.0, 4.5  # pixels
_LETTER = 6.4
_DEEPEST = 10  # levels that are drawn


@dataclass(frozen=True, slots=True)
class Node:
    """A node: what it says, whose split it is (nobody's: a leaf), and the two nodes below it by their numbers."""

    words: str
    owner: str = ""
    children: tuple[int, ...] = ()
    colour: int = 0  # of its owner: the same in all pictures of a page


@dataclass(frozen=True, slots=True)
class _Placed:
    node: Node
    row: int
    depth: int
    above: int | None  # the row of its parent
    hidden: bool  # whether there is more below it that is not drawn


def drawn_tree(nodes: Sequence[Node], width: float, top: float) -> tuple[float, Markup]:
    """The height of the tree, and what is in it: below `top`, with a legend of owners first."""
    placed = list(_placed(nodes))
    colours = {node.owner: _COLOURS[node.colour % len(_COLOURS)] for node in nodes if node.owner}
    found, top = _legend(colours, width, top)

    def at(depth: int, row: float) -> tuple[float, float]:
        return 14 + _STEP * depth, top + 10 + _ROW * row

    for each in placed:
        if each.above is not None:
            across, down = at(each.depth - 1, each.above)
            here, level = at(each.depth, each.row)
            gap = _RADIUS if each.row > each.above else -_RADIUS
            path = f"M{across:.1f} {down + gap:.1f}V{level:.1f}H{here - _RADIUS:.1f}"
            found.append(element("path", class_="axis", d=path))
    for each in placed:
        found.append(_drawn(each, *at(each.depth, each.row), colours, width))
    return top + _ROW * len(placed) + 14, join(*found)


def _placed(nodes: Sequence[Node]) -> Iterator[_Placed]:
    """The nodes that can be reached from the first one, in the order of their rows.

    A child comes after its parent, and is the child of one node only: what an edited file says otherwise is left out.
    """
    reached = {0}
    parts: dict[int, list[int]] = {}
    depth = {0: 0}
    for number, node in enumerate(nodes):
        below = [child for child in node.children if number < child < len(nodes) and child not in reached]
        if number in reached and len(node.children) == 2 and len(set(below)) == 2:
            shown = depth[number] < _DEEPEST
            parts[number] = below if shown else []
            reached.update(below if shown else ())
            depth |= dict.fromkeys(below if shown else (), depth[number] + 1)
    order = list(_in_order(0, parts)) if nodes else []
    rows = {number: row for row, number in enumerate(order)}
    above = {child: rows[parent] for parent, below in parts.items() for child in below}
    for number in order:
        hidden = number in parts and not parts[number]
        yield _Placed(nodes[number], rows[number], depth[number], above.get(number), hidden)


def _in_order(number: int, parts: dict[int, list[int]]) -> Iterator[int]:
    below = parts.get(number) or []
    if below:
        yield from _in_order(below[0], parts)
    yield number
    if below:
        yield from _in_order(below[1], parts)


def _legend(colours: dict[str, str], width: float, top: float) -> tuple[list[Markup], float]:
    found, left = [], 8.0
    for owner, colour in colours.items():
        shown = _cut(owner, 30)
        wide = 24 + _LETTER * len(shown) + 16
        if left > 8 and left + wide > width:
            left, top = 8.0, top + _ROW
        found.append(element("circle", class_=f"dot {colour}", cx=left + 6, cy=top + 9, r=_RADIUS))
        found.append(element("text", shown, class_="legend", x=left + 18, y=top + 13))
        left += wide
    return found, top + _ROW + 6 if colours else top


def _drawn(each: _Placed, x: float, y: float, colours: dict[str, str], width: float) -> Markup:
    words = each.node.words + (" … more below" if each.hidden else "")
    style = f"dot {colours[each.node.owner]}" if each.node.owner else "dot grey"
    room = int((width - x - 12 - 8) / _LETTER)
    whose = f"{each.node.owner}: " if each.node.owner else ""
    return element(
        "g",
        element("title", f"{whose}{words}"),
        element("circle", class_=style, cx=x, cy=y, r=_RADIUS if each.node.owner else 2.5),
        element("text", _cut(words, room), class_="legend", x=x + 10, y=y + 4),
    )


def _cut(words: str, letters: int) -> str:
    return words if len(words) <= letters else f"{words[: max(1, letters - 1)]}…"
