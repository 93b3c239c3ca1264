"""Reading the events of a run while they are written, in bounded pieces, from any writer.

    read_piece(path, offset, limit)     the events after `offset`, at most `limit` bytes of them, and where to go on
    is_written(path)                    whether a process is writing there
    read_small(path, limit)             another file of a run, as bytes

A run's folder may come from another party: nothing here follows a link, opens a pipe, or reads more than it was told.
A line that is not an event is counted and passed over; one that is longer than a piece is passed over.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tacit.events import Event, from_json
from tacit.store.reading import check_event

UNREADABLE = (ValueError, TypeError, AttributeError, OverflowError, RecursionError)  # what hostile values may raise


@dataclass(frozen=True, slots=True)
class Told:
    """One line of `events.jsonl`."""

    at: float  # seconds since 1970; 0 if the line has no time
    event: Event


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lines of `events.jsonl`."""

    told: tuple[Told, ...]
    damaged: int  # lines that are not events
    end: int  # where the next piece begins
    size: int  # of the file, as far as it was written


def read_piece(path: Path, offset: int, limit: int) -> Piece:
    """The events that begin at or after `offset`. Raises OSError if the file cannot be read.

    An `offset` within a line skips to the next one, and one after the end gives a piece that ends before it. The last
    line is left for later as long as its end is not written.
    """
    with _opened(path) as file:
        size = os.fstat(file).st_size
        if offset > size:
            return Piece((), 0, 0, size)
        base = max(0, offset - 1)  # the byte before tells whether a line begins here
        data = os.pread(file, offset - base + limit, base)
    first = 0 if not offset else data.find(b"\n") + 1
    if offset and not first:  # within a line that goes on: nothing of it is kept
        return Piece((), 0, base + len(data), size)
    last = data.rfind(b"\n") + 1
    if last <= first:
        longer = len(data) - first >= limit
        return Piece((), 0, base + (len(data) if longer else first), size)
    told, damaged = _events(data[first:last])
    return Piece(tuple(told), damaged, base + last, size)


def _events(data: bytes) -> tuple[list[Told], int]:
    told, damaged = [], 0
    for line in data.split(b"\n")[:-1]:
        try:
            found = json.loads(line)
            event = from_json(found)
            check_event(event, "")
            at = datetime.fromisoformat(found["time"]).timestamp() if "time" in found else 0.0
            told.append(Told(at, event))
        except UNREADABLE:
            damaged += 1
    return told, damaged


def is_written(path: Path) -> bool:
    """Whether a process holds the lock of `events.jsonl`, as every run does until its end."""
    with _opened(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False  # closing gives the lock back


def read_small(path: Path, limit: int) -> bytes:
    """A whole file of at most `limit` bytes. Raises OSError if it is none, is longer, or is a link."""
    with _opened(path) as file:
        data = os.pread(file, limit + 1, 0)
        if len(data) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return data


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A plain file, opened to be read. Neither a link nor a pipe, on which a reader would wait."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        yield file
    finally:
        os.close(file)
