"""The Chinese picture: the committed one is the drawn one, with every arrow and box of the English one."""

from __future__ import annotations

import re

import pytest

from docs import draw_who_sees_what_zh as draw
from docs.draw_who_sees_what import drawn


def test_the_picture_is_drawn_by_the_script():
    assert draw.CHINESE_PICTURE.read_text(encoding="utf-8") == draw.drawn_in_chinese()


def test_it_differs_from_the_english_one_in_its_texts_only():
    def shapes(svg):
        return re.sub(r">[^<>]+<", "><", svg)

    assert shapes(draw.drawn_in_chinese()) == shapes(drawn())


def test_every_translation_is_of_a_text_in_the_english_picture():
    texts = {part for text in re.findall(r">([^<>\n]+)<", drawn()) for part in text.removeprefix(" · ").split(" · ")}
    assert texts == {*draw.NAMES, *draw.CHINESE}


def test_a_text_without_translation_is_an_error():
    with pytest.raises(KeyError):
        draw.chinese("update · a new word")
