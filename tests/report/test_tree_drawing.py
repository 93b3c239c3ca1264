"""Trees of splits as pictures."""

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.report.chart import Chart, standalone
from tacit.report.tree_drawing import Node

SVG = "{http://www.w3.org/2000/svg}"


def parsed(*nodes):
    chart = Chart("c", "Title", "Caption.", "", (), tree=tuple(nodes))
    return ElementTree.fromstring(standalone(chart).encode())  # noqa: S314 - our own output


def drawn(root):
    """Of each node in the order of its rows: what it says, its place, and its style."""
    found = []
    for group in root.iter(f"{SVG}g"):
        circle, text = group.find(f"{SVG}circle"), group.find(f"{SVG}text")
        found.append((text.text, float(circle.get("cx")), float(circle.get("cy")), circle.get("class")))
    return sorted(found, key=lambda each: each[2])


SMALL = (
    Node("age ≤ 35", "bank", (1, 2)),
    Node("feature 2 in bins 1–4", "shop", (3, 4), 1),
    Node("+0.5"),
    Node("-0.2"),
    Node("+0.1"),
)


def test_what_goes_left_is_above_its_split_and_each_owner_has_a_colour():
    found = drawn(parsed(*SMALL))
    assert [words for words, *_ in found] == ["-0.2", "feature 2 in bins 1–4", "+0.1", "age ≤ 35", "+0.5"]
    styles = {words: style for words, _, _, style in found}
    assert styles == {
        "age ≤ 35": "dot blue",
        "feature 2 in bins 1–4": "dot amber",
        "-0.2": "dot grey",
        "+0.1": "dot grey",
        "+0.5": "dot grey",
    }
    across = {words: x for words, x, _, _ in found}
    assert across["age ≤ 35"] < across["+0.5"] == across["feature 2 in bins 1–4"] < across["-0.2"] == across["+0.1"]
    texts = [each.text for each in parsed(*SMALL).iter(f"{SVG}text")]
    assert {"bank", "shop", "Title", "Caption."} <= set(texts)


def test_no_line_crosses_words():
    """Lines are vertical at a parent and level at a child, and the words of a node begin to the right of it."""
    root = parsed(*SMALL)
    words = {(x, y) for _, x, y, _ in drawn(root)}
    for path in root.iter(f"{SVG}path"):
        start, rest = path.get("d").removeprefix("M").split("V")
        across, down = (float(each) for each in start.split())
        level = float(rest.split("H")[0])
        for x, y in words:
            assert not (x + 10 <= across and min(down, level) < y < max(down, level))


def test_a_tip_names_the_owner_and_holds_all_words():
    long = "a column with a name that is much too long for the width of a picture, which is cut ≤ 0.125"
    root = parsed(Node(long, "bank", (1, 2)), Node("+1"), Node("-1"))
    assert f"bank: {long}" in [each.text for each in root.iter(f"{SVG}title")]
    assert any(text.endswith("…") for text, *_ in drawn(root))


def test_names_are_text_and_nothing_else():
    nasty = "</svg><script>alert(1)</script>"
    assert not list(parsed(Node(nasty, nasty, (1, 2)), Node(nasty), Node("")).iter(f"{SVG}script"))


def test_very_deep_trees_are_cut_and_say_so():
    nodes = []  # node 2k is a split, node 2k + 1 its left leaf
    for level in range(30):
        nodes += [Node(f"split {level}", "bank", (2 * level + 1, 2 * level + 2)), Node("leaf")]
    found = drawn(parsed(*nodes, Node("end")))
    assert len(found) == 21
    assert sum("more below" in words for words, *_ in found) == 1


@given(
    st.lists(
        st.builds(
            Node,
            st.text(max_size=5),
            st.sampled_from(["", "a", "b"]),
            st.lists(st.integers(-2, 12), max_size=3).map(tuple),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_any_nodes_are_drawn_once_at_most_and_inside(nodes):
    found = drawn(parsed(*nodes))
    assert 1 <= len(found) <= len(nodes)
    assert all(0 <= x <= 480 for _, x, *_ in found)
    assert len({y for _, _, y, _ in found}) == len(found)


@pytest.mark.parametrize("count", [1, 7])
def test_the_picture_is_as_high_as_it_has_nodes(count):
    nodes = [Node("leaf")] if count == 1 else [Node("s", "a", (2 * i + 1, 2 * i + 2)) for i in range(3)]
    root = parsed(*nodes, *[Node("leaf")] * (count - len(nodes)))
    height = float(root.get("viewBox").split()[3])
    assert height > 18 * count
