"""Keys are read from sections as they are written in the code."""

from typing import Annotated, Literal

from pydantic import Field

from pages.sections import comments, keys_of
from tacit.sections import Section


class Inner(Section):
    depth: Annotated[int, Field(ge=1, le=9)] = 3  # how deep it goes
    name: str


class Outer(Section):
    inner: Inner | None = None
    by_name: dict[str, Inner] = Field(default_factory=dict)
    kind: Literal["a", "b"] | None = None  # a sentence that continues
    # over the next line
    ratio: float = Field(default=0.5, alias="share", gt=0, lt=1)


def test_keys_of_inner_sections_have_their_path():
    assert [key.path for key in keys_of(Outer)] == [
        "inner.depth",
        "inner.name",
        "by_name.NAME.depth",
        "by_name.NAME.name",
        "kind",
        "ratio",
    ]


def test_types_ranges_and_defaults_are_in_words():
    keys = {key.path: key for key in keys_of(Outer)}
    assert (keys["inner.depth"].takes, keys["inner.depth"].default) == ("whole number, at least 1 and at most 9", "`3`")
    assert (keys["inner.name"].takes, keys["inner.name"].default) == ("text", "required")
    assert (keys["kind"].takes, keys["kind"].default) == ("`a`, `b`", "none")
    assert keys["ratio"].takes == "number, above 0 and below 1"
    assert keys["ratio"].also == ("share",)


def test_a_comment_behind_a_field_is_read_with_the_lines_that_follow():
    assert comments(Outer)["kind"] == "a sentence that continues over the next line"
    assert comments(Inner) == {"depth": "how deep it goes", "name": ""}
