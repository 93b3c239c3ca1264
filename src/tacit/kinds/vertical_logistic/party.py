"""Carrying out a vertical logistic regression: every party here, or one of them."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.align.intersection import order_digest
from tacit.channel import Channel
from tacit.config.source import ConfigError
from tacit.crypto.paillier import PrivateKey, Workers, generate
from tacit.events import Noted, Nowhere, Sink
from tacit.kinds.vertical_logistic.forecast import forecast as forecast_of
from tacit.kinds.vertical_logistic.protocol import logistic_masked
from tacit.kinds.vertical_logistic.protocol import predict as prediction
from tacit.kinds.vertical_logistic.protocol.journal import InMemory, Records
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.model import Model, Saved
from tacit.kinds.vertical_logistic.settings import Data, Settings
from tacit.kinds.vertical_logistic.tasks import load as tasks
from tacit.lockstep.alignment import common_rows
from tacit.lockstep.resumption import Held, agreed_session
from tacit.lockstep.run import Lockstep, Part, Place, Predictor, needed
from tacit.report.forecast import Forecast
from tacit.store.journal_files import RecordFiles
from tacit.store.party_folder import Store
from tacit.store.scores import Scores
from tacit.tables.plain import read_numbers

_COLUMNS = "columns"  # the features' names, as JSON in bytes: new rows are read by them, in whatever order they come
_NO_LEDGER: dict[str, Any] = {"version": 1, "ledgers": []}  # nothing here has an epsilon
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    ids: list[str]
    features: NDArray[np.float64]
    names: tuple[str, ...]
    labels: NDArray[np.int64] | None
    notes: tuple[str, ...] = ()


def free(stored: Settings) -> frozenset[str]:
    """What a resumed run may change."""
    return frozenset({"train.epochs", "paillier.workers"})


def complete(settings: Settings, state: Mapping[str, Any]) -> bool:
    """Whether a party with this state has trained to the end."""
    return bool(state["round"] >= settings.train.epochs or state["now.stopped"])


def over(settings: Settings, state: Mapping[str, Any]) -> str:
    """Why there is nothing left to do, for this party or another."""
    done = state["round"]
    if state["now.stopped"]:
        return f"the training ended early, after {done} epochs: to train longer, start a new run"
    return f"all {done} epochs are done: to train longer, give more (--set train.epochs={2 * done})"


def caught_up(settings: Settings, state: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
    """An earlier state with the steps since in which each row was: each shows a passive gradients once more."""
    return {**state, "begun": max(state["begun"], ledger["begun"])}


def forecast(settings: Settings) -> Forecast:
    """What the file will cost. Tables that are here are read, for their sizes; nothing is sent."""
    features, rows = {}, None
    for name in settings.parties:
        if settings.task is None and not (name in settings.data and Path(settings.data[name].path).exists()):
            continue
        table = _table(settings, name, Place(None, Nowhere()))
        features[name] = table.features.shape[1]
        rows = len(table.ids) if rows is None else min(rows, len(table.ids))
    return forecast_of(settings, rows, features)


def party(settings: Settings, name: str, place: Place) -> Callable[[Mapping[str, Channel]], Part]:
    """One party: aligns, trains, and keeps its own weights and scaler."""
    table = _table(settings, name, place)
    stored, rows = _stored(place.store, name, table)

    def take_part(channels: Mapping[str, Channel]) -> Part:
        for note in table.notes:
            place.sink.emit(Noted(f"{name}: {note}"))
        records: Records = RecordFiles(place.store.path) if place.store is not None else InMemory()
        begun = stored is not None and (stored.now.epoch > 0 or bool(records.read()))
        held = Held(stored.session if stored is not None else b"", begun)
        session = agreed_session(channels, name, settings.active, held)
        saved, own = (stored, rows) if session == held.session else (None, None)
        if own is None:
            own = _aligned(settings, name, table.ids, channels, place.sink)
        features = table.features[own]
        with Workers(settings.paillier.workers) as workers:
            context = PaillierContext(
                place.sink,
                time.perf_counter,
                saved=() if saved is None else (saved,),
                keep=_storer(settings, place.store, own, table),
                records=records,
                session=session,
                workers=workers,
                key=_key(settings, records) if name == settings.active else None,
                order=_order(settings, table, own),
            )
            if name == settings.active:
                model = logistic_masked.active(channels, features, _labels(table)[own], settings, context)
            else:
                model = logistic_masked.passive(channels, features, settings, name, context)
        return Part(_model_file(model, table), _NO_LEDGER)

    return take_part


def predictor(
    settings: Settings, name: str, model: Mapping[str, NDArray[Any]], source: Path | None, place: Place
) -> Predictor:
    """One party of a prediction on new rows: at the active each common id with its probability."""
    part = Model.restore(model)
    names = tuple(json.loads(np.asarray(model[_COLUMNS], dtype=np.uint8).tobytes()))
    own_data = place.local.data
    given = Data.model_validate(own_data) if own_data is not None else settings.data.get(name, Data(path=""))
    data = given.model_copy(update={"path": str(needed(name, source).absolute()), "columns": names})
    table = _read(settings, name, data, Path(), labels=False)

    def take_part(channels: Mapping[str, Channel]) -> Scores | None:
        own = _aligned(settings, name, table.ids, channels, place.sink)
        features = table.features[own]
        if name != settings.active:
            prediction.passive(channels, features, part, settings, name, order=_order(settings, table, own))
            return None
        scores = prediction.active(channels, features, part, settings)
        rows = [(table.ids[int(row)], float(score)) for row, score in zip(own, scores, strict=True)]
        return Scores(("id", "probability"), rows)

    return take_part


def tables(settings: Settings) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
    """Every party's features of the rows that all have, and the labels: for the audit, which plays all parties."""
    made = {name: _table(settings, name, Place(None, Nowhere())) for name in settings.parties}
    if not settings.align:
        return {name: table.features for name, table in made.items()}, _labels(made[settings.active])
    places = {name: {identity: row for row, identity in enumerate(table.ids)} for name, table in made.items()}
    common = [each for each in made[settings.active].ids if all(each in places[name] for name in made)]
    rows = {name: np.array([places[name][each] for each in common], dtype=np.int64) for name in made}
    features = {name: table.features[rows[name]] for name, table in made.items()}
    return features, _labels(made[settings.active])[rows[settings.active]]


def _table(settings: Settings, name: str, place: Place) -> _Table:
    """A party's table: from its local file, from the shared file, or the task's."""
    if place.local.data is not None:
        return _read(settings, name, Data.model_validate(place.local.data), place.folder)
    if settings.task is not None:
        made = tasks.make_columns(settings, name)
        return _Table(list(made.ids), made.features, made.columns, made.labels)
    if name not in settings.data:
        raise ConfigError(f"there are no data of {name}: add data: {{{name}: {{path: FILE}}}}, or a --local file")
    return _read(settings, name, settings.data[name], Path())


def _read(settings: Settings, name: str, data: Data, folder: Path, *, labels: bool = True) -> _Table:
    wanted = name == settings.active and labels
    if not (folder / data.path).is_file():
        raise ConfigError(f"{folder / data.path}: there is no such file, with the rows of {name}")
    table = read_numbers(
        folder / data.path,
        id=data.id,
        label=(data.label or True) if wanted else None,
        columns=data.columns,
        missing=data.missing == "mean",
    )
    absent = np.isnan(table.features)
    features = np.where(absent, np.nanmean(table.features, axis=0), table.features)
    lacking = [(table.names[place], absent[:, place].sum()) for place in np.flatnonzero(absent.any(axis=0))]
    notes = [f"The column {column!r} lacked {count} values: its mean was put in." for column, count in lacking]
    if table.labels is not None and len(table.labels.classes) != 2:
        raise ValueError(f"{folder / data.path}: {len(table.labels.classes)} different labels: there must be two")
    codes = None if table.labels is None else table.labels.codes
    return _Table(table.ids, features, table.names, codes, tuple(notes))


def _labels(table: _Table) -> NDArray[np.int64]:
    if table.labels is None:
        raise ConfigError("the active has no labels: name their column as label")
    return table.labels


def _aligned(settings: Settings, name: str, ids: list[str], channels: Mapping[str, Channel], sink: Sink) -> Rows:
    if not settings.align:
        return np.arange(len(ids))
    return common_rows(channels, name, settings.active, ids, sink, workers=settings.paillier.workers)


def _order(settings: Settings, table: _Table, rows: Rows) -> bytes:
    """What the masks of passives are bound to; nothing where the parties say that their rows fit as they are."""
    return order_digest(table.ids, rows) if settings.align else b""


def _people(table: _Table, rows: Rows) -> str:
    """A digest of the columns' names and the rows' ids, by which a resumed run knows its table again."""
    return hashlib.sha256(json.dumps(table.names).encode() + order_digest(table.ids, rows)).hexdigest()


def _key(settings: Settings, records: Records) -> PrivateKey:
    """The active's key: the one that old answers of this run were made with, if there is one."""
    weak = settings.paillier.bits < 2048
    if not isinstance(records, RecordFiles):
        return generate(settings.paillier.bits, insecure_bits=weak)
    if (kept := records.key()) is not None:
        return PrivateKey.from_bytes(kept, insecure_bits=weak)
    key = generate(settings.paillier.bits, insecure_bits=weak)
    records.write_key(key.to_bytes())
    return key


def _model_file(model: Model, table: _Table) -> dict[str, NDArray[Any]]:
    return {**model.state(), _COLUMNS: np.frombuffer(json.dumps(table.names).encode(), dtype=np.uint8)}


def _storer(settings: Settings, store: Store | None, rows: Rows, table: _Table) -> Callable[[Saved], None]:
    people = _people(table, rows)

    def save(saved: Saved) -> None:
        if store is not None:
            now = saved.now
            model = Model(now.best_weights, saved.scaler, saved.session, now.best_intercept)
            state = {"round": now.epoch, "rows": rows, "people": people}
            ledger = {**_NO_LEDGER, "begun": saved.begun}
            store.save(_model_file(model, table), {**state, **_flat(saved.state())}, ledger)

    return save


def _stored(store: Store | None, name: str, table: _Table) -> tuple[Saved | None, Rows | None]:
    """What a party stored, if its table is still the one that the stored rows are numbers of."""
    found = store.stored() if store is not None else None
    if found is None:
        return None, None
    state, _ = found
    rows = np.asarray(state["rows"], dtype=np.int64)
    if rows.max(initial=0) >= len(table.ids) or state["people"] != _people(table, rows):
        raise ConfigError(
            f"the table of {name} has other rows or columns, or another order, than when this run was stopped: give "
            "the table as it was, or start all parties anew"
        )
    return Saved.restore(_nested(state)), rows


def _flat(state: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Arrays and plain values under names such as `now.weights`; JSON has no infinite numbers, so they are text."""
    found: dict[str, Any] = {}
    for key, value in state.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{above}{key}.")
        else:
            infinite = isinstance(value, float) and not math.isfinite(value)
            found[above + key] = str(value) if infinite else value
    return found


def _nested(state: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in state.items():
        outer, _, inner = key.partition(".")
        if inner:
            found.setdefault(outer, {})[inner] = value
        else:
            found[key] = value
    return found


LOCKSTEP = Lockstep(
    party,
    predictor,
    complete,
    over,
    free,
    caught_up,
    told=(),  # what a check found wrong may say more than the other party should learn
    private_keys=frozenset({"data", "checks", "paillier.workers"}),
)
