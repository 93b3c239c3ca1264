"""A counter of tweaks as a file and its copy: see `tacit.crypto.counter`.

    new_counter(path)     begins at 0; refused if there is one already
    open_counter(path)    continues behind the number that was stored last; refused if there is none

Both files hold the first free number, and are on disk before a number below it is given out. The copy is written first.
If one of them is damaged or missing the other one counts: a number that only the copy had was not yet given out. A
run's folder is locked by its process, so that no two processes count at once.
"""

from __future__ import annotations

from pathlib import Path

from tacit.crypto.counter import MOST, Counter
from tacit.store.files import Damaged, copy_of, read_plain, write_twice

_NEXT = "next"
_RESERVE = 64


def new_counter(path: Path, *, reserve: int = _RESERVE) -> Counter:
    """A counter that begins at 0. ValueError if the file exists: its numbers were used."""
    if path.exists() or copy_of(path).exists():
        raise ValueError(f"{path}: this counter exists, and its numbers may have been used: open it, or make new trees")
    counter = Counter(0, lambda number: _keep(path, number), reserve=reserve)
    _keep(path, 0)
    return counter


def open_counter(path: Path, *, reserve: int = _RESERVE) -> Counter:
    """The counter behind the last number that was stored. Damaged if it cannot be read: numbers could come again."""
    found = [number for each in (path, copy_of(path)) if (number := _read(each)) is not None]
    if not found:
        raise Damaged(f"{path}: the counter of used tweaks is missing or damaged, with its copy: begin the run anew")
    return Counter(max(found), lambda number: _keep(path, number), reserve=reserve)


def _keep(path: Path, number: int) -> None:
    write_twice(path, {_NEXT: number})


def _read(path: Path) -> int | None:
    if not path.exists():
        return None
    try:
        number = read_plain(path, frozenset()).get(_NEXT)
    except Damaged:
        return None
    return number if type(number) is int and 0 <= number <= MOST else None
