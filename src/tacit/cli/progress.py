"""What a run shows while it runs: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tacit.events import (
    ClientRefused,
    Evaluated,
    Event,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    RunResumed,
    RunStarted,
)
from tacit.runs.lines import line, measured, number


class Plain:
    """A line for each event. Single clients are left to the log: a round's line counts them."""

    def __init__(self) -> None:
        self._rounds: int | None = None

    def emit(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._rounds = event.rounds
        if not isinstance(event, RoundStarted | ClientRefused):
            click.echo(line(event, self._rounds))

    def __enter__(self) -> Plain:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Bar:
    """A bar of rounds with the last round's numbers and the time left; other events scroll by above it."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("round"),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TimeRemainingColumn(),
            # A metric's name is the task's: it is no markup.
            TextColumn("{task.fields[numbers]}", markup=False),
            console=console,
        )
        self._epsilon = "ε" if console.encoding.lower().startswith("utf") else "epsilon"
        self._score = ""  # of the last evaluation
        self._task: TaskID | None = None
        self._rounds: int | None = None

    def emit(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._rounds = event.rounds
                self._say(event)
                self._task = self._progress.add_task("rounds", total=event.rounds, numbers="")
            case RunResumed():
                self._say(event)
                if self._task is not None:
                    self._progress.update(self._task, completed=event.round)
            case RoundStarted() | ClientRefused():
                pass
            case Evaluated() if event.score is not None:
                self._score = f"{event.eval_type.removesuffix('_SCORE').lower()}: {number(event.score)}"
            case RoundFinished():
                numbers = measured(replace(event, epsilon=None))
                if event.epsilon is not None:
                    numbers.append(f"{self._epsilon} {number(event.epsilon)}")  # without delta, for want of room
                if self._score:
                    numbers.append(self._score)
                if self._task is not None:
                    self._progress.update(self._task, advance=1, numbers="  ".join(numbers))
            case RoundAborted():
                self._say(event)
                if self._task is not None:
                    self._progress.advance(self._task)
            case _:
                self._say(event)

    def _say(self, event: Event) -> None:
        self._progress.console.print(line(event, self._rounds), markup=False, highlight=False)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def screen() -> Plain | Bar:
    """A bar if stdout is a terminal that can draw one."""
    console = Console()
    return Bar(console) if console.is_terminal and not console.is_dumb_terminal else Plain()
