"""The page docs/reference/wire.md: every message with its tag, fields and bounds; and the messages for test vectors."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pages.sections import comments
from tacit.wire import Message

_SOURCE = Path(__file__).resolve().parent.parent / "src"
# Not sent to another party: kept on disk, or between two processes of one party.
STORED = {"kinds.vertical_logistic.protocol.journal", "flower.node.State"}
_TITLES = {
    "secagg.messages": "Secure aggregation",
    "kinds.horizontal.frames": "A federation",
    "net.handshake": "The handshake, and frames about a party itself",
    "channel": "Parties in lock step: a failure",
    "net.relay": "Parties in lock step: introductions",
    "net.ends": "Parties in lock step: envelopes",
    "lockstep.resumption": "Parties in lock step: where to resume",
    "align.messages": "Alignment of ids",
    "kinds.vertical_logistic.protocol.messages": "Vertical regression under masks",
    "kinds.vertical_logistic.protocol.label_count_messages": "Vertical regression: counts of labels",
    "kinds.vertical_logistic.shared.messages": "Vertical regression on secret shares",
    "kinds.vertical_trees.protocol.messages": "Boosted trees",
    "kinds.split.messages": "Split learning",
    "oblivious": "Oblivious transfer",
    "flower.node": "Through Flower",
}


def messages() -> dict[str, list[type[Message]]]:
    """Every message type that is sent, by its module without `tacit.`; found by reading the source, and imported."""
    found: dict[str, list[type[Message]]] = {}
    for path in sorted((_SOURCE / "tacit").rglob("*.py")):
        if "(Message, frozen=True, tag=" not in path.read_text(encoding="utf-8"):
            continue
        name = ".".join(path.relative_to(_SOURCE).with_suffix("").parts)
        module = importlib.import_module(name)
        short = name.removeprefix("tacit.")
        kinds = [each for each in vars(module).values() if _is_message(each) and each.__module__ == name]
        if sent := sorted((each for each in kinds if not STORED & {short, f"{short}.{each.__name__}"}), key=tag):
            found[short] = sent
    order = list(_TITLES)
    return dict(sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def _is_message(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Message) and value is not Message


def tag(kind: type[Message]) -> int:
    """The number of a message on the wire."""
    return int(kind.__struct_config__.tag)  # type: ignore[arg-type]


def bounds(type_: Any) -> str:
    """A field's type and bounds in words. `type_` is msgspec's description of it."""
    info = msgspec.inspect
    match type_:
        case info.Metadata(type=inner):
            return bounds(inner)
        case info.IntType() | info.FloatType():
            noun = "integer" if isinstance(type_, info.IntType) else "float"
            limits = (
                [f"≥ {type_.ge:,}" if isinstance(type_.ge, int) else f"≥ {type_.ge:g}"] if type_.ge is not None else []
            )
            limits += [f"≤ {_power(type_.le)}"] if type_.le is not None else []
            return ", ".join([noun, *limits])
        case info.BytesType(min_length=least, max_length=most) | info.MemoryViewType(min_length=least, max_length=most):
            return "bytes" + _lengths(least, most)
        case info.StrType(min_length=least, max_length=most):
            return "text" + _lengths(least, most)
        case info.ListType(item_type=item, min_length=least, max_length=most):
            return f"array of ({bounds(item)})" + _lengths(least, most)
        case info.VarTupleType(item_type=item, min_length=least, max_length=most):
            return f"array of ({bounds(item)})" + _lengths(least, most)
        case info.TupleType(item_types=items):
            return f"array of {len(items)}: ({'; '.join(bounds(each) for each in items)})"
        case info.UnionType(types=types):
            return " or ".join(bounds(each) for each in types)
        case info.BoolType():
            return "boolean"
        case info.NoneType():
            return "nil"
        case info.LiteralType(values=values):
            return " or ".join(f"`{each}`" for each in values)
    raise TypeError(f"no words for {type_}")


def _lengths(least: int | None, most: int | None) -> str:
    if least is not None and least == most:
        return f", length {least}"
    return (f", length ≥ {least}" if least else "") + (f", length ≤ {most:,}" if most is not None else "")


def _power(value: float) -> str:
    if isinstance(value, int) and value > 1 << 20:
        for base, extra in ((value, ""), (value + 1, " − 1")):
            if base & (base - 1) == 0:
                return f"2^{base.bit_length() - 1}{extra}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def page() -> str:
    """The page of the wire format."""
    lines = [(Path(__file__).with_name("wire_opening.md")).read_text(encoding="utf-8").rstrip()]
    for module, kinds in messages().items():
        lines += ["", f"## {_TITLES.get(module, module)}", "", *_said(module)]
        for kind in kinds:
            lines += ["", f"### {tag(kind)} `{kind.__name__}`", ""]
            if kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}("):
                lines += [inspect.cleandoc(kind.__doc__), ""]
            lines += list(_fields(kind)) or ["No fields."]
    return "\n".join(lines) + "\n"


def _said(module: str) -> Iterator[str]:
    words = inspect.getdoc(importlib.import_module(f"tacit.{module}")) or ""
    yield from [f"`tacit.{module}`:", "", "```text", words, "```"]


def _fields(kind: type[Message]) -> Iterator[str]:
    described: Any = msgspec.inspect.type_info(kind)
    if not described.fields:
        return
    said = comments(kind)
    yield from ["| position | field | type and bounds | meaning |", "| --- | --- | --- | --- |"]
    for position, field in enumerate(described.fields, 1):
        words = said.get(field.name, "").replace("|", "\\|")
        yield f"| {position} | `{field.name}` | {bounds(field.type)} | {words} |"
