"""What a kind of parties in lock step can do, made of its `Lockstep`, which is loaded when a verb needs it.

def _lockstep() -> Lockstep[Settings]:
    from tacit.kinds.split.party import LOCKSTEP

    return LOCKSTEP

KIND = Kind(..., execute=execute(_lockstep), resume=resume(_lockstep), ...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tacit.config.source import ConfigError
from tacit.kind import Join, Most, Predict, Resume, Seat
from tacit.lockstep.parties import Parties

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.boundary import Boundary
    from tacit.config.local import Local
    from tacit.events import Sink
    from tacit.kind import Here, Result
    from tacit.lockstep.run import Lockstep
    from tacit.net.site import Site
    from tacit.report.figure import Report
    from tacit.report.forecast import Forecast, PartyForecast
    from tacit.report.party_forecast import Own
    from tacit.store.record import Record
    from tacit.store.scores import Scores

P = TypeVar("P", bound=Parties)


def execute(load: Callable[[], Lockstep[P]]) -> Callable[[P, Here], Callable[[], Result]]:
    """Every party in this process."""

    def made(settings: P, here: Here) -> Callable[[], Result]:
        from tacit.lockstep.run import execute

        return execute(load(), settings, here)

    return made


def resume(load: Callable[[], Lockstep[P]]) -> Resume[P]:
    """How stored parties are taken up again. One has nothing left to do once all have said that they are done."""

    def finished(settings: P, state: Mapping[str, Any]) -> str | None:
        from tacit.lockstep.resumption import CONFIRMED

        kind = load()
        over = kind.complete(settings, state) and state.get(CONFIRMED)
        return kind.over(settings, state) if over else None

    return Resume(
        lambda settings: load().free(settings),
        finished,
        lambda settings, state, ledger: load().caught_up(settings, state, ledger),
        parts=lambda settings: tuple(settings.parties),
    )


def join(
    load: Callable[[], Lockstep[P]],
    boundary: Callable[[P], Boundary],
    forecast: Callable[[P], Forecast],
    most: Callable[[P, Seat, Local, Path], Most | None] = lambda settings, seat, local, folder: Most(),
) -> Join[P]:
    """One party over a network. `most`: as in `kind.Join`."""

    def take_part(settings: P, seat: Seat, site: Site, here: Here) -> Callable[[], Result]:
        from tacit.lockstep.run import take_part

        return take_part(load(), settings, seat, site, here)

    def party_forecast(settings: P, own: Own) -> PartyForecast:
        from tacit.lockstep.party_forecast import party_forecast

        _check_party(settings, own.name)
        return party_forecast(settings, own, boundary(settings), forecast(settings))

    return Join(lambda settings: settings, _seat, _address, take_part, party_forecast, most)


def predict(load: Callable[[], Lockstep[P]]) -> Predict[P]:
    """Parties that use their parts of a model together."""

    def here(settings: P, run: Path, sources: Mapping[str, Path], sink: Sink) -> Scores:
        from tacit.lockstep.run import predict_here

        return predict_here(load(), settings, run, sources, sink)

    def over_network(settings: P, name: str, run: Path, source: Path | None, site: Site, sink: Sink) -> Scores | None:
        from tacit.lockstep.run import predict_as

        return predict_as(load(), settings, name, run, source, site, sink)

    return Predict(lambda settings: settings.lead, here, over_network)


def report(records: Sequence[Record[P]], share: bool) -> Report:
    """The page of a training in epochs, or of several."""
    from tacit.report.epochs_comparison import report

    return report(records, share)


def _seat(settings: Parties, party: str, identities: str | None) -> Seat:
    """The party that `--party` names."""
    if identities is not None:
        raise ConfigError("--id is for the clients of a horizontal federation: leave it out")
    return Seat(party)


def _address(settings: Parties, party: str) -> str:
    """Where the party is that all others connect to."""
    _check_party(settings, party)
    found: str | None = settings.parties[settings.hub].address
    if found is None:
        raise ConfigError(f"the file does not say where {settings.hub} is: add its address: HOST:PORT under parties")
    return found


def _check_party(settings: Parties, party: str) -> None:
    """ConfigError if the file has no such party."""
    if party not in settings.parties:
        raise ConfigError(f"--party is {party!r}: give {' or '.join(settings.parties)}")
