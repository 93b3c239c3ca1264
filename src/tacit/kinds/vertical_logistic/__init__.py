"""Same rows, other columns: parties that know different things about the same people learn one model.

settings            what the file of such a training says
protocol            logistic regression under Paillier, one function a role
party               one party with its table: aligns, trains, keeps its own part
boundary, forecast  who sees what, and what it will cost, before anybody trains
attacks             what the active learns of rows, and a passive of labels
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tacit.kind import Join, Kind, Predict, Resume
from tacit.kinds.vertical_logistic.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.audit.steps import Attacks, Scope
    from tacit.boundary import Boundary
    from tacit.events import Sink
    from tacit.kind import Here, Result, Seat
    from tacit.net.site import Site
    from tacit.report.figure import Report
    from tacit.report.forecast import Forecast, PartyForecast
    from tacit.report.party_forecast import Own
    from tacit.store.record import Record
    from tacit.store.scores import Scores


def _starter() -> str:
    return files(__name__).joinpath("starter.yaml").read_text(encoding="utf-8")


def _forecast(settings: Settings) -> Forecast:
    from tacit.kinds.vertical_logistic.party import forecast

    return forecast(settings)


def _boundary(settings: Settings) -> Boundary:
    from tacit.kinds.vertical_logistic import boundary

    return boundary.of(settings)


def _execute(settings: Settings, here: Here) -> Callable[[], Result]:
    from tacit.kinds.vertical_logistic.party import execute

    return execute(settings, here)


def _report(records: Sequence[Record[Settings]], share: bool) -> Report:
    from tacit.report.epochs_comparison import report

    return report(records, share)


def _attacks(settings: Settings, scope: Scope) -> Attacks:
    from tacit.kinds.vertical_logistic.attacks import attacks

    return attacks(settings, scope)


def _free(settings: Settings) -> frozenset[str]:
    from tacit.kinds.vertical_logistic.party import may_change

    return may_change(settings)


def _finished(settings: Settings, state: Mapping[str, Any]) -> str | None:
    from tacit.kinds.vertical_logistic.party import finished

    return finished(settings, state)


def _caught_up(settings: Settings, state: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
    from tacit.kinds.vertical_logistic.party import caught_up

    return caught_up(settings, state, ledger)


def _seat(settings: Settings, party: str, identities: str | None) -> Seat:
    from tacit.lockstep.run import seat

    return seat(settings, party, identities)


def _address(settings: Settings, party: str) -> str:
    from tacit.lockstep.run import address

    return address(settings, party)


def _take_part(settings: Settings, seat: Seat, site: Site, here: Here) -> Callable[[], Result]:
    from tacit.kinds.vertical_logistic.party import take_part

    return take_part(settings, seat, site, here)


def _party_forecast(settings: Settings, own: Own) -> PartyForecast:
    from tacit.lockstep.party_forecast import check_party, party_forecast

    check_party(settings, own.name)
    return party_forecast(settings, own, _boundary(settings), _forecast(settings))


def _predict_here(settings: Settings, run: Path, sources: Mapping[str, Path], sink: Sink) -> Scores:
    from tacit.kinds.vertical_logistic.party import predict_here

    return predict_here(settings, run, sources, sink)


def _predict_as(settings: Settings, name: str, run: Path, source: Path | None, site: Site, sink: Sink) -> Scores | None:
    from tacit.kinds.vertical_logistic.party import predict_as

    return predict_as(settings, name, run, source, site, sink)


KIND = Kind(
    name="vertical_logistic",
    settings=Settings,
    starter=_starter,
    forecast=_forecast,
    boundary=_boundary,
    execute=_execute,
    report=_report,
    attacks=_attacks,
    resume=Resume(_free, _finished, _caught_up, parts=lambda settings: tuple(settings.parties)),
    join=Join(lambda settings: settings, _seat, _address, _take_part, _party_forecast),
    predict=Predict(lambda settings: settings.lead, _predict_here, _predict_as),
)
