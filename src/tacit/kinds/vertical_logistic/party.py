"""Carrying out a vertical regression: every party here, or one of them.

What is the same for both protocols is here: a party opens its table, agrees on the session, aligns, fits its transforms
and leaves its results. `masked_party` and `shared_party` train and predict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.align.intersection import order_digest
from tacit.channel import Channel
from tacit.config.source import ConfigError
from tacit.crypto.paillier import Workers
from tacit.events import Noted, Nowhere
from tacit.fixedpoint import Floats, Ints
from tacit.kinds.vertical_logistic import coefficients, kept_rows, masked_party, own_table, release, shared_party
from tacit.kinds.vertical_logistic.brought import Brought, Judgement, Stored, model_file, paillier_key
from tacit.kinds.vertical_logistic.forecast import forecast as forecast_of
from tacit.kinds.vertical_logistic.kept_rows import KeptRows
from tacit.kinds.vertical_logistic.own_table import Counted, transforms_of
from tacit.kinds.vertical_logistic.protocol import batches
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.protocol.journal import InMemory, Records
from tacit.kinds.vertical_logistic.protocol.label_count_terms import gave_counts
from tacit.kinds.vertical_logistic.protocol.label_counts import Counting
from tacit.kinds.vertical_logistic.protocol.model import Model
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.own_table import aligned, common, fits, here, labels_of, new_rows, other_table, people
from tacit.lockstep.resumption import Held, agreed_session
from tacit.lockstep.run import Lockstep, Part, Place, Predictor
from tacit.report.forecast import Forecast
from tacit.store.journal_files import RecordFiles
from tacit.store.party_folder import Store
from tacit.store.scores import Scores
from tacit.tables.cells import canonical_texts, take
from tacit.tables.evidence import Grouped
from tacit.tables.fitted import Fitted
from tacit.tables.labels import Labels
from tacit.tables.table import Table

NO_LEDGER: dict[str, Any] = {"version": 1, "ledgers": []}  # nothing here has an epsilon


def free(stored: Settings) -> frozenset[str]:
    """What a resumed run may change: not its length where the learning rate falls to 0 at its end, nor on shares, where
    all parties agree on every step before the first."""
    length = set() if stored.train.schedule == "cosine" or stored.shared else {"train.epochs"}
    return frozenset({"paillier.workers", *length})


def complete(settings: Settings, state: Mapping[str, Any]) -> bool:
    """Whether a party with this state has trained to the end."""
    return bool(state["round"] >= settings.train.epochs or state["ended"])


def over(settings: Settings, state: Mapping[str, Any]) -> str:
    """Why there is nothing left to do, for this party or another."""
    done = state["round"]
    if done < settings.train.epochs:
        return f"the training ended early, after {done} epochs: to train longer, start a new run"
    if settings.train.schedule == "cosine":
        return f"all {done} epochs are done, and the learning rate fell to 0: to train longer, start a new run"
    if settings.shared:
        return f"all {done} epochs are done, and the weights were opened: to train longer, start a new run"
    return f"all {done} epochs are done: to train longer, give more (--set train.epochs={2 * done})"


def caught_up(settings: Settings, state: dict[str, Any], ledger: dict[str, Any]) -> dict[str, Any]:
    """An earlier state with the steps since in which each row was: each shows a passive gradients once more."""
    return state if settings.shared else {**state, "begun": max(state["begun"], ledger["begun"])}


def forecast(settings: Settings) -> Forecast:
    """What the file will cost. Tables that are here are read, for their sizes; nothing is sent."""
    tables = {name: here(settings, name, settings.label_kind) for name in settings.owners}
    known = {name: table for name, table in tables.items() if table is not None}
    rows = {name: np.arange(len(table.ids)) for name, table in known.items()}
    if len(known) == len(tables):
        rows = common(settings, known)
    if any(not len(each) for each in rows.values()):
        raise ConfigError("the tables have no id in common: tacit data check says what would make them alike")
    transforms = {name: table.fit(rows[name]) for name, table in known.items()}
    features = {name: len(each.features) for name, each in transforms.items()}
    waiting = {name: each.waiting.values() for name, each in transforms.items() if each.waiting}
    groups = {name: (len(each), sum(column.count for column in each)) for name, each in waiting.items()}
    categories = {
        name: sum(feature.use in ("one_hot", "bin") for feature in each.features) for name, each in transforms.items()
    }
    count = min((len(each) for each in rows.values()), default=None)
    return forecast_of(settings, count, features, _outputs(known.get(settings.active)), groups, categories)


def _outputs(active: Table | None) -> int:
    classes = len(active.labels.classes) if active is not None and isinstance(active.labels, Labels) else 2
    return classes if classes > 2 else 1


def party(settings: Settings, name: str, place: Place) -> Callable[[Mapping[str, Channel]], Part]:
    """One party: aligns, fits its transforms, trains, and keeps its own part; or the dealer, which has none."""
    if name == settings.dealer:
        return shared_party.dealer(settings, name, place)
    table = own_table.opened(settings, name, place)
    stored = _stored(place.store, name, table)

    def take_part(channels: Mapping[str, Channel]) -> Part:
        for note in table.notes:
            place.sink.emit(Noted(f"{name}: {note}"))
        records: Records = RecordFiles(place.store.path) if place.store is not None else InMemory()
        session, kept, rows = _agreed(settings, name, table, stored, channels, records, place)
        with Workers(settings.paillier.workers) as workers:
            counted = _counted(settings, channels, session, records, workers, place)
            if kept is None:
                transforms = own_table.fitted(settings, name, table, rows, counted, place)
                for note in transforms.notes:
                    place.sink.emit(Noted(f"{name}: {note}"))
            else:
                transforms = kept.transforms
                own_table.count_again(settings, name, table, rows, counted, place)
            brought = Brought(
                settings,
                name,
                transforms.apply(table.cells)[rows],
                tuple(feature.name for feature in transforms.features),
                labels_of(table, rows) if name == settings.active else None,
                table.labels.classes if isinstance(table.labels, Labels) else (),
                session,
                order_digest(table.ids, rows) if settings.align else b"",
                records,
                workers,
                place.sink,
                None if kept is None else kept.state,
                _storer(settings, place.store, session, rows, people(table, rows), transforms),
            )
            train = shared_party.train if settings.shared else masked_party.train
            model, judged = train(channels, brought)
        _tell(settings, name, model, transforms, judged, place)
        return Part(model_file(settings, model, transforms, judged), NO_LEDGER)

    return take_part


def _agreed(
    settings: Settings,
    name: str,
    table: Table,
    stored: Stored | None,
    channels: Mapping[str, Channel],
    records: Records,
    place: Place,
) -> tuple[bytes, Stored | None, Rows]:
    """The training that all are part of, what this party stored of it, and its rows.

    A training that was interrupted before its first state is resumed with the rows that it had.
    """
    found = _kept_rows(name, table, records)
    held = found.session if stored is None and found is not None else stored.session if stored is not None else b""
    session = agreed_session(channels, name, settings.active, Held(held, _begun(stored, held, records)))
    if session == held and stored is not None:
        return session, stored, stored.rows
    if session == held and found is not None:
        return session, None, found.rows
    rows = aligned(settings, name, table.ids, channels, place.sink, workers=settings.paillier.workers)
    kept_rows.keep(records, KeptRows(session, people(table, rows), rows))
    return session, None, rows


def _kept_rows(name: str, table: Table, records: Records) -> KeptRows | None:
    """The rows of a training that was interrupted before its first state."""
    found = kept_rows.kept(records)
    if found is None or fits(table, found.rows, found.people):
        return found
    if gave_counts(records, found.session):  # those of another table would be other counts of labels
        raise other_table(name)
    return None


def _begun(stored: Stored | None, session: bytes, records: Records) -> bool:
    """Whether this party gave answers in a training that no other one may replace: in steps, or counts of labels."""
    if stored is not None and stored.state["round"] > 0:
        return True
    steps = any(name.startswith(("step-", "opened-")) for name in records.read())
    return (stored is not None and steps) or (session != b"" and gave_counts(records, session))


def _counted(
    settings: Settings,
    channels: Mapping[str, Channel],
    session: bytes,
    records: Records,
    workers: Workers,
    place: Place,
) -> Counted:
    """What counts of labels take."""
    proof = settings.checks.decryption
    counting = Counting(settings.paillier.bits, workers, session, records, place.sink, proof=proof)
    return Counted(channels, counting, lambda: paillier_key(settings, records))


def _tell(
    settings: Settings, name: str, model: Model, transforms: Fitted, judged: Judgement | None, place: Place
) -> None:
    """Leave this party's weights as a file, and tell of them and, at the active, of how good the model is."""
    own = coefficients.coefficients(
        transforms.features,
        model,
        model.classes,
        active=name == settings.active,
        linear=settings.model == "linear",
        information=transforms.information,
    )
    if place.store is not None:
        own.write(place.store.path / coefficients.FILE)
    for event in [*([] if judged is None else judged.events(model)), *own.told(name)]:
        place.sink.emit(event)


def predictor(
    settings: Settings, name: str, model: Mapping[str, NDArray[Any]], source: Path | None, place: Place
) -> Predictor:
    """One party of a prediction on new rows: at the active each common id with what the file lets be told."""
    if name == settings.dealer:
        return shared_party.predicting_dealer(settings, model)
    part, transforms = Model.restore(model), transforms_of(model)
    release.refuse_unfit(settings, part.outputs)
    release.refuse_masked(settings, name, model)
    new = new_rows(settings, name, transforms, source, place)
    features = transforms.apply(new.cells)

    def take_part(channels: Mapping[str, Channel]) -> Scores | None:
        own = aligned(settings, name, new.ids, channels, place.sink, workers=settings.paillier.workers)
        if name != settings.active:
            release.spend(settings, place, order_digest(new.ids, own), len(own))
        predict = shared_party.predict if settings.shared else masked_party.predict
        order = order_digest(new.ids, own) if settings.align else b""
        found = predict(channels, features[own], part, settings, name, order, model.get(release.DECILES))
        if found is None:
            return None
        given = np.argsort(own)  # as the rows were given: alignment shuffles them
        return release.table([new.ids[int(row)] for row in own[given]], found.rows(given), part.classes, settings)

    return take_part


def tables(settings: Settings) -> tuple[dict[str, Floats], NDArray[Any]]:
    """Every party's features of the rows that all have, and the labels: for the audit, which plays all parties."""
    made = {name: own_table.opened(settings, name, Place(None, Nowhere())) for name in settings.owners}
    rows = common(settings, made)
    transforms = own_table.counted_here(settings, made, rows)
    features = {name: transforms[name].apply(table.cells)[rows[name]] for name, table in made.items()}
    return features, labels_of(made[settings.active], rows[settings.active])


def counted_columns(settings: Settings, passive: str) -> tuple[dict[str, Grouped], dict[str, Ints], Ints]:
    """For the audit: the groups of a passive's columns of weight of evidence over the training rows, the same columns
    with a group for each value, and the labels of these rows."""
    made = {name: own_table.opened(settings, name, Place(None, Nowhere())) for name in settings.owners}
    rows = common(settings, made)
    training, _ = batches.hold_out(len(rows[settings.active]), settings.train.test, settings.seed)
    table, own = made[passive], rows[passive][training]
    groups = dict(table.fit(own).waiting)
    texts = {name: canonical_texts(take(table.cells[name], own)) for name in groups}
    fine = {name: np.unique(each, return_inverse=True)[1].astype(np.int64) for name, each in texts.items()}
    return groups, fine, labels_of(made[settings.active], rows[settings.active])[training]


def _storer(
    settings: Settings, store: Store | None, session: bytes, rows: Rows, people: str, transforms: Fitted
) -> Callable[[Mapping[str, Any], Model | None, Judgement | None], None]:
    """What keeps a party's training: the state of its protocol, and its part so far if it knows it."""

    def save(state: Mapping[str, Any], model: Model | None, judged: Judgement | None) -> None:
        if store is not None:
            whole = {"session": session.hex(), "rows": rows, "people": people, **state}
            ledger = {**NO_LEDGER, "begun": state.get("begun", 0)}
            store.save(model_file(settings, model, transforms, judged), whole, ledger)

    return save


def _stored(store: Store | None, name: str, table: Table) -> Stored | None:
    """What a party stored, if its table is still the one that the stored rows are numbers of."""
    found = store.stored() if store is not None else None
    if found is None:
        return None
    state, model = found
    rows = np.asarray(state["rows"], dtype=np.int64)
    if not fits(table, rows, state["people"]):
        raise other_table(name)
    return Stored(state, bytes.fromhex(state["session"]), rows, transforms_of(model))


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
