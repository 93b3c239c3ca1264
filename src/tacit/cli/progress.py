"""What a run shows while it runs: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from dataclasses import replace
from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tacit.events import (
    EPOCHS,
    Answered,
    Bars,
    ClientRefused,
    Curve,
    EpochFinished,
    Evaluated,
    Event,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    RunResumed,
    RunStarted,
    Stepped,
    Tabled,
    TrainingResumed,
    TrainingStarted,
    Tree,
)
from tacit.kind import find
from tacit.store.log_format import Format, event_line
from tacit.store.log_lines import line, measured, measured_epoch, measured_step, number


class Plain:
    """A line for each event. Single clients are left to the log: a round's line counts them."""

    def __init__(self, form: Format = "plain") -> None:
        self._form = form
        self._rounds: int | None = None
        self._counted = EPOCHS

    def emit(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._rounds = event.rounds
        if isinstance(event, TrainingStarted):
            self._counted = find(event.kind).counted
        if not isinstance(event, RoundStarted | ClientRefused | Curve) and (
            words := event_line(event, self._rounds, time.time(), self._form, self._counted)
        ):
            click.echo(words)

    def __enter__(self) -> Plain:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Bar:
    """A bar of rounds, or of steps, with the last numbers and the time left; other events scroll by above it."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
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
        self._steps = 0  # of an epoch
        self._counted = EPOCHS

    def emit(self, event: Event) -> None:
        match event:
            case TrainingStarted():
                self._counted = find(event.kind).counted
                self._say(event)
                self._steps = event.steps
                name = "step" if self._counted.steps else self._counted.one
                self._task = self._progress.add_task(name, total=event.epochs * event.steps, numbers="")
            case TrainingResumed():
                self._say(event)
                self._move(event.epoch, event.step)
            case Stepped():
                self._move(event.epoch, event.step, " ".join(measured_step(event)))
            case EpochFinished():
                self._move(event.epoch + 1, 0, " ".join(measured_epoch(event)))
            case Curve() | Bars() | Tabled() | Tree():
                pass
            case RunStarted():
                self._rounds = event.rounds
                self._say(event)
                self._task = self._progress.add_task("round", total=event.rounds, numbers="")
            case RunResumed():
                self._say(event)
                if self._task is not None:
                    self._progress.update(self._task, completed=event.round)
            case RoundStarted() | ClientRefused():
                pass
            case Answered():
                if self._task is not None and line(event):
                    spent = "  ".join(
                        f"{self._epsilon} of {of} {number(value)}" for of, value in event.epsilons.items()
                    )
                    self._progress.update(self._task, completed=event.round + 1, numbers=spent)
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

    def _move(self, epoch: int, step: int, numbers: str = "") -> None:
        if self._task is not None:
            self._progress.update(self._task, completed=epoch * self._steps + step, numbers=numbers)

    def _say(self, event: Event) -> None:
        if words := line(event, self._rounds, self._counted):
            self._progress.console.print(words, markup=False, highlight=False)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


def screen(log_format: Format | None = None) -> Plain | Bar:
    """Lines of a format that was asked for; or a bar if stdout is a terminal that can draw one.

    rich takes FORCE_COLOR for a terminal. Jupyter sets it for its commands, and cannot draw a bar.
    """
    if log_format is not None:
        return Plain(log_format)
    console = Console()
    return Bar(console) if console.file.isatty() and not console.is_dumb_terminal else Plain()
