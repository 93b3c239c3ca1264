"""How a command ends: its exit code, and one sentence instead of a traceback if the user can correct the cause."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from tacit.store.directory import RunDirectory
    from tacit.store.log_format import Format, Level

DONE = 0
FAILED = 1
USER = 2
PEER = 3
BUDGET = 4
AGAIN = 5

LOG_FORMAT = "tacit.log_format"  # the key of click's context

STATUS = {"done": DONE, "failed": FAILED, "stopped": AGAIN, "budget reached": BUDGET}


@contextmanager
def endings(directory: RunDirectory, *, blame: str = "", always: bool = False) -> Iterator[None]:
    """Turn errors that the user can correct into an exit code and a sentence. Anything else ends in a traceback.

    `blame` comes before another party's fault; `always`: name the directory even if no round was begun.
    """
    from tacit.cli.task_errors import task_traceback
    from tacit.errors import BudgetError, Diverged, NotResumed, PeerAway, PeerError, TaskError, Unfit, comes_back

    def stop(message: str, code: int) -> NoReturn:
        kept = directory.path.exists() and (always or directory.begun)
        end(f"{message}. What was finished is in {directory.path}" if kept else f"{message}.", code)

    try:
        yield
    except KeyboardInterrupt:
        stop("Stopped", AGAIN)
    except PeerAway as error:
        stop(f"{error}: start again to resume", AGAIN)
    except PeerError as error:
        stop(f"{blame}{error}", PEER)
    except BudgetError as error:
        stop(str(error), BUDGET)
    except MemoryError:
        stop("This machine has too little memory: start again once more is available", AGAIN)
    except BrokenExecutor:
        stop("A worker process of this party was killed, as happens if memory runs out: start again", AGAIN)
    except OSError as error:
        again = comes_back(error)
        remedy = ": start again once that is fixed" if again else ""
        stop(f"{error.filename or directory.path}: {error.strerror or error}{remedy}", AGAIN if again else FAILED)
    except ValueError as error:
        if directory.begun and isinstance(error, Unfit):
            stop(str(error), USER)  # no further round can be had under the file, which the sentence names
        if isinstance(error, TaskError):
            end(str(error), USER)
        if directory.begun and not isinstance(error, NotResumed | Diverged):
            raise  # not the file's fault: it was good enough to start a round
        if task_traceback(error) is not None:
            raise
        end(str(error), USER)


def not_stored(where: Path, error: OSError) -> NoReturn:
    """End a command that cannot write its results. A full disk, or too many open files, may pass."""
    from tacit.errors import comes_back

    again = comes_back(error)
    remedy = ": start again once that is fixed" if again else ""
    end(f"{where}: results cannot be stored there: {error.strerror}{remedy}", AGAIN if again else USER)


def end(message: str, code: int) -> NoReturn:
    """End the command. The message has nothing in front, so that editors and terminals find its file and line; but for
    a log (--log-format)."""
    say(message, "Ended", "INFO" if code == AGAIN else "ERROR", err=True, exit_code=code)
    raise SystemExit(code)


def say(words: str, name: str, level: Level = "INFO", *, err: bool = False, **fields: object) -> None:
    """Print words beside the events of a run: as a line of its log, if there is one. `name`: of the event."""
    context = click.get_current_context(silent=True)
    form: Format = context.meta.get(LOG_FORMAT, "plain") if context is not None else "plain"
    if form != "plain":
        from tacit.store.log_format import written

        words = written(words, time.time(), form, level, name, fields)
    click.echo(words, err=err)
