"""Events as a chain of digests, so that a log can be shown in part and nobody can take a line out of it unnoticed.

Each line of `events.jsonl` ends with `salt`, which is random, and `chain`, a digest of this line and all before it:

    field     SHA-256("tacit event field" | name | HMAC-SHA-256(salt, name) | value as JSON)
    line      SHA-256("tacit event line" | each name and the digest of its field, in the order of the names)
    chain     SHA-256("tacit event" | chain of the line before | line)

Someone who is shown a field with its own salt can recompute its digest; of a field that is withheld only the digest is
shown. A digest tells nothing of its value, as its salt is unknown. So the chain is checked on lines that are shown in
part, or not at all.

What it shows: that a line was not changed, removed, added or moved after the digest at the end was given to others.
What it does not: anyone who keeps the log can write another one, with another chain, before that.

Lines of releases before 0.3 have no chain: the first line that has one also covers all bytes before it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.crypto.byte_strings import frame

SALT, CHAIN = "salt", "chain"
START = bytes(32)
_SALT_BYTES = 16
_TAIL_BYTES = 1 << 20  # of a log, among which its last line is looked for first


def chained(fields: Mapping[str, Any], before: bytes, salt: bytes | None = None) -> tuple[dict[str, Any], bytes]:
    """A line with its salt and the chain up to it, and that chain. `fields` are what JSON can hold."""
    salt = os.urandom(_SALT_BYTES) if salt is None else salt
    own = {name: field_digest(name, field_salt(salt, name), value) for name, value in fields.items()}
    digest = follow(before, line_digest(own))
    return {**fields, SALT: salt.hex(), CHAIN: digest.hex()}, digest


def field_salt(salt: bytes, name: str) -> bytes:
    """The salt of one field of a line: it tells nothing of those of others."""
    return hmac.digest(salt, name.encode(), "sha256")


def field_digest(name: str, salt: bytes, value: Any) -> bytes:
    """What stands for a field in its line."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    return hashlib.sha256(frame(b"tacit event field", name.encode(), salt, text)).digest()


def line_digest(fields: Mapping[str, bytes]) -> bytes:
    """What stands for a line with these field digests."""
    parts = [part for name in sorted(fields) for part in (name.encode(), fields[name])]
    return hashlib.sha256(frame(b"tacit event line", *parts)).digest()


def follow(before: bytes, line: bytes) -> bytes:
    """The chain after a line with this digest."""
    return hashlib.sha256(frame(b"tacit event", before, line)).digest()


def fields_of(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line without what belongs to the chain."""
    return {name: value for name, value in line.items() if name not in (SALT, CHAIN)}


def before_line(data: bytes) -> bytes:
    """The chain after these bytes, whole lines of a log; for lines of earlier releases a digest of them all."""
    if not data:
        return START
    last = data.rstrip(b"\n").rpartition(b"\n")[2]
    try:
        return bytes.fromhex(json.loads(last)[CHAIN])
    except (ValueError, KeyError, TypeError):
        return hashlib.sha256(frame(b"tacit events without a chain", data)).digest()


def end_of(path: Path) -> bytes:
    """The chain at the end of a log; the log may be long, and is read as a whole only if it has no chain."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
        _, whole, last = tail.rstrip(b"\n").rpartition(b"\n")
        if whole and b'"chain": "' in last:
            return before_line(last)
        file.seek(0)
        return before_line(file.read())
