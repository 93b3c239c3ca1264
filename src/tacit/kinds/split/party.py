"""Carrying out a split training: every party here, or one of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.align.intersection import align
from tacit.channel import Channel
from tacit.config.source import ConfigError
from tacit.dp.accounting import Ledger
from tacit.errors import TOLD
from tacit.events import Noted, Nowhere, Sink
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
    from tacit.kinds.split.task import Part as Parts
    from tacit.kinds.split.task import Rows

_MOST_COLUMNS = 64  # of scores that are written one by one
_AGAINST = {
    "records": "for each record of this party, against the party that its activations or gradients go to",
    "evaluation records": "for each evaluation record of this party, against the party that its activations go to",
    "labels": "for each label, against whoever sees what is computed from it",
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
    parts = {name: _part(settings, name, place) for name in settings.parties}  # first: it says that torch is missing

    from tacit.kinds.split.forecast import Sizes
    from tacit.kinds.split.forecast import forecast as forecast_of

    return forecast_of(settings, Sizes.of(settings, parts))


def party(settings: Settings, name: str, place: Place) -> Callable[[Mapping[str, Channel]], Part]:
    """One party: aligns if that is asked for, trains, and keeps its own part."""
    part = _part(settings, name, place)  # first: it says that torch is missing

    from tacit.kinds.split.common_terms import schedule_of
    from tacit.kinds.split.follower import follower
    from tacit.kinds.split.forecast import Sizes
    from tacit.kinds.split.forecast import forecast as forecast_of
    from tacit.kinds.split.leader import leader

    stored = _stored(place.store)

    def take_part(channels: Mapping[str, Channel]) -> Part:
        states, orders, session = stored
        if settings.align:
            held = Held(session, any(state.step for state in states))
            session = agreed_session(channels, name, settings.leader, held)
            states, orders = (states, orders) if session == held.session else ((), {})
        if name == settings.leader:
            for sentence in forecast_of(settings, Sizes.of(settings, {name: part})).parts.get("Messages", ()):
                place.sink.emit(Noted(str(sentence)))  # bytes with and without packing, for the log and the report
        own, kept = _aligned(settings, name, part, orders, channels, place.sink)
        total = schedule_of(settings, len(own.train)).total if hasattr(own, "train") else 0
        save = _saver(settings, place.store, kept, total, session)
        context = Context(
            place.sink,
            time.perf_counter,
            saved=states,
            keep=save,
            paid=_payer(place.store),
            spent=_last_ledgers(place.store),
        )
        if name == settings.leader:
            outcome = leader(channels, settings, own, context)  # type: ignore[arg-type]
        else:
            outcome = follower(channels, settings, name, own, context)  # type: ignore[arg-type]
        save(outcome.state)  # once more, in case it was killed between the last state and the model
        return Part(_networks(outcome.state.arrays), _ledgers(outcome.state.ledgers))

    return take_part


def predictor(
    settings: Settings, name: str, model: Mapping[str, NDArray[Any]], source: Path | None, place: Place
) -> Predictor:
    """One party of a prediction on new records: at the leader each record with its scores."""
    from tacit.kinds.split import follower, leader
    from tacit.kinds.split.task import Rows, Trunk
    from tacit.kinds.split.tasks.load import load_part, read_rows

    part = load_part(_part(settings, name, place), model)
    rows = Rows()
    if not isinstance(part, Trunk):  # which has none of its own
        rows = read_rows(_with_options(settings, place), name, needed(name, source))

    def take_part(channels: Mapping[str, Channel]) -> Scores | None:
        own = rows
        if settings.align and own.ids is not None:
            own = own.take(align(channels, name, settings.leader, own.ids).rows)
        if name != settings.leader:
            follower.predict(channels, settings, name, part, own)  # type: ignore[arg-type]
            return None
        return _scores(own, leader.predict(channels, settings, part, own))  # type: ignore[arg-type]

    return take_part


def _with_options(settings: Settings, place: Place) -> Settings:
    """With the options that are this party's own."""
    options = {**settings.task_options, **place.local.task_options}
    return settings.model_copy(update={"task_options": options})


def _part(settings: Settings, name: str, place: Place) -> Parts:
    try:
        from tacit.kinds.split.tasks.load import make_part
    except ModuleNotFoundError as error:
        raise ConfigError("a split network needs torch: pip install 'tacit[torch]'") from error
    return make_part(_with_options(settings, place), name, secret=place.apart and not settings.insecure)


def _aligned(
    settings: Settings,
    name: str,
    part: Parts,
    orders: Mapping[str, NDArray[np.int64]],
    channels: Mapping[str, Channel],
    sink: Sink,
) -> tuple[Parts, dict[str, NDArray[np.int64]]]:
    """The part with its records in the common order, as it was stored or as it is found now."""
    if not settings.align:
        return part, {}
    found: dict[str, NDArray[np.int64]] = {}
    for which in ("train", "test"):
        rows: Rows = getattr(part, which)
        if rows.ids is None:
            raise ConfigError(f"align: the task {settings.task} gives its records no ids: leave out align, or add them")
        if which in orders:
            found[which] = orders[which]
        elif which == "train" or len(rows):
            found[which] = common_rows(channels, name, settings.leader, rows.ids, sink)
        if which in found:
            part = replace(part, **{which: rows.take(found[which])})  # type: ignore[arg-type]
    return part, found


def _saver(
    settings: Settings, store: Store | None, orders: Mapping[str, NDArray[np.int64]], total: int, session: bytes
) -> Callable[[State], None]:
    def save(state: State) -> None:
        if store is None:
            return
        plain = {
            "round": state.step,
            "total": total,
            "epochs": settings.train.epochs,
            "steps": settings.train.steps,
            "session": session.hex(),
            "ledgers": dict(state.ledgers),
        }
        rows = {f"rows.{which}": order for which, order in orders.items()}
        store.save(_networks(state.arrays), {**state.arrays, **rows, **plain}, _ledgers(state.ledgers))

    return save


def _stored(store: Store | None) -> tuple[tuple[State, ...], dict[str, NDArray[np.int64]], bytes]:
    """The states to resume from, and the order of records and the training that they belong to."""
    from tacit.kinds.split.learner import State

    states, orders, session = [], {}, b""
    for found in store.states() if store is not None else []:
        arrays = {key: value for key, value in found.items() if isinstance(value, np.ndarray)}
        orders = {key.removeprefix("rows."): arrays.pop(key) for key in list(arrays) if key.startswith("rows.")}
        session = bytes.fromhex(found["session"])
        states.append(State(int(found["round"]), arrays, found["ledgers"]))
    return tuple(states), orders, session


def _networks(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The weights alone, without the optimizer."""
    return {key: value for key, value in arrays.items() if not key.startswith(("optimizer.", "extra."))}


def _payer(store: Store | None) -> Callable[[Ledgers], None]:
    """Stores what is paid before anything is sent for it."""

    def pay(ledgers: Ledgers) -> None:
        if store is not None:
            store.save_ledger(_ledgers(ledgers))

    return pay


def _last_ledgers(store: Store | None) -> dict[str, dict[str, Any]]:
    """What was paid before an interruption, that of the steps since the last save included."""
    stored = None if store is None else store.ledger()
    return {} if stored is None else {ledger["covers"][0]: ledger for ledger in stored["ledgers"]}


def _ledgers(ledgers: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
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


def _scores(rows: Rows, scores: NDArray[np.float32]) -> Scores:
    """A line for each record: all its scores, or the best one where there are many."""
    flat = scores[:, -1] if scores.ndim == 3 else scores  # of a sequence: what comes after it
    flat = flat.reshape(len(flat), -1)
    ids = rows.ids or tuple(str(number) for number in range(len(flat)))
    if flat.shape[1] <= _MOST_COLUMNS:
        header = ("id", *(("score",) if flat.shape[1] == 1 else (f"score_{k}" for k in range(flat.shape[1]))))
        return Scores(header, [(identity, *map(float, line)) for identity, line in zip(ids, flat, strict=True)])
    best = flat.argmax(axis=1)
    lines = [(identity, int(k), float(line[k])) for identity, k, line in zip(ids, best, flat, strict=True)]
    return Scores(("id", "best", "score"), lines)


# An earlier state is taken as it is: a party resumes with the ledger that it stored last, not with that of its state.
LOCKSTEP = Lockstep(party, predictor, complete, over, free, told=TOLD)
