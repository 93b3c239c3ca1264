"""Split learning: one network cut between parties, who send each other activations and gradients across the cut.

`EmbeddingDP` turns activations into randomized bits, `LabelDP` randomizes labels; `leader` and `follower` are the two
parties of a training, functions over channels. `boundary` lists what leaves each of them, `forecast` what it will cost.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from tacit.kind import Kind, templates_in
from tacit.kinds.split.settings import Settings
from tacit.lockstep import verbs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from tacit.audit.scope import Scope
    from tacit.audit.steps import Attacks
    from tacit.boundary import Boundary
    from tacit.config.local import Local
    from tacit.events import Event
    from tacit.kind import Most, Seat
    from tacit.lockstep.run import Lockstep
    from tacit.report.forecast import Forecast
    from tacit.report.recomputed import Check
    from tacit.tables.check import Checked


def _starter() -> str:
    return files(__name__).joinpath("starter.yaml").read_text(encoding="utf-8")


def _forecast(settings: Settings) -> Forecast:
    from tacit.kinds.split.party import forecast

    return forecast(settings)


def _boundary(settings: Settings) -> Boundary:
    from tacit.kinds.split import boundary

    return boundary.of(settings)


def _attacks(settings: Settings, scope: Scope) -> Attacks:
    from tacit.kinds.split.attacks import attacks

    return attacks(settings, scope)


def _lockstep() -> Lockstep[Settings]:
    from tacit.kinds.split.party import LOCKSTEP

    return LOCKSTEP


def _most(settings: Settings, seat: Seat, local: Local, folder: Path) -> Most | None:
    from tacit.kinds.split.most import most

    return most(settings, seat, local, folder)


def _tables(settings: Settings, party: str | None, local: Local, folder: Path) -> Mapping[str, Checked]:
    from tacit.kinds.split.party_tables import check_tables

    return check_tables(settings, party, local, folder)


def _recompute(settings: Settings, events: Sequence[Event], ledgers: Sequence[dict[str, Any]]) -> Iterable[Check]:
    from tacit.kinds.split.recomputed import recompute

    return recompute(settings, events, ledgers)


KIND = Kind(
    name="split",
    settings=Settings,
    starter=_starter,
    forecast=_forecast,
    boundary=_boundary,
    execute=verbs.execute(_lockstep),
    report=verbs.report,
    attacks=_attacks,
    resume=verbs.resume(_lockstep),
    join=verbs.join(_lockstep, _boundary, _forecast, _most),
    predict=verbs.predict(_lockstep),
    tables=_tables,
    budget=lambda settings: settings.budget.epsilon if settings.budget is not None else None,
    templates=lambda: templates_in(__name__, "tables"),
    recompute=_recompute,
)
