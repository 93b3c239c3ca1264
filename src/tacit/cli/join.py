"""`tacit join`: one party of a file, over the network."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tacit.cli.exits import DONE, FAILED, STATUS, USER, end, endings, not_stored

if TYPE_CHECKING:
    from tacit.config.load import Settings
    from tacit.kinds.horizontal.settings import Settings as Horizontal
    from tacit.net.site import Site
    from tacit.store.directory import RunDirectory


@click.command("join")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--party", required=True, metavar="NAME", help="Who you are: a party of FILE; coordinator, or client with --id."
)
@click.option("--id", "identities", metavar="K", help="Which client; with --insecure also several: 0-24.")
@click.option(
    "--local", "local_file", metavar="FILE", type=click.Path(path_type=Path), help="Your keys, paths, address."
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace a key of FILE; may be repeated.")
@click.option("--runs", default="runs", metavar="DIR", type=click.Path(path_type=Path), help="Where results go.")
@click.option("--resume", metavar="RUN", type=click.Path(path_type=Path), help="Resume a stopped run of this party.")
@click.option("--state", metavar="DIR", type=click.Path(path_type=Path), help="Run in DIR: start there, or resume.")
@click.option("--new", is_flag=True, help="Start anew although an interrupted run of the coordinator is there.")
@click.option("--previous", is_flag=True, help="Resume from the last intact state if the newest is damaged.")
@click.option("--insecure", is_flag=True, help="Without certificates; only on this machine.")
@click.option("--metrics", "metrics_port", type=int, metavar="PORT", help="Serve Prometheus metrics on this machine.")
@click.option("--quiet", is_flag=True, help="Say only where the results are.")
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
    """Be one party of FILE, over the network.

    All parties have the same FILE; what is yours alone (keys, paths, addresses) goes into the --local file, which is
    never sent. A connection that breaks comes back by itself. Ctrl-C and SIGTERM tell the others, who wait.

    --state names a fixed directory: this party starts there if it is empty, and resumes if not. It is all that a
    supervisor needs: run the same command again while the exit code is 5.

    Exit codes: 0 done, 1 failed for good, 2 a mistake in the input, 3 a fault of another party, 4 budget reached,
    5 stopped or interrupted: start again.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what it would say, we say in words
    from tacit.config.load import ConfigError, load
    from tacit.config.local import load_local
    from tacit.config.task import look_beside
    from tacit.kinds.horizontal.join import site_of
    from tacit.kinds.horizontal.settings import Settings as Horizontal
    from tacit.runs.resume import conclude, finished, holds_run, resumed, unfinished
    from tacit.store.directory import RunDirectory

    if resume is not None and state is not None:
        end("--resume and --state both name a directory: give one of them", USER)
    if new and (party != "coordinator" or state is not None):
        end("--new is for a coordinator that starts without --state: leave it out", USER)
    try:
        settings = load(file, overrides)
        local, beside = load_local(local_file)
        numbers: list[int] = []
        if isinstance(settings, Horizontal):
            settings = settings.networked()
            numbers = _numbers(party, identities, settings)
            party = party if party == "coordinator" else f"client-{numbers[0]}"
        elif identities is not None:
            raise ConfigError("--id is for the clients of a horizontal federation: leave it out")
        whole = party if len(numbers) < 2 else f"{party} to {numbers[-1]}"
        site = site_of(settings, local, beside, party, insecure=insecure, noise=noise)
        if site.credentials is not None and len(numbers) > 1:
            end("--id: a certificate is of one client: start one process for each", USER)
        folder = resume or (state if state is not None and holds_run(state) else None)
        if previous and folder is None:
            raise ConfigError("--previous is for a run that is resumed: add --resume RUN, or the --state DIR of a run")
        if folder is not None:
            settings, directory = resumed(folder, settings.model_dump(), party=whole, previous=previous)
            if (done := finished(settings, directory, whole)) is not None:
                click.echo(f"{directory.path}: {done}")
                if numbers or not isinstance(settings, Horizontal):  # a coordinator's clients may have to be told
                    conclude(directory, settings)
                    return
        else:
            old = None if new or state or party != "coordinator" else unfinished(runs, settings, party)
            if old is not None:
                end(f"{old} is a run of this coordinator that was interrupted: --resume {old}, or --new", USER)
            named = f"{settings.name}-{party}"
            directory = RunDirectory.create(runs, settings, time.time(), named=named, party=whole, at=state)
    except (ConfigError, ValueError) as error:
        end(str(error), USER)
    except OSError as error:
        not_stored(resume or state or runs, error)
    look_beside(file)
    status, text = _carried_out(settings, party, site, directory, numbers, quiet, metrics_port)
    if status != "done":
        click.echo(f"{status}: {text}".rstrip(": "), err=True)
    click.echo(f"Results: {directory.path}")
    if (code := STATUS.get(status, FAILED)) != DONE:
        raise SystemExit(code)


def _numbers(party: str, identities: str | None, settings: Horizontal) -> list[int]:
    """The clients that this process is; none for the coordinator."""
    from tacit.config.load import ConfigError

    if party == "coordinator":
        if identities is not None:
            raise ConfigError("--id is for clients: leave it out for the coordinator")
        return []
    if party != "client":
        near = re.fullmatch(r"client-(\d+)", party)
        advice = f"did you mean --party client --id {near[1]}?" if near else "give coordinator, or client with --id"
        raise ConfigError(f"--party is {party!r}: {advice}")
    if identities is None:
        raise ConfigError(f"--id is missing: give the client's number, from 0 to {settings.clients - 1}")
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", identities)
    if not found:
        raise ConfigError(f"--id is {identities!r}: give a number from 0 to {settings.clients - 1}, or two as in 0-3")
    first, last = int(found[1]), int(found[2] or found[1])
    if not first <= last < settings.clients:
        raise ConfigError(f"--id is {identities}: the file has clients 0 to {settings.clients - 1}")
    return list(range(first, last + 1))


def _carried_out(
    settings: Settings,
    party: str,
    site: Site,
    directory: RunDirectory,
    numbers: list[int],
    quiet: bool,
    metrics_port: int | None,
) -> tuple[str, str]:
    from tacit.cli.progress import screen
    from tacit.events import Sink, Tee
    from tacit.kinds.horizontal.join import join_clients, join_coordinator
    from tacit.kinds.horizontal.settings import Settings as Horizontal
    from tacit.lockstep.run import join_party

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
            from tacit.store.metrics import Metrics, serve_metrics

            metrics = Metrics()
            stack.enter_context(serve_metrics(metrics, metrics_port))
            sinks.append(metrics)
        sink = Tee(*sinks)
        if not isinstance(settings, Horizontal):
            return join_party(settings, party, site, sink, directory)
        if numbers:
            return join_clients(settings, numbers, site, sink, directory)
        outcome = join_coordinator(settings, site, sink, directory)
        return outcome.status, outcome.text
