"""`tacit join`: one party of a file, over the network."""

from __future__ import annotations

import os
import shlex
import signal
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli.exits import DONE, FAILED, STATUS, USER, end, endings, not_stored

if TYPE_CHECKING:
    from tacit.kind import Seat
    from tacit.net.site import Site
    from tacit.runs.outcome import Outcome
    from tacit.sections import Settings
    from tacit.store.directory import RunDirectory


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
@click.option("--metrics", "metrics_port", type=int, metavar="PORT", help="Serve Prometheus metrics on this machine.")
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

    if resume is not None and state is not None:
        end("--resume and --state both name a directory: give one of them", USER)
    if new and (party != "coordinator" or state is not None):
        end("--new is for a coordinator that starts without --state: leave it out", USER)
    look_beside(file)
    try:
        start = _start(file, party, identities, local_file, overrides, insecure, noise)
        if start.site.credentials is not None and len(start.seat.clients) > 1:
            end("--id: a certificate is of one client: start one process for each", USER)
        directory = _opened(start, runs, resume, state, new, previous)
    except (ConfigError, ValueError) as error:
        end(str(error), USER)
    except OSError as error:
        not_stored(resume or state or runs, error)
    if directory is None:
        return
    outcome = _carried_out(start, directory, quiet, metrics_port)
    if outcome.status != "done":
        click.echo(f"{outcome.status}: {outcome.text}".rstrip(": "), err=True)
    click.echo(f"Results: {directory.path}")
    if (code := STATUS.get(outcome.status, FAILED)) != DONE:
        raise SystemExit(code)


@dataclass(slots=True)
class _Start:
    """Who joins what, and how it is reached."""

    settings: Settings
    seat: Seat
    site: Site


def _start(
    file: Path,
    party: str,
    identities: str | None,
    local_file: Path | None,
    overrides: tuple[str, ...],
    insecure: bool,
    noise: bool,
) -> _Start:
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
    return _Start(settings, seat, site_of(settings, local, folder, seat.name, insecure=insecure, noise=noise))


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
        click.echo(f"{directory.path}: {done}")
        if not start.seat.coordinates:  # a coordinator's clients may have to be told
            conclude(directory, start.settings, whole)
            return None
    return directory


def _carried_out(start: _Start, directory: RunDirectory, quiet: bool, metrics_port: int | None) -> Outcome:
    from tacit.cli.progress import screen
    from tacit.events import Sink, Tee
    from tacit.runs.join import take_part

    with endings(directory), ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            # Certificates are read again when they have changed: the signal to do so must not end the run.
            stack.callback(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_IGN))
        stack.enter_context(directory)
        sinks: list[Sink] = [directory]
        if not quiet:
            shown = screen()
            stack.enter_context(shown)
            sinks.append(shown)
        if metrics_port is not None:
            from tacit.store.prometheus import Metrics, serve_metrics

            metrics = Metrics()
            stack.enter_context(serve_metrics(metrics, metrics_port))
            sinks.append(metrics)
        return take_part(start.settings, start.seat, start.site, sink=Tee(*sinks), directory=directory)
