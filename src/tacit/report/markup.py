"""HTML and SVG as values: text that is not markup already is escaped when it becomes part of an element."""

from __future__ import annotations

from html import escape


class Markup(str):
    """Text that is markup already. Only `element` and `join` make it out of other text."""

    __slots__ = ()


def element(name: str, *children: str | None, **attributes: str | float | None) -> Markup:
    """One element. `class_` stands for `class`, `stroke_width` for `stroke-width`; what is None is left out."""
    given = "".join(
        f' {_attribute(key)}="{text(_value(value))}"' for key, value in attributes.items() if value is not None
    )
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")


def join(*children: str | None) -> Markup:
    """The children in a row: markup as it is, other text escaped, None left out."""
    return Markup("".join(child if isinstance(child, Markup) else text(child) for child in children if child))


def text(value: str) -> Markup:
    """Text with nothing in it that a browser, an XML parser or the direction of reading could be steered by."""
    shown = "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in value)
    return Markup(escape(shown))


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: str | float) -> str:
    """Two decimals are a hundredth of a pixel."""
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
