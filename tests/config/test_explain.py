"""Mistakes in values that may be one thing or another; others are in `test_load`."""

from __future__ import annotations

import pytest

from tacit.config.source import ConfigError
from tacit.runs.load import load

FILE = {"kind": "vertical_trees", "parties": {"bank": {"role": "active"}, "shop": {"role": "passive"}}}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"x": "woe"}, "data.shop.columns.x: use: woe is for regressions"),
        ({"x": {"monotone": "up"}}, "data.shop.columns.x.monotone is 'up'"),
        ({"x": {"rare": 0}}, "data.shop.columns.x.rare is 0"),
        (7, "data.shop.columns is 7"),
    ],
)
def test_a_mistake_is_told_once_and_by_the_name_of_its_key(columns, words):
    with pytest.raises(ConfigError) as caught:
        load({**FILE, "data": {"shop": {"path": "shop.csv", "columns": columns}}})
    text = str(caught.value)
    assert words in text
    assert text.count("data.shop.columns") == 1
    assert "[" not in text
