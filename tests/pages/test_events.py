"""The page of events has every event with every field."""

import dataclasses
import json

from pages.events import page
from tacit.events import KINDS, Noted, to_json


def test_every_event_and_field_is_on_the_page():
    sections = page().split("\n## ")
    assert sorted(section.split("`")[1] for section in sections[1:]) == sorted(KINDS)
    for section in sections[1:]:
        for field in dataclasses.fields(KINDS[section.split("`")[1]]):
            assert f"| `{field.name}` |" in section


def test_a_line_has_the_name_of_the_event_as_the_page_says():
    assert json.loads(json.dumps(to_json(Noted("a")))) == {"event": "Noted", "text": "a"}
