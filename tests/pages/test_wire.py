"""The page of the wire has every message that is sent, with the bounds that its decoder keeps."""

import ast
from pathlib import Path

import msgspec
import pytest

from pages.wire import STORED, bounds, messages, page, tag
from tacit.wire import Finite, Text

SOURCE = Path(__file__).parents[2] / "src" / "tacit"


def in_source():
    """Module, name and tag of every message, by parsing the code."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Message" for base in node.bases):
                (number,) = [ast.literal_eval(each.value) for each in node.keywords if each.arg == "tag"]
                found.add((module, node.name, number))
    return found


def test_every_message_is_on_the_page_or_known_to_be_stored_only():
    listed = {(module, kind.__name__, tag(kind)) for module, kinds in messages().items() for kind in kinds}
    left_out = {(module, name) for module, name, _ in in_source() - listed}
    assert listed <= in_source()
    assert all(module in STORED or f"{module}.{name}" in STORED for module, name in left_out)
    text = page()
    for _, name, number in listed:
        assert f"### {number} `{name}`" in text


def test_a_tag_names_one_message_within_a_conversation():
    tags = [tag(kind) for module, kinds in messages().items() if module != "flower.node" for kind in kinds]
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (Text, "text, length ≤ 300"),
        (bool, "boolean"),
        (bytes | None, "bytes or nil"),
        (Finite, "float, ≥ -1.7e+308, ≤ 1.7e+308"),
        (tuple[int, ...], "array of (integer)"),
    ],
)
def test_bounds_are_in_words(type_, words):
    assert bounds(msgspec.inspect.type_info(type_)) == words
