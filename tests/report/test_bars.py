"""Named numbers as bars."""

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.report.bars import Bar
from tacit.report.chart import Chart, standalone

SVG = "{http://www.w3.org/2000/svg}"


def parsed(*bars):
    chart = Chart("c", "Title", "Caption.", "log odds", (), bars=tuple(Bar(name, value) for name, value in bars))
    return ElementTree.fromstring(standalone(chart).encode())  # noqa: S314 - our own output


def rects(root):
    return [each for each in root.iter(f"{SVG}rect") if "fill" in (each.get("class") or "")]


def texts(root):
    return [each.text for each in root.iter(f"{SVG}text")]


def test_positive_and_negative_bars_part_at_zero_in_two_colours():
    root = parsed(("age", 2.0), ("income", -1.0))
    up, down = rects(root)
    assert up.get("class") == "fill blue"
    assert down.get("class") == "fill amber"
    assert float(down.get("x")) + float(down.get("width")) == pytest.approx(float(up.get("x")), abs=0.02)
    assert float(up.get("width")) == pytest.approx(2 * float(down.get("width")), abs=0.05)
    assert float(up.get("y")) < float(down.get("y"))  # in the order given
    assert {"age", "income", "2", "−1", "log odds", "Title", "Caption."} <= set(texts(root))


def test_a_long_name_keeps_its_end_and_has_all_of_it_in_the_tip():
    name = "employment status of the applicant = self-employed"
    root = parsed((name, 1.0))
    assert any(text and "…" in text and text.endswith("self-employed") for text in texts(root))
    assert f"{name}: 1" in [title.text for title in root.iter(f"{SVG}title")]


def test_names_are_text_and_nothing_else():
    root = parsed(("</svg><script>alert(1)</script>", 1.0))
    assert not list(root.iter(f"{SVG}script"))


@given(st.lists(st.floats(-1e290, 1e290), min_size=1, max_size=5))
def test_any_numbers_stay_inside(values):
    for each in rects(parsed(*((f"x{place}", value) for place, value in enumerate(values)))):
        assert 0 <= float(each.get("x")) <= 480
        assert 0 <= float(each.get("width")) <= 480
