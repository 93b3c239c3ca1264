"""A party that runs, as its operators see it: commands over a socket in its folder, and pages over HTTP if wanted."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tacit.config.local import Local
    from tacit.events import Sink
    from tacit.net.identity import Credentials
    from tacit.net.pausing import Pausing
    from tacit.net.vitals import Vitals
    from tacit.operations.endpoint import Endpoint
    from tacit.operations.standing import Standing
    from tacit.sections import Settings
    from tacit.store.directory import RunDirectory

_STATES = ("state-*.safetensors", "*/state-*.safetensors", "client-*.json")


def wanted(port: int | None, local: Local | None = None, folder: Path = Path()) -> Endpoint | None:
    """Where the pages are served, as --metrics or the --local file says; ConfigError if they may not be there."""
    from tacit.config.source import ConfigError
    from tacit.operations.endpoint import Endpoint, endpoint_of

    asked = local.metrics if local is not None else None
    if asked is not None and port is not None:
        raise ConfigError("--metrics and metrics in the --local file both say where the pages are: give one of them")
    if asked is not None:
        return endpoint_of(asked.address, folder, asked.token_file, asked.certificate, asked.private)
    return None if port is None else Endpoint("127.0.0.1", port)


@contextmanager
def operated(
    settings: Settings,
    directory: RunDirectory,
    endpoint: Endpoint | None,
    *,
    party: str = "",
    vitals: Vitals | None = None,
    pausing: Pausing | None = None,
    credentials: Credentials | None = None,
) -> Iterator[list[Sink]]:
    """Let operators see and stop the party until the end of the block. Gives the sinks that are told its events."""
    from tacit.events import Noted
    from tacit.kind import kind_of
    from tacit.net.vitals import Vitals
    from tacit.operations import control, http
    from tacit.operations.commands import answers
    from tacit.operations.counts import Metrics
    from tacit.operations.overview import View
    from tacit.operations.standing import Status
    from tacit.store.directory import read_timed_events

    status, metrics = Status(), Metrics()
    with suppress(ValueError):  # a line that is damaged, or of another release
        status.replay(read_timed_events(directory.path / "events.jsonl"))
    view = View(
        settings.kind,
        party,
        status,
        metrics,
        vitals or Vitals(),
        kind_of(settings).budget(settings),
        pausing,
        lambda: _expiries(credentials, endpoint),
        lambda: _not_stored(directory.path, status.standing),
    )
    with ExitStack() as stack:
        try:
            stack.enter_context(control.listening(directory.path, answers(view, pausing, _stop)))
        except (OSError, ValueError) as error:
            directory.emit(Noted(f"no socket for tacit status, pause, unpause and stop: {error}"))
        if endpoint is not None:
            stack.enter_context(http.serve(view, endpoint))
        yield [status, metrics]


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _expiries(credentials: Credentials | None, endpoint: Endpoint | None) -> Mapping[str, float]:
    """Until when each certificate is valid, as the files are now."""
    found = {}
    if credentials is not None:
        from tacit.net.identity import authority_certificate

        now = credentials.renewed()
        authority: datetime = authority_certificate(now.authority).not_valid_after_utc
        found = {"party": now.expires.timestamp(), "authority": authority.timestamp()}
    if endpoint is not None and endpoint.secure is not None:
        found["metrics"] = endpoint.secure.expires()
    return found


def _not_stored(folder: Path, standing: Standing) -> str:
    """What is wrong with the state on disk; empty if it is as it should be."""
    if not os.access(folder, os.W_OK):
        return "the folder of the run cannot be written"
    if os.statvfs(folder).f_bavail == 0:
        return "the disk is full"
    done = max(standing.round or 0, standing.epoch or 0) > 1
    kept = any(next(folder.glob(pattern), None) for pattern in _STATES) if done else True
    return "" if kept else "no state is stored"
