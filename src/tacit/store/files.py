"""Files that are whole at any moment, and that show accidental damage when they are read.

A file is replaced in one step. Models, states and ledgers hold a SHA-256 of their own bytes, taken with zeros in its
place. It finds bits that flipped on a disk or in a copy. It is no defence against anyone who can write to the folder:
they can write the checksum too. Files of runs that were made before there were checksums have none, and are read
without.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from tacit.config.source import ConfigError

Repair = Callable[[], None]
Arrays = dict[str, NDArray[Any]]
_FIELD = "sha256"
_BLANK = "0" * 64
_PLACE = re.compile(rb'"sha256": ?"([0-9a-f]{64})"')
_KINDS = {"f": "F", "i": "I", "u": "U", "b": "BOOL"}  # numpy's to those of safetensors
_ABOUT = frozenset({"round", "state"})  # metadata of arrays


class Damaged(ConfigError):
    """A stored file that is not as it was written."""


def replace_file(path: Path, *data: bytes | memoryview) -> None:
    """Write a file in one step: a reader, or a machine that loses power, sees the old one or the new one."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    # Never through a link that was laid there.
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    try:
        with os.fdopen(opened, "wb") as file:
            for piece in data:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Have the names in a folder reach the disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_folder(path: Path) -> None:
    """Make a folder that does not exist yet, and the missing ones above it; all of them reach the disk."""
    if not path.parent.exists():
        with suppress(FileExistsError):  # another process was faster
            make_folder(path.parent)
    path.mkdir()
    sync_folder(path.parent)


# --- arrays


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, str]) -> None:
    """Replace a safetensors file. `about` is its metadata. No copy of the arrays is made: models are large."""
    # As the format asks for it: the largest items first, so that each array is aligned.
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header: dict[str, Any] = {"__metadata__": {**about, _FIELD: _BLANK}}
    pieces, end = [], 0
    for name, array in ordered:
        start, end = end, end + array.nbytes
        header[name] = {"dtype": _dtype(name, array), "shape": list(array.shape), "data_offsets": [start, end]}
        little = np.asarray(array, array.dtype.newbyteorder("<"))
        pieces.append(np.ascontiguousarray(little).reshape(-1).view(np.uint8).data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    replace_file(path, *_sealed(len(text).to_bytes(8, "little") + text, *pieces))


def _dtype(name: str, array: NDArray[Any]) -> str:
    letter = _KINDS.get(array.dtype.kind)
    if letter is None or array.itemsize > 8 or name == "__metadata__":
        raise ValueError(
            f"array {name!r} has the type {array.dtype}: store numbers of at most 64 bits, under another name than "
            "__metadata__"
        )
    return letter if letter == "BOOL" else f"{letter}{8 * array.itemsize}"


def read_arrays(path: Path) -> tuple[Arrays, dict[str, str]]:
    """The arrays of a safetensors file and its metadata. Raises Damaged."""
    data = _read(path)
    sealed = _check(path, data)
    try:
        arrays = safetensors.numpy.load(data)
        about = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path}: this file is damaged or missing: {error}") from None
    if not sealed and about.keys() - _ABOUT:
        raise _unfit(path)
    about.pop(_FIELD, None)
    return arrays, about


# --- plain data, stored twice


def copy_of(path: Path) -> Path:
    """Where the copy of a JSON file lies."""
    return path.with_name(f"{path.stem}.copy{path.suffix}")


def write_twice(path: Path, data: Mapping[str, Any]) -> None:
    """Replace a JSON file and its copy. The copy comes first: it is never older than the file."""
    text = _sealed(json_file({**data, _FIELD: _BLANK}))
    replace_file(copy_of(path), *text)
    replace_file(path, *text)


def read_twice(path: Path, known: frozenset[str]) -> dict[str, Any] | None:
    """What `write_twice` stored: the file, or its copy if it is missing; None if both are. Raises Damaged.

    `known` are the keys that a file without a checksum may have.
    """
    there = path if path.exists() else copy_of(path)
    return read_plain(there, known) if there.exists() else None


def read_plain(path: Path, known: frozenset[str]) -> dict[str, Any]:
    """One JSON file. Raises Damaged."""
    return plain_of(path, _read(path), known)


def plain_of(path: Path, data: bytes, known: frozenset[str]) -> dict[str, Any]:
    """The JSON file of these bytes. Raises Damaged."""
    sealed = _check(path, data)
    try:
        found = json.loads(data)
    except json.JSONDecodeError as error:
        raise Damaged(f"{path}:{error.lineno}: this is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{path}: this is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Damaged(f"{path}:1: this file is damaged: it holds no fields")
    if not sealed and found.keys() - known:
        raise _unfit(path)
    found.pop(_FIELD, None)
    return found


def repair_from_copy(path: Path, known: frozenset[str]) -> list[Repair]:
    """What puts the copy in the place of a damaged file; nothing if it is intact. Raises Damaged if both are."""
    try:
        read_twice(path, known)
    except Damaged:
        read_plain(copy_of(path), known)
        return [lambda: replace_file(path, copy_of(path).read_bytes())]
    return []


def json_file(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(plain(data), indent=2, allow_nan=False) + "\n").encode()


def plain(value: Any) -> Any:
    """What JSON can hold: numpy's numbers as Python's, and nothing where a number is infinite or none."""
    match value:
        case np.generic() | np.ndarray():
            return plain(value.tolist())
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


# --- checksums


def _sealed(head: bytes, *rest: memoryview) -> tuple[bytes | memoryview, ...]:
    """A file in pieces, with the checksum of all in the place of its zeros, which is in the first of them."""
    place = _PLACE.search(head)
    if place is None:
        raise ValueError("the file has no place for its checksum")
    digest = hashlib.sha256(head)
    for piece in rest:
        digest.update(piece)
    return head[: place.start(1)], digest.hexdigest().encode(), head[place.end(1) :], *rest


def _check(path: Path, data: bytes) -> bool:
    """Whether a file has a checksum; Damaged if it does not fit."""
    place = _PLACE.search(data)
    if place is None:
        return False
    whole = memoryview(data)
    digest = hashlib.sha256(whole[: place.start(1)])
    digest.update(_BLANK.encode())
    digest.update(whole[place.end(1) :])
    if digest.hexdigest().encode() != place[1]:
        raise _unfit(path)
    return True


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Damaged(f"{path}: this file is damaged or missing: {error.strerror}") from None


def _unfit(path: Path) -> Damaged:
    return Damaged(f"{path}: this file is damaged or missing: its checksum does not fit")
