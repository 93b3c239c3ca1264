"""docs/plots/who-sees-what.svg: the committed picture is the drawn one, and its arrows agree with the boundaries."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import draw_who_sees_what as draw
from tacit.boundary import CLEAR
from tacit.kind import kind_of
from tacit.runs.load import load

ROOT = Path(__file__).parents[2]
WORDS = {  # of which a protection has one, by the mark in the picture
    "noised": ("noise", "randomized response"),
    "masked": ("mask",),
    "encrypted": ("encrypted",),
    "shares": ("share",),
}


CROSSING = [(panel, arrow) for panel in draw.PANELS for arrow in panel.arrows if arrow.field]


def test_the_picture_is_drawn_by_the_script():
    assert draw.PICTURE.read_text(encoding="utf-8") == draw.drawn()


def releases_of(panel, arrow):
    """The releases of the field in an example of the kind, under the settings of the arrow, by sender."""
    settings = load(ROOT / "examples" / panel.example, arrow.given)
    found = kind_of(settings).boundary(settings).releases
    return {each.sender: each.protection for each in found if f"{each.message}.{each.field}" == arrow.field}


@pytest.mark.parametrize(("panel", "arrow"), CROSSING, ids=lambda each: getattr(each, "words", ""))
def test_an_arrow_has_the_direction_and_the_protection_of_the_boundary(panel, arrow):
    protections = releases_of(panel, arrow)
    left, right = (side[0].removeprefix("each ") for side in (panel.left, panel.right))
    assert protections.keys() == {"right": {left}, "left": {right}, "both": {left, right}}[arrow.to]
    for protection in protections.values():
        if arrow.mark == "clear":
            assert protection.startswith(CLEAR)
            continue
        for mark in (arrow.shown or arrow.mark).split(" and "):
            assert any(word in protection for word in WORDS[mark]), (mark, protection)


def test_a_protection_in_the_clear_has_no_other_mark():
    assert not any(word in CLEAR for words in WORDS.values() for word in words)


def test_every_kind_is_drawn():
    kinds = {path.name for path in (ROOT / "src" / "tacit" / "kinds").iterdir() if (path / "__init__.py").exists()}
    assert kinds == {panel.kind.partition(",")[0] for panel in draw.PANELS}
