"""What boosted trees between companies will cost and reveal, before any training.

forecast(settings)      from the tables that are on this machine
planned(settings, ...)  from numbers of rows and bins
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.config.source import ConfigError
from tacit.events import Nowhere
from tacit.kinds.vertical_trees import boundary
from tacit.kinds.vertical_trees.columns import smallest_group
from tacit.kinds.vertical_trees.opened_sums import most_equations, opened_words
from tacit.kinds.vertical_trees.party import fitted, tables_here
from tacit.kinds.vertical_trees.protocol.costs import Costs, costs, memory
from tacit.kinds.vertical_trees.protocol.features import IntArray
from tacit.kinds.vertical_trees.settings import Settings
from tacit.lockstep import own_table
from tacit.lockstep.held_out import hold_out
from tacit.lockstep.run import Place
from tacit.report.forecast import Forecast, in_sentences
from tacit.tables.labels import Labels

ROUND_TRIP = 0.02  # seconds, of the estimate
# Seconds of one core of about 3 GHz, both parties together, measured with `python -m bench vertical_trees`: of a cell
# in the set-up, of a word, which a tree needs for each row and bin, and of one for each node if nodes are hidden.
_PLANTED, _WORD, _HIDDEN_WORD = 2e-6, 2.6e-8, 1.5e-8


def forecast(settings: Settings) -> Forecast:
    """What the file will cost. Tables that are here are read, for their sizes; nothing is sent."""
    known = tables_here(settings)
    rows = {name: np.arange(len(table.ids)) for name, table in known.items()}
    if len(known) == len(settings.parties):
        rows = own_table.common(settings, known)
    if any(len(each) < 2 for each in rows.values()):
        raise ConfigError("the tables have no ids in common: tacit data check says what would make them alike")
    place = Place(None, Nowhere())
    columns = {name: fitted(settings, name, table, rows[name], place) for name, table in known.items()}
    bins = {name: each.bins.bins for name, each in columns.items()}
    groups = {
        name: smallest_group(columns[name].apply(known[name].cells)[rows[name]])
        for name in settings.passives
        if name in known
    }
    count = min((len(each) for each in rows.values()), default=None)
    active = known.get(settings.active)
    classes = len(active.labels.classes) if active is not None and isinstance(active.labels, Labels) else None
    return planned(settings, count, bins, classes, groups, all_here=len(known) == len(settings.parties))


def planned(
    settings: Settings,
    rows: int | None = None,
    bins: Mapping[str, IntArray] | None = None,
    classes: int | None = None,
    groups: Mapping[str, int] | None = None,
    *,
    all_here: bool = True,
) -> Forecast:
    """The plan.

    Args:
        rows: those in common, or of the smallest table that is here; None if none is.
        bins: of each party whose table is known, the bins of each feature.
        classes: of the labels, if they are known.
        groups: of each passive whose table is known, the rows of its smallest group.
        all_here: whether no party's table is elsewhere.
    """
    train, privacy = settings.train, settings.privacy
    title = (
        f"{settings.name}: {settings.active} with labels and {', '.join(settings.passives)}, {train.trees} rounds of "
        f"trees of depth {train.depth} in up to {train.bins} bins, partition {privacy.partition}"
    )
    figures: dict[str, Any] = {"trees": train.trees, "parties": len(settings.parties)}
    outputs = (classes or 3) if train.objective == "softmax" else 1
    said, warnings = [], []
    if train.objective == "softmax":
        each = f"{classes} trees, one for each class" if classes else "one tree for each class, here taken as 3"
        said.append(f"A round has {each}.")
    kept = None
    if rows is not None:
        kept = len(hold_out(rows, train.test, settings.seed)[0])
        said.append(f"{kept:,} of {rows:,} rows are trained on; {rows - kept:,} are held out.")
        figures |= {"rows": rows, "training rows": kept}
        said += _costs(settings, rows, outputs, bins or {}, figures)
        warnings = _row_warnings(settings, kept, all_here)
    if settings.predict.budget is None:
        warnings.append("predict.budget is not set: any number of rows is answered with one model.")
    return in_sentences(
        title,
        {
            "Who sees what": tuple(boundary.sentences(settings)),
            "What is not protected": (
                _opened(settings, kept, outputs, figures),
                *_groups(groups or {}, figures),
                *boundary.unprotected(settings),
            ),
            "What it costs": tuple(said),
            "Warnings": (*warnings, *settings.notes()),
        },
        figures,
    )


def _opened(settings: Settings, kept: int | None, outputs: int, figures: dict[str, Any]) -> str:
    """How many equations the active gets, beside the rows that are trained on if they are known."""
    train = settings.train
    asked = kept, train.trees * outputs, train.depth, settings.privacy.least
    figures["equations of a bin"] = most_equations(*asked)
    if kept is not None:
        figures["equations a row"] = round(figures["equations of a bin"] / kept, 4)
    words = opened_words(*asked, train.bins)
    return f"Of each passive's columns {words}."


def _groups(groups: Mapping[str, int], figures: dict[str, Any]) -> list[str]:
    """How few rows a bin has, of each passive whose table is known: what the active learns of them."""
    figures |= {f"rows of the smallest group of {name}": rows for name, rows in groups.items()}
    return [
        f"The smallest group in a column of {name} has {rows:,} {'row' if rows == 1 else 'rows'}, which the active can "
        "tell from all others. Fewer train.bins, or rare for categories, make groups larger."
        for name, rows in groups.items()
    ]


def _costs(
    settings: Settings, rows: int, outputs: int, bins: Mapping[str, IntArray], figures: dict[str, Any]
) -> list[str]:
    trees = settings.train.trees * outputs
    found, whole, computed, held = [], 0, 0.0, 0
    exchanges = settings.train.trees  # one at the end of each round, with all passives at once
    for name in settings.passives:
        if name not in bins:
            continue
        own, depth = bins[name], settings.train.depth
        spent = costs(rows, own, depth, hidden=settings.hidden)
        figures[f"bytes of the set-up with {name}"] = spent.setup
        figures[f"bytes of a tree with {name}"] = spent.tree
        found.append(
            f"The set-up with {name} takes {spent.setup:,} bytes, once for {rows * len(own):,} cells; a tree at most "
            f"{spent.tree:,} bytes and {spent.exchanges} exchanges.{_ratio(spent, rows, own, depth)}"
        )
        word = _HIDDEN_WORD * (1 << (depth - 1)) if settings.hidden else _WORD
        whole += spent.setup + trees * spent.tree
        exchanges += trees * spent.exchanges
        computed += _PLANTED * rows * len(own) + trees * word * rows * int(own.sum())
        held += memory(rows, own)
    if not all(name in bins for name in settings.passives):
        return found
    waits = exchanges * ROUND_TRIP
    figures |= {
        "bytes of the run": whole,
        "exchanges": exchanges,
        "bytes of memory of a party": held,
        "seconds of processor time": round(computed, 3),
        "seconds at a round trip of 20 ms": round(waits + computed, 3),
    }
    return [
        *found,
        f"The run takes at most {whole:,} bytes and {exchanges:,} exchanges: at a round trip of "
        f"{ROUND_TRIP * 1000:.0f} ms at most {waits:,.0f} s of waiting, and about {computed:,.1f} s of processor time "
        "of all parties together.",
        f"{settings.active} holds up to about {held / 1e6:,.1f} MB for the trees of all cells and their words.",
    ]


def _ratio(spent: Costs, rows: int, bins: IntArray, depth: int) -> str:
    """How much more hidden nodes take, if they are hidden."""
    shown = costs(rows, bins, depth)
    if spent.tree == shown.tree:
        return ""
    return f" That is {spent.tree / shown.tree:.1f} times what partition: shown takes."


def _row_warnings(settings: Settings, kept: int, all_here: bool) -> list[str]:
    least, counted = settings.privacy.least, max(1, round(settings.train.rows * kept))
    fewer = [] if all_here else ["A table is elsewhere: fewer rows may be in common, with more opened sums for each."]
    if counted >= least:
        return fewer
    return [
        *fewer,
        f"A tree is grown from {counted} rows, and privacy.least is {least}: no node could be opened, and "
        f"{settings.active} will refuse to begin.",
    ]
