"""Same rows, other columns: parties that know different things about the same people learn one model.

settings            what the file of such a training says
protocol            logistic regression under Paillier, one function a role
own_table           a party's table: opened, checked, fitted on the training rows
party               one party with its table: aligns, trains, keeps its own part
boundary, forecast  who sees what, and what it will cost, before any training
coefficients        a party's own weights as people read them; `points` and `scorecard`: as points of a scorecard
release             what a prediction tells about new rows
attacks             what the active learns of rows, and a passive of labels
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tacit.kind import Kind, Scorecard, templates_in
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep import verbs
from tacit.report.recomputed import without_epsilon

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from tacit.audit.scope import Scope
    from tacit.audit.steps import Attacks
    from tacit.boundary import Boundary
    from tacit.config.local import Local
    from tacit.kind import CardScale
    from tacit.lockstep.run import Lockstep
    from tacit.report.forecast import Forecast
    from tacit.store.scores import Scores
    from tacit.tables.check import Checked


def _starter() -> str:
    return files(__name__).joinpath("starter.yaml").read_text(encoding="utf-8")


def _forecast(settings: Settings) -> Forecast:
    from tacit.kinds.vertical_logistic.party import forecast

    return forecast(settings)


def _boundary(settings: Settings) -> Boundary:
    from tacit.kinds.vertical_logistic import boundary

    return boundary.of(settings)


def _attacks(settings: Settings, scope: Scope) -> Attacks:
    from tacit.kinds.vertical_logistic.attacks import attacks

    return attacks(settings, scope)


def _lockstep() -> Lockstep[Settings]:
    from tacit.kinds.vertical_logistic.party import LOCKSTEP

    return LOCKSTEP


def _scorecard(settings: Settings, name: str, part: Mapping[str, NDArray[Any]], asked: CardScale) -> Scores:
    from tacit.kinds.vertical_logistic.scorecard import scorecard

    return scorecard(settings, name, part, asked)


def _good_class(parts: Mapping[str, Mapping[str, NDArray[Any]]], label: str) -> int:
    from tacit.kinds.vertical_logistic.scorecard import good_class

    return good_class(parts, label)


def _tables(settings: Settings, party: str | None, local: Local, folder: Path) -> Mapping[str, Checked]:
    from tacit.kinds.vertical_logistic.own_table import check_tables

    return check_tables(settings, party, local, folder)


KIND = Kind(
    name="vertical_logistic",
    settings=Settings,
    starter=_starter,
    forecast=_forecast,
    boundary=_boundary,
    execute=verbs.execute(_lockstep),
    report=verbs.report,
    attacks=_attacks,
    resume=replace(verbs.resume(_lockstep), sized="its steps were planned"),
    join=verbs.join(_lockstep, _boundary, _forecast),
    predict=verbs.predict(_lockstep),
    scorecard=Scorecard(lambda settings: settings.owners, _scorecard, _good_class),
    tables=_tables,
    templates=lambda: templates_in(__name__, "tables"),
    recompute=without_epsilon,
)
