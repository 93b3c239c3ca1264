"""Carrying out a vertical regression: every party here, or one of them."""

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
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_logistic import coefficients, own_table, release
from tacit.kinds.vertical_logistic.forecast import forecast as forecast_of
from tacit.kinds.vertical_logistic.own_table import TRANSFORMS, Counted, stored_transforms, transforms_of
from tacit.kinds.vertical_logistic.protocol import batches, logistic_masked
from tacit.kinds.vertical_logistic.protocol import predict as prediction
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.protocol.journal import InMemory, Records
from tacit.kinds.vertical_logistic.protocol.label_counts import Counting
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.metrics import Labels as Known
from tacit.kinds.vertical_logistic.protocol.model import Model, Saved
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.alignment import common_here, common_rows
from tacit.lockstep.evaluation import evaluated
from tacit.lockstep.resumption import Held, agreed_session
from tacit.lockstep.run import Lockstep, Part, Place, Predictor
from tacit.report.forecast import Forecast
from tacit.store.answers import Answers
from tacit.store.journal_files import RecordFiles
from tacit.store.party_folder import Store
from tacit.store.scores import Scores
from tacit.tables.cells import canonical_texts, take
from tacit.tables.evidence import Grouped
from tacit.tables.fitted import Fitted
from tacit.tables.labels import Labels
from tacit.tables.table import Table

_DECILES = "deciles"  # in the active's stored part: edges between tenths of scores
_NO_LEDGER: dict[str, Any] = {"version": 1, "ledgers": []}  # nothing here has an epsilon


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    """What a party has stored of a training."""

    saved: Saved
    rows: Rows
    transforms: Fitted


def free(stored: Settings) -> frozenset[str]:
    """What a resumed run may change: not its length where the learning rate falls to 0 at its end."""
    length = set() if stored.train.schedule == "cosine" else {"train.epochs"}
    return frozenset({"paillier.workers", *length})


def complete(settings: Settings, state: Mapping[str, Any]) -> bool:
    """Whether a party with this state has trained to the end."""
    return bool(state["round"] >= settings.train.epochs or state["now.stopped"])


def over(settings: Settings, state: Mapping[str, Any]) -> str:
    """Why there is nothing left to do, for this party or another."""
    done = state["round"]
    if state["now.stopped"]:
        return f"the training ended early, after {done} epochs: to train longer, start a new run"
    if settings.train.schedule == "cosine":
        return f"all {done} epochs are done, and the learning rate fell to 0: to train longer, start a new run"
    return f"all {done} epochs are done: to train longer, give more (--set train.epochs={2 * done})"


def caught_up(settings: Settings, state: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
    """An earlier state with the steps since in which each row was: each shows a passive gradients once more."""
    return {**state, "begun": max(state["begun"], ledger["begun"])}


def forecast(settings: Settings) -> Forecast:
    """What the file will cost. Tables that are here are read, for their sizes; nothing is sent."""
    tables = {name: _here(settings, name) for name in settings.parties}
    known = {name: table for name, table in tables.items() if table is not None}
    rows = min((len(table.ids) for table in known.values()), default=None)
    transforms = {name: table.fit(np.arange(len(table.ids))) for name, table in known.items()}
    features = {name: len(each.features) for name, each in transforms.items()}
    waiting = {name: each.waiting.values() for name, each in transforms.items() if each.waiting}
    groups = {name: (len(each), sum(column.count for column in each)) for name, each in waiting.items()}
    return forecast_of(settings, rows, features, _outputs(known.get(settings.active)), groups)


def _here(settings: Settings, name: str) -> Table | None:
    """A party's table, if it is on this machine."""
    if settings.task is None and name not in settings.data:
        return None
    path = settings.data[name].path if settings.task is None else None
    if path is not None and not Path(path).exists():
        return None
    return own_table.opened(settings, name, Place(None, Nowhere()))


def _outputs(active: Table | None) -> int:
    classes = len(active.labels.classes) if active is not None and isinstance(active.labels, Labels) else 2
    return classes if classes > 2 else 1


def party(settings: Settings, name: str, place: Place) -> Callable[[Mapping[str, Channel]], Part]:
    """One party: aligns, fits its transforms, trains, and keeps its own part."""
    table = own_table.opened(settings, name, place)
    stored = _stored(place.store, name, table)

    def take_part(channels: Mapping[str, Channel]) -> Part:
        for note in table.notes:
            place.sink.emit(Noted(f"{name}: {note}"))
        records: Records = RecordFiles(place.store.path) if place.store is not None else InMemory()
        begun = stored is not None and (stored.saved.now.epoch > 0 or bool(records.read()))
        held = Held(stored.saved.session if stored is not None else b"", begun)
        session = agreed_session(channels, name, settings.active, held)
        kept = stored if session == held.session else None
        rows = kept.rows if kept is not None else _aligned(settings, name, table.ids, channels, place.sink)
        key = _key(settings, records) if name == settings.active else None
        with Workers(settings.paillier.workers) as workers:
            proof = settings.checks.decryption
            counting = Counting(settings.paillier.bits, workers, session, records, place.sink, proof=proof)
            transforms = (
                kept.transforms
                if kept is not None
                else own_table.fitted(settings, name, table, rows, Counted(channels, counting, key), place)
            )
            judged: list[tuple[Floats, Known, bool]] = []
            context = PaillierContext(
                place.sink,
                time.perf_counter,
                saved=() if kept is None else (kept.saved,),
                keep=_storer(settings, place.store, rows, table, transforms),
                records=records,
                session=session,
                workers=workers,
                key=key,
                order=_order(settings, table, rows),
                classes=table.labels.classes if isinstance(table.labels, Labels) else (),
                judged=lambda *given: judged.append(given),
            )
            features = transforms.apply(table.cells)[rows]
            if name == settings.active:
                model = logistic_masked.active(channels, features, _labels(table)[rows], settings, context)
            else:
                model = logistic_masked.passive(channels, features, settings, name, context)
        _tell(settings, name, model, transforms, judged, place)
        return Part(_model_file(model, transforms, judged[0][0] if judged else None), _NO_LEDGER)

    return take_part


def _tell(
    settings: Settings,
    name: str,
    model: Model,
    transforms: Fitted,
    judged: list[tuple[Floats, Known, bool]],
    place: Place,
) -> None:
    """Leave this party's weights as a file, and tell of them and, at the active, of how good the model is."""
    linear = settings.model == "linear"
    own = coefficients.coefficients(
        transforms.features,
        model,
        model.classes,
        active=name == settings.active,
        linear=linear,
        information=transforms.information,
    )
    if place.store is not None:
        own.write(place.store.path / coefficients.FILE)
    for scores, labels, held_out in judged:
        values = scores if model.target is None else model.target.original(scores)
        for event in evaluated(values, labels, model.classes, held_out=held_out, linear=linear):
            place.sink.emit(event)
    for event in own.told(name):
        place.sink.emit(event)


def predictor(
    settings: Settings, name: str, model: Mapping[str, NDArray[Any]], source: Path | None, place: Place
) -> Predictor:
    """One party of a prediction on new rows: at the active each common id with what the file lets be told."""
    part, transforms = Model.restore(model), transforms_of(model)
    release.refuse_unfit(settings, part.outputs)
    new = own_table.new_rows(settings, name, transforms, source, place)
    features = transforms.apply(new.cells)

    def take_part(channels: Mapping[str, Channel]) -> Scores | None:
        own = _aligned(settings, name, new.ids, channels, place.sink)
        if name == settings.active:
            scores = prediction.active(channels, features[own], part, settings)
            values = scores if part.target is None else part.target.original(scores)
            order = np.argsort(own)  # as the rows were given: alignment shuffles them
            ids = [new.ids[int(row)] for row in own[order]]
            return release.released(ids, values[order], part.classes, settings, edges=model.get(_DECILES))
        people = order_digest(new.ids, own)
        if place.part is not None:  # before anything is sent
            Answers(place.part).spend(len(own), release.budget(settings, place.local), ids=people, now=time.time())
        bound = people if settings.align else b""
        prediction.passive(
            channels, features[own], part, settings, name, order=bound, told=lambda own: release.rounded(own, settings)
        )
        return None

    return take_part


def tables(settings: Settings) -> tuple[dict[str, Floats], NDArray[Any]]:
    """Every party's features of the rows that all have, and the labels: for the audit, which plays all parties."""
    made = {name: own_table.opened(settings, name, Place(None, Nowhere())) for name in settings.parties}
    rows = _common(settings, made)
    transforms = own_table.counted_here(settings, made, rows)
    features = {name: transforms[name].apply(table.cells)[rows[name]] for name, table in made.items()}
    return features, _labels(made[settings.active])[rows[settings.active]]


def counted_columns(settings: Settings, passive: str) -> tuple[dict[str, Grouped], dict[str, Ints], Ints]:
    """For the audit: the groups of a passive's columns of weight of evidence over the training rows, the same columns
    with a group for each value, and the labels of these rows."""
    made = {name: own_table.opened(settings, name, Place(None, Nowhere())) for name in settings.parties}
    rows = _common(settings, made)
    training, _ = batches.hold_out(len(rows[settings.active]), settings.train.test, settings.seed)
    table, own = made[passive], rows[passive][training]
    groups = dict(table.fit(own).waiting)
    texts = {name: canonical_texts(take(table.cells[name], own)) for name in groups}
    fine = {name: np.unique(each, return_inverse=True)[1].astype(np.int64) for name, each in texts.items()}
    return groups, fine, _labels(made[settings.active])[rows[settings.active]][training]


def _common(settings: Settings, made: Mapping[str, Table]) -> dict[str, Rows]:
    """Where each party has the rows that all have, in the order of the active."""
    if not settings.align:
        return {name: np.arange(len(table.ids)) for name, table in made.items()}
    return common_here({name: table.ids for name, table in made.items()}, settings.active)


def _labels(table: Table) -> NDArray[Any]:
    """Codes of the classes, or numbers."""
    if table.labels is None:
        raise ConfigError("the active has no labels: name their column as label")
    return table.labels.codes if isinstance(table.labels, Labels) else table.labels


def _aligned(settings: Settings, name: str, ids: list[str], channels: Mapping[str, Channel], sink: Sink) -> Rows:
    if not settings.align:
        return np.arange(len(ids))
    return common_rows(channels, name, settings.active, ids, sink, workers=settings.paillier.workers)


def _order(settings: Settings, table: Table, rows: Rows) -> bytes:
    """What the masks of passives are bound to; nothing where the parties say that their rows fit as they are."""
    return order_digest(table.ids, rows) if settings.align else b""


def _people(table: Table, rows: Rows) -> str:
    """A digest of the columns' names and the rows' ids, by which a resumed run knows its table again."""
    return hashlib.sha256(json.dumps(list(table.cells)).encode() + order_digest(table.ids, rows)).hexdigest()


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


def _model_file(model: Model, transforms: Fitted, scores: Floats | None = None) -> dict[str, NDArray[Any]]:
    """A party's part. `scores`: of the rows that the active judged it by."""
    found = {**model.state(), TRANSFORMS: stored_transforms(transforms)}
    if scores is not None and len(scores) and scores.shape[1] == 1:
        found[_DECILES] = release.deciles(scores if model.target is None else model.target.original(scores))
    return found


def _storer(
    settings: Settings, store: Store | None, rows: Rows, table: Table, transforms: Fitted
) -> Callable[[Saved], None]:
    people = _people(table, rows)

    def save(saved: Saved) -> None:
        if store is not None:
            state = {"round": saved.now.epoch, "rows": rows, "people": people}
            ledger = {**_NO_LEDGER, "begun": saved.begun}
            model = _model_file(saved.best, transforms, saved.now.best_scores)
            store.save(model, {**state, **_flat(saved.state())}, ledger)

    return save


def _stored(store: Store | None, name: str, table: Table) -> _Stored | None:
    """What a party stored, if its table is still the one that the stored rows are numbers of."""
    found = store.stored() if store is not None else None
    if found is None:
        return None
    state, model = found
    rows = np.asarray(state["rows"], dtype=np.int64)
    if rows.max(initial=0) >= len(table.ids) or state["people"] != _people(table, rows):
        raise ConfigError(
            f"the table of {name} has other rows or columns, or another order, than when this run was stopped: give "
            "the table as it was, or start all parties anew"
        )
    return _Stored(Saved.restore(_nested(state)), rows, transforms_of(model))


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
    private_keys=frozenset({"data", "checks", "paillier.workers", "predict.budget"}),
)
