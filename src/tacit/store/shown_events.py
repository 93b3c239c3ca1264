"""Events of a log as others may see them: some fields in the clear, of all else a digest in the chain.

    shown(log, allowed)      lines for a pack, of the lines of an `events.jsonl`
    follow_chain(lines)      the events that lines of a pack show, once the chain was recomputed; raises BadPack

A line shows fields with their salts, and the digests of its other fields; or, if it shows nothing, the digest of the
line. `chain` describes the digests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.events import Event, from_json
from tacit.store import chain
from tacit.store.pack import BadPack

_NEEDED = ("event",)  # without which a line shows nothing


@dataclass(frozen=True, slots=True)
class Chained:
    """What the lines of a pack come to."""

    events: tuple[Event, ...]  # with the fields that are shown; others have their defaults, or nothing
    lines: int
    withheld: int  # lines that show nothing
    begin: bytes  # the chain before the first line
    end: bytes


def shown(log: bytes, allowed: Callable[[Mapping[str, Any]], frozenset[str]]) -> tuple[bytes, bytes]:
    """The lines for a pack, and the chain before the first of them.

    Lines of earlier releases that have no chain are no part of it: the chain begins with a digest of them.
    """
    lines = log.splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()  # a process was killed while it wrote
    first = next((at for at, text in enumerate(lines) if b'"chain": "' in text), len(lines))
    begin = chain.before_line(b"".join(lines[:first]))
    packed = []
    for number, text in enumerate(lines[first:], first + 1):
        line = json.loads(text)
        if chain.SALT not in line or chain.CHAIN not in line:
            raise ValueError(
                f"events.jsonl:{number}: this line is not chained to those before it, as if an earlier release had "
                "resumed the run: no pack can be made of it"
            )
        packed.append(json.dumps(_part(line, allowed(line))))
    return "".join(f"{text}\n" for text in packed).encode(), begin


def _part(line: Mapping[str, Any], allowed: frozenset[str]) -> dict[str, Any]:
    fields, salt = chain.fields_of(line), bytes.fromhex(line[chain.SALT])
    digests = {name: chain.field_digest(name, chain.field_salt(salt, name), value) for name, value in fields.items()}
    end = {"chain": line[chain.CHAIN]}
    if not allowed:
        return {"line": chain.line_digest(digests).hex(), **end}
    kept = [name for name in fields if name in allowed]
    return {
        "shown": {name: fields[name] for name in kept},
        "salts": {name: chain.field_salt(salt, name).hex() for name in kept},
        "withheld": {name: digests[name].hex() for name in fields if name not in allowed},
        **end,
    }


def follow_chain(data: bytes, begin: bytes) -> Chained:
    """The events that are shown. Raises BadPack at the first line that is not what its chain says."""
    before, events, count, withheld = begin, [], 0, 0
    for count, (line, fields) in enumerate(_lines(data), 1):
        before = chain.follow(before, line)
        if before.hex() != fields.pop("chain"):
            raise BadPack(f"events.jsonl:{count}: this line, or one before it, was changed, removed, added or moved")
        if not fields:
            withheld += 1
            continue
        try:
            events.append(_event(fields))
        except (ValueError, TypeError) as error:
            raise BadPack(f"events.jsonl:{count}: this line shows no event: {error}") from None
    return Chained(tuple(events), count, withheld, begin, before)


def _lines(data: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The digest of each line, and the fields that it shows with its chain."""
    for number, text in enumerate(data.splitlines(), 1):
        try:
            line = json.loads(text)
            end = {"chain": str(line["chain"])}
            if "line" in line:
                _only(line, "line", "chain")
                yield bytes.fromhex(line["line"]), end
                continue
            _only(line, "shown", "salts", "withheld", "chain")
            if line["shown"].keys() != line["salts"].keys() or line["shown"].keys() & line["withheld"].keys():
                raise ValueError("fields and salts differ")
            digests = {name: bytes.fromhex(digest) for name, digest in line["withheld"].items()}
            for name, value in line["shown"].items():
                digests[name] = chain.field_digest(name, bytes.fromhex(line["salts"][name]), value)
            yield chain.line_digest(digests), {**line["shown"], **end}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BadPack(f"events.jsonl:{number}: this is no line of a pack") from None


def _only(line: Mapping[str, Any], *names: str) -> None:
    if line.keys() - set(names):
        raise ValueError(f"unknown keys {sorted(line.keys() - set(names))}")


def _event(fields: Mapping[str, Any]) -> Event:
    """The event with the fields that are shown; numbers and texts that are not are empty."""
    from tacit.events import KINDS

    kind = KINDS.get(str(fields.get("event")))
    if kind is None:
        raise ValueError(f"{fields.get('event')!r} is no event")
    empty = {"int": 0, "float": 0.0, "str": "", "bool": False}
    missing = {
        name: empty.get(str(field.type))
        for name, field in kind.__dataclass_fields__.items()
        if name not in fields and _needs(field)
    }
    return from_json({**missing, **fields})


def _needs(field: Any) -> bool:
    from dataclasses import MISSING

    return field.default is MISSING and field.default_factory is MISSING


def allowed_fields(fields: Iterable[str]) -> frozenset[str]:
    return frozenset(fields) | frozenset(_NEEDED)
