"""Carrying out a split training: every party here, or one of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.align.intersection import align, order_digest
from tacit.channel import Channel
from tacit.config.source import ConfigError
from tacit.dp.accounting import Ledger
from tacit.errors import TOLD
from tacit.events import Noted, Nowhere
from tacit.kinds.split import party_tables
from tacit.kinds.split.settings import Settings
from tacit.lockstep.alignment import common_rows
from tacit.lockstep.context import Context, Ledgers
from tacit.lockstep.resumption import Held, agreed_session
from tacit.lockstep.run import Lockstep, Part, Place, Predictor, needed
from tacit.report.forecast import Forecast
from tacit.store.party_folder import Store
from tacit.store.scores import Scores

if TYPE_CHECKING:
    from tacit.kinds.split.learner import State
    from tacit.kinds.split.task import Kept, Rows, Seat, Unfitted
    from tacit.kinds.split.task import Part as Parts

_ALL, _KEPT, _ROWS = "all", "kept.", "rows."  # in a stored state: the order of a table's rows; prefixes of arrays
_MOST_COLUMNS = 64  # of scores that are written one by one
_NO_TORCH = "a split network needs torch: pip install 'tacit-learning[torch]'"
_AGAINST = {
    "records": "for each record of this party, against the party that its activations or gradients go to",
    "evaluation records": "for each evaluation record of this party, against the party that its activations go to",
    "labels": "for each label, against any party that sees results computed from it",
}


def free(stored: Settings) -> frozenset[str]:
    """What a resumed run may change. The noise of gradients is sized for the number of steps."""
    sized = stored.gradients.protection == "noised"
    return frozenset({"lines", "train.save"}) | (frozenset() if sized else {"train.epochs", "train.steps"})


def complete(settings: Settings, state: Mapping[str, Any]) -> bool:
    """Whether a party with this state has trained to the end."""
    asked = (settings.train.epochs, settings.train.steps)
    return bool(state["round"] >= state["total"] and asked == (state["epochs"], state["steps"]))


def over(settings: Settings, state: Mapping[str, Any]) -> str:
    """Why there is nothing left to do, for this party or another."""
    more = f"give more (--set train.epochs={2 * settings.train.epochs})"
    longer = more if "train.epochs" in free(settings) else "start a new run"
    return f"all {state['round']} steps are done: to train longer, {longer}"


def forecast(settings: Settings) -> Forecast:
    """What the file will cost. The parts are made, for their sizes; nothing is trained."""
    place = Place(None, Nowhere())
    tables = settings.task == party_tables.TASK
    here = [name for name in settings.parties if not (tables and party_tables.absent(settings, name))]
    parts = {name: party_part(settings, name, place) for name in here}  # first: it says that torch is missing

    from tacit.kinds.split.forecast import Sizes
    from tacit.kinds.split.forecast import forecast as forecast_of
    from tacit.kinds.split.task import Unfitted
    from tacit.kinds.split.tasks.load import declared_cuts, fitted_part

    made: dict[str, Parts] = {}
    for name, part in parts.items():
        if isinstance(part, Unfitted):
            part = fitted_part(settings, task_seat(settings, name, place), part, np.arange(len(part.ids)))
        made[name] = part
    return forecast_of(settings, Sizes.of(settings, made, declared_cuts(settings), approximate=tables))


def party(settings: Settings, name: str, place: Place) -> Callable[[Mapping[str, Channel]], Part]:
    """One party: aligns if that is asked for, trains, and keeps its own part."""
    part = party_part(settings, name, place)  # first: it says that torch is missing

    from tacit.kinds.split.common_terms import schedule_of
    from tacit.kinds.split.follower import follower
    from tacit.kinds.split.forecast import Sizes
    from tacit.kinds.split.forecast import forecast as forecast_of
    from tacit.kinds.split.leader import leader

    stored = _stored(place.store)

    def take_part(channels: Mapping[str, Channel]) -> Part:
        for note in getattr(part, "notes", ()):
            place.sink.emit(Noted(f"{name}: {note}"))
        known = stored
        if settings.align:
            held = Held(stored.session, any(state.step for state in stored.states))
            session = agreed_session(channels, name, settings.leader, held)
            known = stored if session == held.session else _Stored(session=session)
        own, known = _aligned(settings, name, part, known, channels, place)
        if name == settings.leader:
            for sentence in forecast_of(settings, Sizes.of(settings, {name: own})).parts.get("Messages", ()):
                place.sink.emit(Noted(str(sentence)))  # bytes with and without packing, for the log and the report
        total = schedule_of(settings, len(own.train)).total if hasattr(own, "train") else 0
        save = _saver(settings, place.store, known, total)
        context = Context(
            place.sink,
            time.perf_counter,
            saved=known.states,
            keep=save,
            paid=_payer(place),
            spent=_last_ledgers(place.store),
        )
        if name == settings.leader:
            outcome = leader(channels, settings, own, context)  # type: ignore[arg-type]
        else:
            outcome = follower(channels, settings, name, own, context)  # type: ignore[arg-type]
        save(outcome.state)  # once more, in case it was killed between the last state and the model
        return Part(_model_file(outcome.state, known.kept), stored_ledgers(outcome.state.ledgers))

    return take_part


def predictor(
    settings: Settings, name: str, model: Mapping[str, NDArray[Any]], source: Path | None, place: Place
) -> Predictor:
    """One party of a prediction on new records: at the leader each record with its scores."""
    try:
        from tacit.kinds.split import follower, leader
        from tacit.kinds.split.task import Rows, Top, Trunk
        from tacit.kinds.split.tasks.load import read_rows, stored_part
    except ModuleNotFoundError as error:
        raise ConfigError(_NO_TORCH) from error

    own_settings, seat = with_options(settings, place), task_seat(settings, name, place)
    kept = {key.removeprefix(_KEPT): array for key, array in model.items() if key.startswith(_KEPT)}
    part = stored_part(own_settings, seat, model, kept)
    rows = Rows()
    if not isinstance(part, Trunk):  # which has none of its own
        rows = read_rows(own_settings, seat, needed(name, source), kept)

    def take_part(channels: Mapping[str, Channel]) -> Scores | None:
        own, order = rows, np.arange(len(rows))
        if settings.align and own.ids is not None:
            order = align(channels, name, settings.leader, own.ids).rows
            own = own.take(order)
        if name != settings.leader:
            follower.predict(channels, settings, name, part, own)  # type: ignore[arg-type]
            return None
        scores = leader.predict(channels, settings, part, own)  # type: ignore[arg-type]
        given = np.argsort(order)  # as the rows were given: alignment shuffles them
        return _scores(own.take(given), scores[given], part.class_names if isinstance(part, Top) else ())

    return take_part


def with_options(settings: Settings, place: Place) -> Settings:
    """With the options that are this party's own."""
    options = {**settings.task_options, **place.local.task_options}
    return settings.model_copy(update={"task_options": options})


def task_seat(settings: Settings, name: str, place: Place) -> Seat:
    from tacit.kinds.split.task import Seat

    return Seat.of(
        settings,
        name,
        secret=place.apart and not settings.insecure,
        own_options=frozenset(place.local.task_options),
        folder=place.folder,
    )


def party_part(settings: Settings, name: str, place: Place) -> Parts | Unfitted:
    try:
        from tacit.kinds.split.tasks.load import task_part
    except ModuleNotFoundError as error:
        raise ConfigError(_NO_TORCH) from error
    return task_part(with_options(settings, place), task_seat(settings, name, place))


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    """What a party has stored of a training: the states to resume from, and what holds for all of them."""

    states: tuple[State, ...] = ()
    orders: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)  # of its records, in the common order
    session: bytes = b""
    kept: Kept = field(default_factory=dict)  # of its part
    people: str = ""  # a digest of the ids of a table's rows, in the common order


def _aligned(
    settings: Settings, name: str, part: Parts | Unfitted, known: _Stored, channels: Mapping[str, Channel], place: Place
) -> tuple[Parts, _Stored]:
    """The part with its records in the common order, as it was stored or as it is found now."""
    from tacit.kinds.split.task import Unfitted

    if isinstance(part, Unfitted):
        return _fitted(settings, name, part, known, channels, place)
    if not settings.align:
        return part, replace(known, orders={})
    found: dict[str, NDArray[np.int64]] = {}
    for which in ("train", "test"):
        rows: Rows = getattr(part, which)
        if rows.ids is None:
            raise ConfigError(f"align: the task {settings.task} gives its records no ids: leave out align, or add them")
        if which in known.orders:
            found[which] = known.orders[which]
        elif which == "train" or len(rows):
            found[which] = common_rows(channels, name, settings.leader, rows.ids, place.sink)
        if which in found:
            part = replace(part, **{which: rows.take(found[which])})  # type: ignore[arg-type]
    return part, replace(known, orders=found)


def _fitted(
    settings: Settings, name: str, part: Unfitted, known: _Stored, channels: Mapping[str, Channel], place: Place
) -> tuple[Parts, _Stored]:
    """The part that a task makes of the common rows: fitted on the training's, or as it was stored."""
    from tacit.kinds.split.tasks.load import fitted_part

    rows = known.orders.get(_ALL)
    if rows is None:
        common = settings.align
        rows = (
            common_rows(channels, name, settings.leader, part.ids, place.sink) if common else np.arange(len(part.ids))
        )
    fits = rows.max(initial=-1) < len(part.ids)
    people = order_digest(part.ids, rows).hex() if fits else ""
    if known.people not in ("", people) or not fits:
        raise ConfigError(
            f"the table of {name} has other rows, or another order, than when this run was stopped: give the table as "
            "it was, or start all parties anew"
        )
    seat = task_seat(settings, name, place)
    own = fitted_part(with_options(settings, place), seat, part, rows, known.kept or None)
    return own, replace(known, orders={_ALL: rows}, kept=own.kept, people=people)  # type: ignore[union-attr]


def _saver(settings: Settings, store: Store | None, known: _Stored, total: int) -> Callable[[State], None]:
    def save(state: State) -> None:
        if store is None:
            return
        plain = {
            "round": state.step,
            "total": total,
            "epochs": settings.train.epochs,
            "steps": settings.train.steps,
            "session": known.session.hex(),
            "ledgers": dict(state.ledgers),
        }
        if known.people:
            plain["people"] = known.people
        rows = {f"{_ROWS}{which}": order for which, order in known.orders.items()}
        arrays = {**state.arrays, **rows, **_under(_KEPT, known.kept)}
        store.save(_model_file(state, known.kept), {**arrays, **plain}, stored_ledgers(state.ledgers))

    return save


def _stored(store: Store | None) -> _Stored:
    """What is stored; all but the states is the same in each of them."""
    from tacit.kinds.split.learner import State

    last, states = _Stored(), []
    for found in store.states() if store is not None else []:
        arrays = {key: value for key, value in found.items() if isinstance(value, np.ndarray)}
        orders, kept = _taken(arrays, _ROWS), _taken(arrays, _KEPT)
        last = _Stored((), orders, bytes.fromhex(found["session"]), kept, found.get("people", ""))
        states.append(State(int(found["round"]), arrays, found["ledgers"]))
    return replace(last, states=tuple(states))


def _taken(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Take the arrays under a prefix out of the others."""
    return {key.removeprefix(prefix): arrays.pop(key) for key in list(arrays) if key.startswith(prefix)}


def _under(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}{key}": array for key, array in arrays.items()}


def _model_file(state: State, kept: Kept) -> dict[str, NDArray[Any]]:
    """The weights alone, without the optimizer, and what the part keeps for a prediction."""
    weights = {key: value for key, value in state.arrays.items() if not key.startswith(("optimizer.", "extra."))}
    return {**weights, **_under(_KEPT, kept)}


def _payer(place: Place) -> Callable[[Ledgers], None]:
    """Stores what is paid before anything is sent for it, and tells the site."""

    def pay(ledgers: Ledgers) -> None:
        if place.store is not None:
            found = stored_ledgers(ledgers)
            place.store.save_ledger(found)
            place.paid(found["ledgers"])

    return pay


def _last_ledgers(store: Store | None) -> dict[str, dict[str, Any]]:
    """What was paid before an interruption, that of the steps since the last save included."""
    stored = None if store is None else store.ledger()
    return {} if stored is None else {ledger["covers"][0]: ledger for ledger in stored["ledgers"]}


def stored_ledgers(ledgers: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """What a party's records and labels cost, as in ledger.json."""
    found = []
    for what, data in ledgers.items():
        ledger = Ledger.from_json(data)
        if not ledger.lines:
            continue
        pure = ledger.pure_epsilon()
        epsilon, delta = (pure, 0.0) if math.isfinite(pure) else (ledger.epsilon(1e-5), 1e-5)
        shown = "infinite" if math.isinf(epsilon) else epsilon
        about = {"view": "local", "covers": [what], "against": _AGAINST.get(what, "")}
        found.append({**about, **data, "epsilon": shown, "delta": delta})
    return {"version": 1, "ledgers": found}


def _scores(rows: Rows, scores: NDArray[np.float32], classes: tuple[str, ...] = ()) -> Scores:
    """A line for each record: all its scores, or the best one where there are many."""
    flat = scores[:, -1] if scores.ndim == 3 else scores  # of a sequence: what comes after it
    flat = flat.reshape(len(flat), -1)
    ids = rows.ids or tuple(str(number) for number in range(len(flat)))
    if flat.shape[1] <= _MOST_COLUMNS:
        names = classes if len(classes) == flat.shape[1] else tuple(map(str, range(flat.shape[1])))
        header = ("id", *(("score",) if flat.shape[1] == 1 else (f"score_{name}" for name in names)))
        return Scores(header, [(identity, *map(float, line)) for identity, line in zip(ids, flat, strict=True)])
    best = flat.argmax(axis=1)
    lines = [(identity, int(k), float(line[k])) for identity, k, line in zip(ids, best, flat, strict=True)]
    return Scores(("id", "best", "score"), lines)


# An earlier state is taken as it is: a party resumes with the ledger that it stored last, not with that of its state.
LOCKSTEP = Lockstep(party, predictor, complete, over, free, told=TOLD)
