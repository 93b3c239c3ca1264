"""`tacit join`: one party of a file, over the network."""

from __future__ import annotations

import os
import shlex
import signal
import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from tacit.cli.exits import DONE, FAILED, LOG_FORMAT, STATUS, USER, end, endings, not_stored, say
from tacit.cli.options import LOG_FORMATS, METRICS

if TYPE_CHECKING:
    from tacit.kind import Seat
    from tacit.net.site import Site
    from tacit.operations.endpoint import Endpoint
    from tacit.runs.outcome import Outcome
    from tacit.sections import Settings
    from tacit.store.directory import RunDirectory
    from tacit.store.log_format import Format


@click.command("join")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--party", required=True, metavar="NAME", help="The party to run: a name in FILE; coordinator, or client with --id."
)
@click.option("--id", "identities", metavar="K", help="Number of the client; with --insecure also a range: 0-24.")
@click.option(
    "--local",
    "local_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keys, paths and address of this party.",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of FILE; may be repeated.")
@click.option("--runs", default="runs", metavar="DIR", type=click.Path(path_type=Path), help="Folder for results.")
@click.option("--resume", metavar="RUN", type=click.Path(path_type=Path), help="Resume a stopped run of this party.")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Use DIR for this run: start it there, or resume it.",
)
@click.option("--new", is_flag=True, help="Start a new run even if there is an interrupted run of the coordinator.")
@click.option("--previous", is_flag=True, help="Resume from the previous state if the newest is damaged.")
@click.option("--insecure", is_flag=True, help="Run without certificates; only on this machine.")
@click.option("--metrics", "metrics_port", type=click.IntRange(1, 65535), metavar="PORT", help=METRICS)
@click.option("--log-format", type=click.Choice(["text", "json"]), help=LOG_FORMATS)
@click.option("--quiet", is_flag=True, help="Print only the folder of the results.")
@click.option("--test-insecure-noise", "noise", is_flag=True, hidden=True)
def command(
    file: Path,
    party: str,
    identities: str | None,
    local_file: Path | None,
    overrides: tuple[str, ...],
    runs: Path,
    resume: Path | None,
    state: Path | None,
    previous: bool,
    new: bool,
    insecure: bool,
    metrics_port: int | None,
    log_format: Literal["text", "json"] | None,
    quiet: bool,
    noise: bool,
) -> None:
    """Run one party of FILE, over the network.

    All parties have the same FILE. Settings of one party (keys, paths, addresses) are in its --local file, which is
    never sent. Broken connections are restored automatically. After Ctrl-C or SIGTERM the other parties are told,
    and wait.

    --state names a fixed directory: this party starts there if it is empty, and resumes otherwise. This is for
    supervisors: run the same command again while the exit code is 5.

    Exit codes: 0 done, 1 permanent failure, 2 a mistake in the input, 3 a fault of another party, 4 privacy budget
    reached, 5 stopped or interrupted: start again.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # Tacit logs the same in its own words
    from tacit.config.source import ConfigError
    from tacit.config.task import look_beside

    click.get_current_context().meta[LOG_FORMAT] = log_format or "plain"
    if resume is not None and state is not None:
        end("--resume and --state both name a directory: give one of them", USER)
    if new and (party != "coordinator" or state is not None):
        end("--new is for a coordinator that starts without --state: leave it out", USER)
    look_beside(file)
    try:
        start = _start(file, party, identities, local_file, overrides, insecure, noise, metrics_port)
        if start.site.credentials is not None and len(start.seat.clients) > 1:
            end("--id: a certificate is of one client: start one process for each", USER)
        directory = _opened(start, runs, resume, state, new, previous)
    except (ConfigError, ValueError) as error:
        end(str(error), USER)
    except OSError as error:
        not_stored(resume or state or runs, error)
    if directory is None:
        return
    outcome = _carried_out(start, directory, quiet, log_format)
    if outcome.status != "done":
        say(f"{outcome.status}: {outcome.text}".rstrip(": "), "Ended", err=True, status=outcome.status)
    say(f"Results: {directory.path}", "Results", path=str(directory.path))
    if (code := STATUS.get(outcome.status, FAILED)) != DONE:
        raise SystemExit(code)


@dataclass(slots=True)
class _Start:
    """Who joins what, and how it is reached."""

    settings: Settings
    seat: Seat
    site: Site
    endpoint: Endpoint | None  # of its pages


def _start(
    file: Path,
    party: str,
    identities: str | None,
    local_file: Path | None,
    overrides: tuple[str, ...],
    insecure: bool,
    noise: bool,
    metrics_port: int | None,
) -> _Start:
    from tacit.cli.operated import wanted
    from tacit.config.local import load_local
    from tacit.runs.join import join_of, site_of
    from tacit.runs.load import load
    from tacit.runs.policy import checked

    settings = load(file, overrides)
    local, folder = load_local(local_file)
    join = join_of(settings)
    settings = join.networked(settings)
    seat = join.seat(settings, party, identities)
    checked(local.policy, settings, seat, folder, approval(file, party, identities, local_file, overrides))
    site = site_of(settings, local, folder, seat.name, insecure=insecure, noise=noise)
    return _Start(settings, seat, site, wanted(metrics_port, local, folder))


def approval(
    file: Path, party: str, identities: str | None, local_file: Path | None, overrides: tuple[str, ...]
) -> str:
    """What follows `tacit approve` to approve the same plan."""
    options = ["--party", party, *(["--id", identities] if identities is not None else [])]
    options += ["--local", str(local_file)] if local_file is not None else []
    return shlex.join([str(file), *options, *(word for each in overrides for word in ("--set", each))])


def _opened(
    start: _Start, runs: Path, resume: Path | None, state: Path | None, new: bool, previous: bool
) -> RunDirectory | None:
    """Where this party keeps what is its own; None if it is done already."""
    from tacit.config.source import ConfigError
    from tacit.runs.join import new_directory
    from tacit.runs.resume import conclude, finished, holds_run, resumed

    folder = resume or (state if state is not None and holds_run(state) else None)
    if previous and folder is None:
        raise ConfigError("--previous is for a run that is resumed: add --resume RUN, or the --state DIR of a run")
    if folder is None:
        return new_directory(start.settings, start.seat, runs, state, anew=new)
    whole = start.seat.whole
    start.settings, directory = resumed(folder, start.settings.model_dump(), party=whole, previous=previous)
    if (done := finished(start.settings, directory, whole)) is not None:
        say(f"{directory.path}: {done}", "Done", path=str(directory.path))
        if not start.seat.coordinates:  # a coordinator's clients may have to be told
            conclude(directory, start.settings, whole)
            return None
    return directory


def _carried_out(start: _Start, directory: RunDirectory, quiet: bool, log_format: Format | None) -> Outcome:
    from tacit.cli.operated import operated
    from tacit.cli.progress import screen
    from tacit.events import Sink, Tee
    from tacit.runs.join import pausing_in, take_part

    seat, site = start.seat, start.site
    pausing = pausing_in(directory.path) if seat.coordinates else None
    if pausing is not None:
        site = replace(site, pausing=pausing)
    directory.log_format = log_format or "plain"
    with endings(directory), ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            # Certificates are read again when they have changed: the signal to do so must not end the run.
            stack.callback(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_IGN))
        stack.enter_context(directory)
        sinks: list[Sink] = [directory]
        if not quiet:
            shown = screen(log_format)
            stack.enter_context(shown)
            sinks.append(shown)
        sinks += stack.enter_context(
            operated(
                start.settings,
                directory,
                start.endpoint,
                party=seat.whole,
                vitals=site.vitals,
                pausing=pausing,
                credentials=site.credentials,
            )
        )
        return take_part(start.settings, seat, site, sink=Tee(*sinks), directory=directory)
