"""The progress of something that is counted: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_EVERY = 2.0  # seconds between two lines


@contextmanager
def counted(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A function to call for each one that is done. It writes to the error output."""
    if sys.stderr.isatty():
        with click.progressbar(length=total, label=what, file=sys.stderr, show_pos=True) as bar:
            yield lambda: bar.update(1)
        return
    done, said = 0, time.monotonic()

    def step() -> None:
        nonlocal done, said
        done += 1
        if time.monotonic() - said >= _EVERY:
            said = time.monotonic()
            click.echo(f"{done} of {total} {what}", err=True)

    yield step
