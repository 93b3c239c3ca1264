"""Boosted trees of parties with the same rows and different columns.

settings            what the file of such a training says
protocol            bins, splits and trees; sums of a passive's bins by oblivious transfer
columns             a party's columns in bins, fitted on the training rows
party, training     one party with its table: aligns, trains, keeps its own part
part, kept_cells    what a party stores: its part of the model, and secrets of a training under way
judged, importance  how good the trees are, and which own columns they use; pictures, the first trees
boundary, forecast  who sees what, and what it will cost, before any training
release             what a prediction tells about new rows
attacks             what the active learns of columns, and a passive of labels
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from tacit.events import Counted
from tacit.kind import Kind, templates_in
from tacit.kinds.vertical_trees.settings import Settings
from tacit.lockstep import verbs
from tacit.report.recomputed import without_epsilon

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tacit.audit.scope import Scope
    from tacit.audit.steps import Attacks
    from tacit.boundary import Boundary
    from tacit.config.local import Local
    from tacit.lockstep.run import Lockstep
    from tacit.report.forecast import Forecast
    from tacit.tables.check import Checked


def _starter() -> str:
    return files(__name__).joinpath("starter.yaml").read_text(encoding="utf-8")


def _forecast(settings: Settings) -> Forecast:
    from tacit.kinds.vertical_trees.forecast import forecast

    return forecast(settings)


def _boundary(settings: Settings) -> Boundary:
    from tacit.kinds.vertical_trees import boundary

    return boundary.of(settings)


def _attacks(settings: Settings, scope: Scope) -> Attacks:
    from tacit.kinds.vertical_trees.attacks import attacks

    return attacks(settings, scope)


def _lockstep() -> Lockstep[Settings]:
    from tacit.kinds.vertical_trees.party import LOCKSTEP

    return LOCKSTEP


def _tables(settings: Settings, party: str | None, local: Local, folder: Path) -> Mapping[str, Checked]:
    from tacit.kinds.vertical_trees.party import check_tables

    return check_tables(settings, party, local, folder)


_ROUNDS = Counted("round", "a round", "rounds of trees", steps=False, numbers="columns")  # a tree, or one of each class

KIND = Kind(
    name="vertical_trees",
    settings=Settings,
    starter=_starter,
    forecast=_forecast,
    boundary=_boundary,
    execute=verbs.execute(_lockstep),
    report=verbs.report,
    attacks=_attacks,
    resume=replace(
        verbs.resume(_lockstep), length="train.trees", sized="trees behind the best one were left out at its end"
    ),
    counted=_ROUNDS,
    join=verbs.join(_lockstep, _boundary, _forecast),
    predict=verbs.predict(_lockstep),
    tables=_tables,
    templates=lambda: templates_in(__name__, "tables"),
    recompute=without_epsilon,
)
