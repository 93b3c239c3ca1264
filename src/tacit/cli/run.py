"""`tacit run`: every party of a file, on this machine."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from tacit.cli.exits import DONE, FAILED, LOG_FORMAT, STATUS, USER, end, endings, not_stored, say
from tacit.cli.options import LOG_FORMATS, METRICS

if TYPE_CHECKING:
    from tacit.runs.outcome import Outcome
    from tacit.sections import Settings
    from tacit.store.directory import RunDirectory
    from tacit.store.log_format import Format


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of FILE; may be repeated.")
@click.option("--runs", default="runs", metavar="DIR", type=click.Path(path_type=Path), help="Folder for results.")
@click.option("--resume", "resume", metavar="RUN", type=click.Path(path_type=Path), help="Resume a stopped run.")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Use DIR for this run: start it there, or resume it.",
)
@click.option("--previous", is_flag=True, help="Resume from the previous state if the newest is damaged.")
@click.option(
    "--engine", type=click.Choice(["memory", "ray"]), help="Engine of the simulation; short for --set engine.kind=…"
)
@click.option("--metrics", "metrics_port", type=click.IntRange(1, 65535), metavar="PORT", help=METRICS)
@click.option("--log-format", type=click.Choice(["text", "json"]), help=LOG_FORMATS)
@click.option("--quiet", is_flag=True, help="Print only the folder of the results.")
def command(
    file: Path | None,
    overrides: tuple[str, ...],
    runs: Path,
    resume: Path | None,
    state: Path | None,
    previous: bool,
    engine: str | None,
    metrics_port: int | None,
    log_format: Literal["text", "json"] | None,
    quiet: bool,
) -> None:
    """Run every party of FILE on this machine.

    --resume takes the directory of a run that was stopped or killed, with the settings stored there. Only `rounds` or
    `train.epochs` may change, and only if the noise was not calibrated to them (--set rounds=50). FILE is needed only
    if the module of the task is in its folder; a note says if it has other settings. An interrupted round is repeated;
    everything that it released stays in the ledger.

    --state names a fixed directory: the same command starts a run there, resumes it and, once it is done, says so.

    Exit codes: 0 done, 1 permanent failure, 2 a mistake in the input, 3 a fault of another party, 4 privacy budget
    reached, 5 stopped or interrupted: start again.
    """
    from tacit.config.source import ConfigError
    from tacit.runs.load import load
    from tacit.runs.resume import concluded, finished, resumed, unlike
    from tacit.runs.run import opened

    click.get_current_context().meta[LOG_FORMAT] = log_format or "plain"
    if resume is not None and state is not None:
        end("--resume and --state both name a directory: give one of them", USER)
    if engine is not None:
        overrides = (*overrides, f"engine.kind={engine}")
    try:
        if previous and resume is None:
            raise ConfigError("--previous is for a run that is resumed: add --resume RUN")
        if resume is not None:
            _note(unlike(resume, file, overrides))
            settings, directory = resumed(resume, None, overrides, previous=previous)
        elif file is None:
            end("Give the FILE to run, or a run to resume: tacit run FILE, or tacit run --resume RUN", USER)
        else:
            settings, directory = opened(load(file, overrides), runs, state)
        done = finished(settings, directory)
    except ConfigError as error:
        end(str(error), USER)
    except OSError as error:
        not_stored(resume or state or runs, error)
    if done is not None:
        say(f"{directory.path}: {done}", "Done", path=str(directory.path))
        if concluded(directory):
            directory.close()
            return

    _tell_end(_carried_out(settings, directory, file, quiet, metrics_port, log_format), directory, quiet)


def _tell_end(outcome: Outcome, directory: RunDirectory, quiet: bool) -> None:
    """Say how the run ended, in words and by the exit code."""
    if quiet and outcome.status != "done":
        say(f"{outcome.status}: {outcome.text}".rstrip(": "), "Ended", err=True, status=outcome.status)
    say(f"Results: {directory.path}", "Results", path=str(directory.path))
    if outcome.status == "stopped":
        say(f"To resume: tacit run --resume {directory.path}", "Resumable", path=str(directory.path))
    if (code := STATUS.get(outcome.status, FAILED)) != DONE:
        raise SystemExit(code)


def _note(words: str | None) -> None:
    if words is not None:
        say(f"note: {words}", "Noted", err=True)


def _carried_out(
    settings: Settings,
    directory: RunDirectory,
    file: Path | None,
    quiet: bool,
    metrics_port: int | None,
    log_format: Format | None,
) -> Outcome:
    """Run it. What the user can mend ends in a sentence, anything else in a traceback."""
    from tacit.cli.operated import operated, wanted
    from tacit.cli.progress import screen
    from tacit.config.task import look_beside
    from tacit.events import Sink, Tee
    from tacit.runs.run import execute

    look_beside(file)
    told = endings(directory, blame="Another party broke the protocol: ", always=True)
    directory.log_format = log_format or "plain"
    with (
        told,
        directory,
        nullcontext() if quiet else screen(log_format) as shown,
        operated(settings, directory, wanted(metrics_port)) as operators,
    ):
        sinks: list[Sink] = [directory, *([shown] if shown else []), *operators]
        return execute(settings, sink=Tee(*sinks), directory=directory)
