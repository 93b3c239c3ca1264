"""A party's table on its way into the regression: opened, checked, and fitted on the training rows.

opened(settings, name, place)       the table of a party: from its local file, from the shared file, or the task's
check_tables(settings, ...)         everything that is wrong with the tables that are here
fitted(...), count_again(...)       the transforms, with counts of labels where a column needs them; after a restart
stored_transforms, transforms_of    the transforms in a stored part
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Channel
from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.crypto.paillier import PrivateKey
from tacit.kinds.vertical_logistic.protocol import batches, label_counts
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.protocol.label_count_terms import LEAST, Terms
from tacit.kinds.vertical_logistic.protocol.label_counts import Counting
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep import own_table
from tacit.lockstep.run import Place
from tacit.tables.check import Checked
from tacit.tables.fitted import Fitted
from tacit.tables.labels import Labels
from tacit.tables.table import Table

TRANSFORMS = "transforms"  # in a stored part: JSON in bytes


def opened(settings: Settings, name: str, place: Place) -> Table:
    """A party's table, with its labels if it is the active; ValueError lists all that must be mended."""
    return own_table.opened(settings, name, place, settings.label_kind)


def check_tables(settings: Settings, party: str | None, local: Local, folder: Path) -> dict[str, Checked]:
    """Everything that is wrong with one party's table, or with all that are here."""
    return own_table.check_tables(settings, party, local, folder, settings.label_kind)


@dataclass(frozen=True, slots=True)
class Counted:
    """What counts of labels take: the parties' channels, and what either side is given in addition."""

    channels: Mapping[str, Channel]
    counting: Counting
    key: Callable[[], PrivateKey]  # makes the active's, if a passive asks


def fitted(settings: Settings, name: str, table: Table, rows: Rows, counted: Counted | None, place: Place) -> Fitted:
    """The transforms of this party, fitted on the training rows among the common `rows`.

    Columns of weight of evidence need counts of the active's labels (`counted`). Every passive tells the active whether
    it has such columns.
    """
    training = _training(settings, rows)
    made = table.fit(training)
    if counted is None:
        return made
    if name == settings.active:
        _give(settings, table, training, counted, place)
        return made
    columns = {each.name: each.column for each in table.choices}
    least = min((columns[each].least for each in made.waiting), default=LEAST)
    return made.with_counts(
        label_counts.ask(counted.channels[settings.active], made.waiting, counted.counting, least=least)
    )


def count_again(settings: Settings, name: str, table: Table, rows: Rows, counted: Counted, place: Place) -> None:
    """What a party does that has stored its transforms, in place of `fitted`.

    Another one may have been stopped before it stored its own: a passive says that it needs no counts, and the active
    gives those that ask the counts that they had.
    """
    if name == settings.active:
        _give(settings, table, _training(settings, rows), counted, place)
    else:
        label_counts.ask(counted.channels[settings.active], {}, counted.counting)


def _training(settings: Settings, rows: Rows) -> Rows:
    return rows[batches.hold_out(len(rows), settings.train.test, settings.seed)[0]]


def _give(settings: Settings, table: Table, training: Rows, counted: Counted, place: Place) -> None:
    data = own_table.data_of(settings, settings.active, place)
    terms = Terms(allowed=data is not None and data[0].label_counts)
    labels = table.labels.codes[training] if isinstance(table.labels, Labels) else np.full(len(training), -1)
    # All have asked before one is answered: by then each has stored its rows, so that none needs others.
    requests = {passive: label_counts.requested(counted.channels[passive]) for passive in settings.passives}
    for passive, request in requests.items():
        label_counts.give(counted.channels[passive], passive, labels, counted.key, counted.counting, terms, request)


def counted_here(settings: Settings, tables: Mapping[str, Table], rows: Mapping[str, Rows]) -> dict[str, Fitted]:
    """The transforms of all parties, if one process has all tables: counts need no protocol then."""
    training, _ = batches.hold_out(len(rows[settings.active]), settings.train.test, settings.seed)
    labels = tables[settings.active].labels
    codes = labels.codes[rows[settings.active]][training] if isinstance(labels, Labels) else None
    return {name: table.fit(rows[name][training], codes) for name, table in tables.items()}


def stored_transforms(transforms: Fitted) -> NDArray[np.uint8]:
    """The transforms for a party's stored part."""
    return np.frombuffer(json.dumps(transforms.state()).encode(), dtype=np.uint8).copy()


def transforms_of(part: Mapping[str, Any]) -> Fitted:
    """The transforms of a stored part."""
    if TRANSFORMS not in part:
        raise ConfigError("the stored model has no transforms: it is of an earlier release, train it anew")
    try:
        state = json.loads(np.asarray(part[TRANSFORMS], dtype=np.uint8).tobytes())
    except (ValueError, RecursionError) as error:
        raise ValueError("the stored transforms are damaged: they are no JSON; take the model from a copy") from error
    return Fitted.restore(state)
