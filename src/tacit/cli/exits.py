"""How a command ends: its exit code, and one sentence instead of a traceback where the user can mend it."""

from __future__ import annotations

from typing import NoReturn

import click

DONE = 0
FAILED = 1
USER = 2
PEER = 3
BUDGET = 4

STATUS = {"done": DONE, "failed": FAILED, "stopped": FAILED, "budget reached": BUDGET}


def end(message: str, code: int) -> NoReturn:
    """End the command. The message has nothing in front, so that editors and terminals find its file and line."""
    click.echo(message, err=True)
    raise SystemExit(code)
