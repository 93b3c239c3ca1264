"""Carrying out boosted trees between companies: every party here, or one of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.align.intersection import order_digest
from tacit.channel import Channel
from tacit.config.local import Local
from tacit.config.source import ConfigError
from tacit.events import Noted, Nowhere
from tacit.kinds.vertical_trees import columns as binned_columns
from tacit.kinds.vertical_trees import importance, judged, pictures
from tacit.kinds.vertical_trees.columns import Columns
from tacit.kinds.vertical_trees.kept_cells import KeptCells
from tacit.kinds.vertical_trees.part import Part
from tacit.kinds.vertical_trees.protocol import passive, prediction
from tacit.kinds.vertical_trees.protocol.boosting import Labelled
from tacit.kinds.vertical_trees.protocol.features import BinArray, IntArray, PlainFeatures
from tacit.kinds.vertical_trees.release import scores_table
from tacit.kinds.vertical_trees.settings import Data, Settings
from tacit.kinds.vertical_trees.training import Brought, train_active, train_passive
from tacit.lockstep import own_table
from tacit.lockstep.held_out import hold_out
from tacit.lockstep.resumption import Held, agreed_session
from tacit.lockstep.run import Lockstep, Place, Predictor
from tacit.lockstep.run import Part as Ended
from tacit.store.answers import Answers
from tacit.store.party_folder import Store
from tacit.store.scores import Scores
from tacit.tables.check import Checked
from tacit.tables.table import Table

NO_LEDGER: dict[str, Any] = {"version": 1, "ledgers": []}  # nothing here has an epsilon


def free(stored: Settings) -> frozenset[str]:
    """What a resumed run may change: its length, unless trees behind the best one were left out at its end."""
    return frozenset() if stored.train.patience is not None else frozenset({"train.trees"})


def complete(settings: Settings, state: Mapping[str, Any]) -> bool:
    """Whether a party with this state has trained to the end."""
    return bool(state["round"] >= settings.train.trees or (state["ended"] and settings.train.patience is not None))


def over(settings: Settings, state: Mapping[str, Any]) -> str:
    """Why there is nothing left to do, for this party or another."""
    done = state["round"]
    if settings.train.patience is not None:
        return f"the training ended after {done} rounds of trees: to train longer, start a new run"
    return f"all {done} rounds of trees are done: to train longer, give more (--set train.trees={2 * done})"


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    """What a party has stored of a training."""

    state: Mapping[str, Any]
    part: Part
    rows: IntArray


def party(settings: Settings, name: str, place: Place) -> Callable[[Mapping[str, Channel]], Ended]:
    """One party: aligns, puts its columns into bins, trains, and keeps its own part."""
    _check_signs(settings, name, place)
    table = own_table.opened(settings, name, place, settings.label_kind, Data)
    if name == settings.active:
        judged.check_labels(settings, table)
    stored = _stored(place.store, name, table)

    def take_part(channels: Mapping[str, Channel]) -> Ended:
        for note in table.notes:
            place.sink.emit(Noted(f"{name}: {note}"))
        found = _agreed(settings, name, table, stored, channels, place)
        keep = _storer(place.store, own_table.people(table, found.rows), found.rows)
        if found is not stored:
            keep(found.part, found.state)
        binned = found.part.columns.apply(table.cells)[found.rows]
        if found is not stored and name != settings.active:
            place.sink.emit(Noted(f"{name}: {binned_columns.smallest_words(binned, settings.active)}"))
        brought = Brought(
            settings,
            name,
            binned,
            found.part,
            found.state,
            KeptCells(None if place.store is None else place.store.path),
            place.sink,
            keep,
        )
        if name != settings.active:
            part = train_passive(channels, brought)
        else:
            known, classes = judged.labelled(settings, table, found.rows)
            part, scores = train_active(channels, brought, known, classes)
            for event in judged.told(known, scores, classes):
                place.sink.emit(event)
        for event in (*importance.told(name, part), *pictures.told(part)):
            place.sink.emit(event)
        return Ended(part.file(), NO_LEDGER)

    return take_part


def _agreed(
    settings: Settings,
    name: str,
    table: Table,
    stored: _Stored | None,
    channels: Mapping[str, Channel],
    place: Place,
) -> _Stored:
    """What this party has of the training that all are part of: stored, or begun with the rows that all have."""
    held = Held() if stored is None else Held(stored.part.session, stored.state["round"] > 0)
    session = agreed_session(channels, name, settings.active, held)
    if stored is not None and session == stored.part.session:
        return stored
    rows = own_table.aligned(settings, name, table.ids, channels, place.sink)
    columns = fitted(settings, name, table, rows, place)
    return _Stored({"round": 0, "ended": False}, Part(columns, settings.order, session), rows)


def fitted(settings: Settings, name: str, table: Table, rows: IntArray, place: Place) -> Columns:
    """A party's columns in bins, by the training rows among the common `rows`."""
    given = own_table.data_of(settings, name, place, Data)
    data = given[0] if given is not None else None
    training = rows[hold_out(len(rows), settings.train.test, settings.seed)[0]]
    sign = data.sign if isinstance(data, Data) else lambda column: 0
    return binned_columns.fit(table, training, settings.train.bins, sign)


def _check_signs(settings: Settings, name: str, place: Place) -> None:
    """ConfigError if a party's file has monotone constraints, and its scores are those of several classes."""
    given = own_table.data_of(settings, name, place, Data)
    data = given[0] if given is not None else None
    if settings.train.objective == "softmax" and isinstance(data, Data) and data.monotone:
        raise ConfigError(
            f"column {data.monotone[0]} of {name} is monotone, and train.objective is softmax: with the scores of all "
            "classes a probability may rise and fall; leave out monotone, or take binary"
        )


def _storer(store: Store | None, people: str, rows: IntArray) -> Callable[[Part, Mapping[str, Any]], None]:
    """What keeps a party's part and its state."""

    def keep(part: Part, state: Mapping[str, Any]) -> None:
        if store is not None:
            whole = {"session": part.session.hex(), "rows": rows, "people": people, **state}
            store.save(part.file(), whole, NO_LEDGER)

    return keep


def _stored(store: Store | None, name: str, table: Table) -> _Stored | None:
    """What a party stored, if its table is still the one that the stored rows are numbers of."""
    found = store.stored() if store is not None else None
    if found is None:
        return None
    state, model = found
    rows = np.asarray(state["rows"], dtype=np.int64)
    if not own_table.fits(table, rows, state["people"]):
        raise own_table.other_table(name)
    part = Part.of(model)
    if state["session"] != part.session.hex():
        if not state["round"]:
            return None  # killed while it stored that all parties begin anew
        raise ConfigError(
            f"the stored state and model of {name} are of different trainings: take both from the same copy, or start "
            "all parties anew"
        )
    return _Stored(state, part, rows)


def predictor(
    settings: Settings, name: str, model: Mapping[str, NDArray[Any]], source: Path | None, place: Place
) -> Predictor:
    """One party of a prediction on new rows: at the active each common id with its score."""
    part = Part.of(model)
    if (part.ensemble is None) == (name == settings.active):
        raise ConfigError(f"this part of the model is not that of {name}: give the folder of its own run with --run")
    new = own_table.new_rows(settings, name, part.columns, source, place, Data)
    binned = part.columns.apply(new.cells)

    def take_part(channels: Mapping[str, Channel]) -> Scores | None:
        rows = own_table.aligned(settings, name, new.ids, channels, place.sink)
        if name != settings.active:
            _spend(settings, place, order_digest(new.ids, rows), len(rows))
            _answer(channels[settings.active], binned[rows], part, settings)
            return None
        scores = _scores(channels, binned[rows], part, settings)
        given = np.argsort(rows)  # as the rows were given: alignment shuffles them
        return scores_table([new.ids[int(row)] for row in rows[given]], scores[given], part.classes, settings)

    return take_part


def _scores(channels: Mapping[str, Channel], binned: BinArray, part: Part, settings: Settings) -> NDArray[np.float64]:
    """The raw scores of new rows, at the active."""
    if part.ensemble is None or not len(part.ensemble.trees):
        raise ConfigError("this part of the model has no trees: give the folder of a finished run with --run")
    own = PlainFeatures(binned, part.columns.bins.bins)
    hidden, session = settings.hidden, part.session
    remote = [prediction.meet(channels[name], len(binned), hidden=hidden, session=session) for name in part.parties[1:]]
    found = prediction.scores(part.ensemble, [own, *remote], len(binned), hidden=hidden)
    for each in remote:
        each.close()
    return found


def _answer(channel: Channel, binned: BinArray, part: Part, settings: Settings) -> None:
    """Say which of the new rows go left at splits of the training, at a passive."""
    bins = part.columns.bins
    table = passive.Table(binned, bins.bins, bins.ordered, part.columns.signs)
    passive.answer_splits(channel, table, hidden=settings.hidden, session=part.session, known=part.won)


def _spend(settings: Settings, place: Place, people: bytes, rows: int) -> None:
    """Log that a passive is about to answer so many rows, within its budget; BudgetError if that is spent."""
    if place.part is not None:
        own = place.local.predict.budget if place.local.predict is not None else None
        budget = own if own is not None else settings.predict.budget
        Answers(place.part).spend(rows, budget, ids=people, now=time.time())


def check_tables(settings: Settings, party: str | None, local: Local, folder: Path) -> dict[str, Checked]:
    """Everything that is wrong with one party's table, or with all that are here."""
    for name in settings.data if party is None else settings.parties.keys() & {party}:
        _check_signs(settings, name, Place(None, Nowhere(), local if party is not None else Local(), folder))
    return own_table.check_tables(settings, party, local, folder, settings.label_kind, Data)


def tables_here(settings: Settings) -> dict[str, Table]:
    """The tables that are on this machine, for `plan`."""
    for name in settings.data:
        _check_signs(settings, name, Place(None, Nowhere()))
    found = {name: own_table.here(settings, name, settings.label_kind, Data) for name in settings.parties}
    return {name: table for name, table in found.items() if table is not None}


def binned_tables(settings: Settings) -> tuple[dict[str, tuple[Columns, BinArray]], Labelled]:
    """Every party's columns and bins of the rows that all have, and what the active knows of them: for the audit, which
    plays all parties."""
    place = Place(None, Nowhere())
    made = {name: own_table.opened(settings, name, place, settings.label_kind, Data) for name in settings.parties}
    rows = own_table.common(settings, made)
    found = {}
    for name, table in made.items():
        columns = fitted(settings, name, table, rows[name], place)
        found[name] = (columns, columns.apply(table.cells)[rows[name]])
    return found, judged.labelled(settings, made[settings.active], rows[settings.active])[0]


LOCKSTEP = Lockstep(
    party,
    predictor,
    complete,
    over,
    free,
    told=(),  # what a check found wrong may say more than the other party should learn
    private_keys=frozenset({"data", "predict.budget"}),
    least_release="0.3",  # before, `Begun` had no meeting
)
