"""Private training of one party by a file. The library is `tacit.training`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tacit.kind import Kind, Resume, templates_in
from tacit.kinds.private_training.settings import Settings

if TYPE_CHECKING:
    from tacit.audit.scope import Scope
    from tacit.audit.steps import Attacks
    from tacit.boundary import Boundary
    from tacit.events import Event
    from tacit.kind import Here, Result
    from tacit.report.figure import Report
    from tacit.report.forecast import Forecast
    from tacit.report.recomputed import Check
    from tacit.store.record import Record


def _starter() -> str:
    return files(__name__).joinpath("starter.yaml").read_text(encoding="utf-8")


def _forecast(settings: Settings) -> Forecast:
    from tacit.kinds.private_training.run import forecast

    return forecast(settings)


def _boundary(settings: Settings) -> Boundary:
    from tacit.kinds.private_training import boundary

    return boundary.of(settings)


def _execute(settings: Settings, here: Here) -> Callable[[], Result]:
    from tacit.kinds.private_training.run import execute

    return execute(settings, here)


def _report(records: Sequence[Record[Settings]], share: bool) -> Report:
    from tacit.report.epochs_comparison import report

    return report(records, share)


def _attacks(settings: Settings, scope: Scope) -> Attacks:
    from tacit.kinds.private_training.attacks import attacks

    return attacks(settings, scope)


def _free(settings: Settings) -> frozenset[str]:
    from tacit.kinds.private_training.run import may_change

    return may_change(settings)


def _finished(settings: Settings, state: Mapping[str, Any]) -> str | None:
    from tacit.kinds.private_training.run import finished

    return finished(settings, state)


def _caught_up(settings: Settings, state: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
    from tacit.kinds.private_training.run import caught_up

    return caught_up(settings, state, ledger)


def _recompute(settings: Settings, events: Sequence[Event], ledgers: Sequence[dict[str, Any]]) -> Iterable[Check]:
    from tacit.kinds.private_training.recomputed import recompute

    return recompute(settings, events, ledgers)


KIND = Kind(
    name="private_training",
    settings=Settings,
    starter=_starter,
    forecast=_forecast,
    boundary=_boundary,
    execute=_execute,
    report=_report,
    attacks=_attacks,
    resume=Resume(_free, _finished, _caught_up),
    stopped_by="flag",
    budget=lambda settings: settings.monitor.budget or settings.privacy.epsilon,
    templates=lambda: templates_in(__name__, "torch"),
    recompute=_recompute,
)
