"""Charts: what is drawn, that it is well-formed, and that no text can get out of its place."""

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.report.chart import Chart, Mark, Panel, Series, inline, standalone
from tacit.report.numbers import percent, short
from tacit.report.ticks import linear, logarithmic

SVG = "{http://www.w3.org/2000/svg}"
NASTY = "</svg><script>alert('1')</script>\" onload=\"x\x00\x1b\u202e\ud800"
floats = st.one_of(st.none(), st.floats(width=64))


def chart(*series, **changed):
    panel = Panel("loss", series or (Series("run", ((1, 0.5), (2, 0.25), (3, 0.125))),))
    return replace(Chart("c", "Title", "Caption.", "round", (panel,)), **changed)


def parsed(made):
    return ElementTree.fromstring(standalone(made).encode())  # noqa: S314 - our own output


def of_class(root, name, tag="*"):
    every = root.iter() if tag == "*" else root.iter(f"{SVG}{tag}")
    return [each for each in every if name in (each.get("class") or "").split()]


def tips(root):
    return [title.text for title in root.iter(f"{SVG}title")]


def test_each_point_has_its_place_and_its_tip():
    root = parsed(chart())
    assert tips(root) == ["run, 1: 0.5", "run, 2: 0.25", "run, 3: 0.125"]
    (line,) = [each for each in of_class(root, "line", "path") if each.get("d")]
    points = [tuple(map(float, each.split())) for each in line.get("d")[1:].split("L")]
    assert len(points) == 3
    assert points[0][0] < points[1][0] < points[2][0]
    assert points[0][1] < points[1][1] < points[2][1]  # down the page: the loss falls
    fall = (points[1][1] - points[0][1]) / (points[2][1] - points[1][1])
    assert fall == pytest.approx(2, rel=0.01)


def test_it_names_itself_for_those_who_do_not_see_it():
    root = parsed(chart())
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Title. Caption."
    words = [each.text for each in root.iter(f"{SVG}text")]
    assert "Title" in words
    assert "round" in words
    assert "loss" in words


def test_a_file_has_its_style_and_a_page_gives_its_own():
    assert "prefers-color-scheme: dark" in standalone(chart())
    assert "<style" not in inline(chart())
    assert "http" not in standalone(chart()).replace("http://www.w3.org/2000/svg", "")


def test_the_same_chart_is_the_same_file():
    assert standalone(chart()) == standalone(chart())


def test_what_is_no_number_is_a_gap():
    values = (0.5, 0.4, None, math.nan, 0.3, 0.2, math.inf, 0.1)
    root = parsed(chart(Series("run", tuple(enumerate(values)))))
    (line,) = [each for each in of_class(root, "line", "path") if each.get("d")]
    assert line.get("d").count("M") == 2
    assert line.get("d").count("L") == 2
    assert len(tips(root)) == 5


def test_a_point_between_gaps_is_still_seen():
    points = tuple((x, 1.0 if x != 50 else None) for x in range(100) if x not in (49, 51))
    values = dict(points) | {49: None, 50: 2.0, 51: None}
    root = parsed(chart(Series("run", tuple(sorted(values.items())))))
    assert len(of_class(root, "dot", "circle")) == 1


@pytest.mark.parametrize("points", [(), ((1, None),), ((1, math.nan), (2, math.inf))])
def test_nothing_to_show_is_said(points):
    root = parsed(chart(Series("run", points)))
    assert "Nothing to show." in [each.text for each in root.iter(f"{SVG}text")]


def test_one_point_is_shown():
    root = parsed(chart(Series("run", ((7, 0.25),))))
    (dot,) = of_class(root, "dot", "circle")
    assert 0 < float(dot.get("cx")) < 480
    assert "7" in [each.text for each in of_class(root, "tick")]


def test_dashes_colours_and_the_legend_tell_series_apart():
    clear = Series("clear", ((1, 1.0), (2, 2.0)))
    protected = Series("protected", ((1, 1.5), (2, 2.5)), "red", dashed=True)
    root = parsed(chart(clear, protected))
    assert [each.text for each in of_class(root, "legend", "text")] == ["clear", "protected"]
    dashed = of_class(root, "dashed", "path")
    assert len(dashed) == 2  # the line and its sign in the legend
    assert all("red" in each.get("class") for each in dashed)
    assert not of_class(parsed(chart(clear)), "legend", "text")


def test_bars_stand_on_each_other():
    first = Series("a", ((1, 1.0), (2, 2.0)), kind="bar")
    second = Series("b", ((1, 3.0), (2, 1.0)), "teal", kind="bar")
    bars = [each for each in of_class(parsed(chart(first, second)), "fill", "rect") if float(each.get("width")) > 11.5]
    low, high = bars[0], bars[2]
    assert float(high.get("y")) + float(high.get("height")) == pytest.approx(float(low.get("y")), abs=0.02)
    assert float(high.get("height")) == pytest.approx(3 * float(low.get("height")), abs=0.05)


def test_marks_and_levels():
    panel = Panel(
        "clients", (Series("s", ((1, 5), (2, None), (3, 6)), kind="step"),), (Mark(2, "too few"),), (8.0, "all")
    )
    root = parsed(chart(panels=(panel,)))
    assert "too few" in tips(root)
    assert len(of_class(root, "level")) == 1
    assert "all" in [each.text for each in root.iter(f"{SVG}text")]


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show():
    panel = Panel("ε", (Series("run", ((1, 0.0), (2, -1.0), (3, 1.0), (4, 1000.0))),), log=True)
    root = parsed(chart(panels=(panel,)))
    assert tips(root) == ["run, 3: 1", "run, 4: 1,000"]


def test_text_cannot_get_out_of_its_place():
    series = Series(NASTY, ((1, 1.0), (2, 2.0)), tips=(NASTY, NASTY))
    panel = Panel(NASTY, (series, replace(series, name="b")), (Mark(1, NASTY),), (1.5, NASTY))
    made = Chart("c", NASTY, NASTY, NASTY, (panel,))
    root = parsed(made)
    assert not list(root.iter(f"{SVG}script"))
    assert all("onload" not in each.keys() for each in root.iter())  # noqa: SIM118 - an element's, not a dict's
    assert "<script" not in inline(made)


@given(
    st.lists(st.tuples(st.floats(-1e9, 1e9), floats), max_size=8),
    st.booleans(),
    st.sampled_from(["line", "step", "dots", "bar"]),
)
def test_any_figures_make_a_well_formed_chart(points, log, kind):
    panel = Panel("y", (Series("run", tuple(points), kind=kind), Series("other", tuple(points), kind="line")), log=log)
    for words in standalone(chart(panels=(panel,))).split('"'):
        assert words not in ("nan", "inf", "-inf")
    for each in parsed(chart(panels=(panel,))).iter():
        assert not {"nan", "inf"} & set((each.get("d") or "").replace("M", " ").replace("L", " ").split())


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12))
def test_ticks_are_few_in_order_and_on_the_axis(low, width):
    axis = linear(low, low + width)
    assert 2 <= len(axis.ticks) <= 12
    assert list(axis.ticks) == sorted(axis.ticks)
    slack = 1e-6 * (axis.high - axis.low)
    assert axis.low - slack <= axis.ticks[0]
    assert axis.ticks[-1] <= axis.high + slack


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.0, 1.0, ("0.0", "0.2", "0.4", "0.6", "0.8", "1.0")),
        (0.0, 4.3, ("0", "1", "2", "3", "4", "5")),
        (-1.0, 1.0, ("−1.0", "−0.5", "0.0", "0.5", "1.0")),
        (0.0, 5e7, ("0", "10⁷", "2×10⁷", "3×10⁷", "4×10⁷", "5×10⁷")),
    ],
)
def test_labels_are_round_numbers(low, high, labels):
    assert linear(low, high).labels == labels


def test_counts_have_no_ticks_between_whole_numbers():
    assert linear(1, 3, whole=True).ticks == (1, 2, 3)
    assert all(tick == int(tick) for tick in linear(0, 13, whole=True).ticks)


def test_decades():
    assert logarithmic(2.0, 3e5).labels == ("1", "10", "100", "1,000", "10,000", "100,000", "10⁶")
    assert logarithmic(1.0, 9.0).labels == ("1", "2", "5", "10")
    assert len(logarithmic(1e-20, 1e20).ticks) <= 8


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (-0.5, "−0.5"),
        (100.0, "100"),
        (1234.5, "1,234"),
        (230260, "230,260"),
        (55262400.0, "5.526×10⁷"),
        (1e-5, "10⁻⁵"),
        (8.686e-6, "8.686×10⁻⁶"),
        (math.inf, "∞"),
    ],
)
def test_numbers_are_short(value, words):
    assert short(value) == words


@pytest.mark.parametrize(("part", "words"), [(1.0, "100%"), (0.99999, "99.99…%"), (0.9996, "99.96%"), (0.731, "73.1%")])
def test_a_part_is_never_rounded_up_to_all(part, words):
    assert percent(part) == words
