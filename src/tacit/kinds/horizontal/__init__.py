"""Horizontal federation: many clients with the same features train one model.

    settings      what a file says; `encrypt` is its section of that name
    task          what a user writes: fit, and optionally evaluate; `tasks` are the built-in ones and those made of
                  linear models of scikit-learn, `torch_tasks` those made of torch modules
    protections   one file each: how updates or inference vectors leave a client, what it costs, every word about it
    carrier       the two ways in which updates travel: `alone`, and `masked` under secure aggregation
    sums, tally   updates that come in one by one, or by the group, added up; the figures of one round
    messages      what the coordinator and a client send each other; `frames` has them as bytes, for any transport
    boundary      everything that leaves a client, and how it is protected; `costs` and `forecast` what it costs, which
                  `plan_words` puts into words, and `party_forecast` for one party
    prepared      makes clients and coordinators, and nothing else does
    client        one client, a state machine without I/O; `answered` is what it remembers having answered
    coordinator   the coordinator, the same; `sampling` chooses clients, `optimizer` turns a mean into the next model,
                  `stopping` ends a run that no longer improves
    kept_arrays   what clients keep from round to round and never send
    record_privacy  private training at clients, as the file has it; `record_plan` is the plan of a round at one client,
                  `record_level` the ledger of its records, `record_forecast` the prices by size
    simulate      every client on one machine or one cluster; `join`: one party over a network; `run`: either of them
    rounds_view   a run as its record tells it; `participation` that of a client; `report` makes pages of both
    attacks       what the coordinator learns of the clients

Two messages make a round: `Work` (the model) to each sampled client, `Update` back. Under masks the update is the
vector of a secure aggregation, whose messages travel in between. An engine carries them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tacit.events import ROUNDS
from tacit.kind import Join, Kind, Resume, templates_in
from tacit.kinds.horizontal.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from tacit.audit.scope import Scope
    from tacit.audit.steps import Attacks
    from tacit.boundary import Boundary
    from tacit.config.local import Local
    from tacit.events import Event
    from tacit.kind import Here, Most, Result, Seat
    from tacit.net.site import Site
    from tacit.report.figure import Report
    from tacit.report.forecast import Forecast, PartyForecast
    from tacit.report.party_forecast import Own
    from tacit.report.recomputed import Check
    from tacit.store.record import Record


def _starter() -> str:
    return files(__name__).joinpath("starter.yaml").read_text(encoding="utf-8")


def _forecast(settings: Settings) -> Forecast:
    from tacit.kinds.horizontal.plan_words import forecast

    return forecast(settings)


def _boundary(settings: Settings) -> Boundary:
    from tacit.kinds.horizontal import boundary

    return boundary.of(settings)


def _execute(settings: Settings, here: Here) -> Callable[[], Result]:
    from tacit.kinds.horizontal.run import execute

    return execute(settings, here)


def _report(records: Sequence[Record[Settings]], share: bool) -> Report:
    from tacit.kinds.horizontal.report import report

    return report(records, share)


def _attacks(settings: Settings, scope: Scope) -> Attacks:
    from tacit.kinds.horizontal.attacks import attacks

    return attacks(settings, scope)


def _free(settings: Settings) -> frozenset[str]:
    from tacit.kinds.horizontal.run import may_change

    return may_change(settings)


def _finished(settings: Settings, state: Mapping[str, Any]) -> str | None:
    from tacit.kinds.horizontal.run import finished

    return finished(settings, state)


def _caught_up(settings: Settings, state: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
    from tacit.kinds.horizontal.run import caught_up

    return caught_up(settings, state, ledger)


def _seat(settings: Settings, party: str, identities: str | None) -> Seat:
    from tacit.kinds.horizontal.join import seat

    return seat(settings, party, identities)


def _address(settings: Settings, party: str) -> str:
    from tacit.kinds.horizontal.join import address

    return address(settings, party)


def _take_part(settings: Settings, seat: Seat, site: Site, here: Here) -> Callable[[], Result]:
    from tacit.kinds.horizontal.join import take_part

    return take_part(settings, seat, site, here)


def _party_forecast(settings: Settings, own: Own) -> PartyForecast:
    from tacit.kinds.horizontal.party_forecast import party_forecast

    return party_forecast(settings, own)


def _most(settings: Settings, seat: Seat, local: Local, folder: Path) -> Most | None:
    from tacit.kinds.horizontal.most import most

    return most(settings, seat, local)


def _recompute(settings: Settings, events: Sequence[Event], ledgers: Sequence[dict[str, Any]]) -> Iterable[Check]:
    from tacit.kinds.horizontal.recomputed import recompute

    return recompute(settings, events, ledgers)


KIND = Kind(
    name="horizontal",
    settings=Settings,
    starter=_starter,
    forecast=_forecast,
    boundary=_boundary,
    execute=_execute,
    report=_report,
    attacks=_attacks,
    resume=Resume(_free, _finished, _caught_up, length="rounds", stateless=lambda party: party != "coordinator"),
    unit="rounds",
    counted=ROUNDS,
    stopped_by="flag",
    join=Join(
        Settings.networked,
        _seat,
        _address,
        _take_part,
        _party_forecast,
        _most,
        lambda settings: settings.encrypt.encrypt_type,
    ),
    budget=lambda settings: settings.budget.epsilon if settings.budget is not None else None,
    templates=lambda: templates_in(__name__, "sklearn", "torch", "lora"),
    recompute=_recompute,
)
