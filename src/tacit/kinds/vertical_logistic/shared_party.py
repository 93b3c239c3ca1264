"""One party of a regression or a prediction on secret shares: with a table, or the dealer.

The active tells all others the number of rows and of outputs, from which each makes the terms that all compare. Then
`shared.training.train` and `shared.dealer.deal` do the rest; between two parties without a dealer,
`two_party.training.train`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.channel import Channel
from tacit.config.source import ConfigError
from tacit.errors import PeerError
from tacit.events import Noted, TrainingStarted
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic import release
from tacit.kinds.vertical_logistic.brought import Brought, Judgement, flat, nested
from tacit.kinds.vertical_logistic.protocol import batches
from tacit.kinds.vertical_logistic.protocol.model import Model, Scaler, Target
from tacit.kinds.vertical_logistic.protocol.objective import Objective
from tacit.kinds.vertical_logistic.release import Told
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared.dealer import deal
from tacit.kinds.vertical_logistic.shared.fourier import LARGEST
from tacit.kinds.vertical_logistic.shared.held_out_figures import Figures
from tacit.kinds.vertical_logistic.shared.masked_table import Given
from tacit.kinds.vertical_logistic.shared.messages import HEAD, Sizes
from tacit.kinds.vertical_logistic.shared.prediction import REACH, Releases, deal_predictions
from tacit.kinds.vertical_logistic.shared.prediction import predict as predict_on_shares
from tacit.kinds.vertical_logistic.shared.progress import Snapshot
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.shared.training import SharedContext, Trained
from tacit.kinds.vertical_logistic.shared.training import train as train_on_shares
from tacit.kinds.vertical_logistic.shared_judged import JudgedOnShares
from tacit.kinds.vertical_logistic.two_party import lookup
from tacit.kinds.vertical_logistic.two_party.prediction import predict as predict_between_two
from tacit.kinds.vertical_logistic.two_party.training import train as train_between_two
from tacit.lockstep.progress import Progress
from tacit.lockstep.resumption import Held, agreed_session
from tacit.lockstep.run import Part, Place, Predictor
from tacit.lockstep.traffic import Metered

_UNIT = 1 << 20  # of thresholds
_BETWEEN = 1.0  # seconds between two lines


def protection(settings: Settings) -> str:
    """In a few words."""
    return f"secret shares {'between two parties' if settings.dealer is None else 'with a dealer'}"


def terms_of(settings: Settings, rows: int, outputs: int) -> Terms:
    """What all parties agree on, of a file and of what the active tells."""
    train = settings.train
    return Terms(
        settings.owners,
        settings.dealer or "",
        settings.active,
        rows,
        tuple(train.rate(epoch) for epoch in range(train.epochs)),
        tuple(batches.epoch_seed(epoch, settings) for epoch in range(train.epochs)),
        batch=train.batch,
        l2=train.l2,
        model=settings.model,
        outputs=outputs,
        harmonics=settings.shares.harmonics,
        weighted=train.class_weight is not None,
        seed=settings.seed,
        held_out=train.test,
        figures=settings.figures,
        patience=train.patience,
    )


# --- training


class _Trainer:
    """A party with a table during a training: what it keeps and what it tells."""

    def __init__(
        self,
        brought: Brought,
        terms: Terms,
        objective: Objective | None,
        scaler: Scaler,
        saved: tuple[Snapshot, ...],
        figures: Figures | None,
    ) -> None:
        self._brought, self._terms, self._objective, self._scaler = brought, terms, objective, scaler
        self._progress: Progress | None = None
        self._saved = {each.position: each for each in saved}
        self._before = self._last = saved[-1] if saved else None
        self._new: Figures | None = None  # that no epoch has told of
        self.figures = figures  # of the best weights so far

    def met(self, channels: Mapping[str, Metered], columns: Mapping[str, int], position: int) -> None:
        """Tell that the training begins, or is resumed."""
        settings, terms, steps = self._brought.settings, self._terms, self._terms.schedule.steps
        if position < terms.schedule.total:  # a later snapshot is done anew, and fits nobody's shares after that
            self._before = self._last = self._saved.get(position)
        context = SharedContext(self._brought.sink, time.perf_counter)
        self._progress = Progress(
            context, channels.values(), steps, lambda done, seconds: seconds >= _BETWEEN or done % steps == 0, "rows"
        )
        parameters = (sum(columns.values()) + 1) * terms.outputs
        parties, epochs = len(settings.parties), settings.train.epochs
        started = TrainingStarted(
            settings.name, settings.kind, parties, epochs, steps, protection(settings), parameters
        )
        self._progress.begin(started, resumed=position if self._brought.state is not None else None)

    def told(self, position: int, figures: Figures) -> None:
        self._new = figures

    def keep(self, now: Snapshot) -> None:
        """Store what is needed to resume: at the start, and at the ends of epochs.

        The last one is stored once the weights are open.
        """
        steps, last = self._terms.schedule.steps, self._terms.schedule.total
        if self._new is not None and now.waited == 0:
            self.figures = self._new
        if self._progress is not None and now.position:
            self._progress.stepped(now.position, self._terms.schedule.size(now.position - 1))
            if now.position % steps == 0:
                self._progress.finished(now.position // steps - 1, local=self._local())
        if now.position % steps == 0 and now.position < last and not now.stopped:
            self._store(now, None, None)
        self._last = now

    def ended(self, model: Model, judged: Judgement | None) -> None:
        """Store the part of the model."""
        if self._last is not None:
            self._store(self._last, model, judged)

    def _store(self, now: Snapshot, model: Model | None, judged: Judgement | None) -> None:
        before = self._before or now
        state: dict[str, Any] = {
            "round": -(-now.position // self._terms.schedule.steps),
            "ended": model is not None,
            "now": now.state(),
            "before": before.state(),
            "mean": self._scaler.mean,
            "factor": self._scaler.factor,
            "figures": {} if self.figures is None else self.figures.state(),
        }
        self._brought.keep(flat(state), model, judged)
        self._before = now

    def _local(self) -> dict[str, float]:
        """The figures of this epoch, if there are any; of several outputs their means."""
        if (figures := self._new) is None:
            return {}
        self._new = None
        names = dict.fromkeys(name for output in figures.outputs for name in output)
        found = {name: float(np.mean([output[name] for output in figures.outputs if name in output])) for name in names}
        if self._objective is not None and self._objective.target is not None:
            found["rmse"] = float(np.sqrt(found["loss"])) * self._objective.target.unit
        return found


def train(channels: Mapping[str, Channel], brought: Brought) -> tuple[Model, Judgement | None]:
    """A party with a table: its part, and at the active by what the model was judged."""
    settings, rows = brought.settings, len(brought.features)
    training, _ = batches.hold_out(rows, settings.train.test, settings.seed)
    objective = _objective(brought, training)
    terms = terms_of(settings, rows, _sizes(channels, brought, objective).outputs)
    state = None if brought.state is None else nested(brought.state)
    scaler = _scaler(brought, training) if state is None else Scaler(state["mean"], state["factor"])
    saved = () if state is None else _snapshots(state)
    figures = Figures.restore(state["figures"]) if state is not None and "figures" in state else None
    trainer = _Trainer(brought, terms, objective, scaler, saved, figures)
    peers = {name: Metered(channel) for name, channel in channels.items()}
    context = SharedContext(
        brought.sink,
        time.perf_counter,
        saved=saved,
        keep=trainer.keep,
        told=trainer.told,
        met=lambda columns, position: trainer.met(peers, columns, position),
    )
    labels = weights = None
    if objective is not None:
        labels, weights = objective.targets, objective.row_weights
    features = scaler.apply(brought.features)
    take_part = train_on_shares if terms.dealer else train_between_two
    own = take_part(peers, Given(features, labels, weights, brought.names), terms, brought.name, context)
    if settings.model == "logistic":
        _note_large_scores(features @ own.weights + (0.0 if own.intercept is None else own.intercept), brought)
    model = _model(own, scaler, brought, objective)
    judged = None if objective is None else JudgedOnShares(trainer.figures, _numbers(objective, training))
    trainer.ended(model, judged)
    return model, judged


def _objective(brought: Brought, training: batches.Rows) -> Objective | None:
    if brought.labels is None:
        return None
    return Objective.of(brought.labels, training, brought.settings, classes=brought.classes)


def _sizes(channels: Mapping[str, Channel], brought: Brought, objective: Objective | None) -> Sizes:
    """What the active tells all others; a party with other rows stops."""
    settings, rows = brought.settings, len(brought.features)
    if objective is not None:
        sizes = Sizes(rows, objective.outputs)
        for channel in channels.values():
            channel.send(sizes)
        return sizes
    told = channels[settings.active].recv(Sizes, HEAD)
    _check_outputs(told.outputs, settings)
    if told.rows != rows:
        raise PeerError(
            f"{settings.active} has {told.rows} rows and {brought.name} {rows}: they must be the same people in the "
            "same order; set align: true"
        )
    return told


def _check_outputs(outputs: int, settings: Settings) -> None:
    """PeerError for a number of outputs that no label of this model has: more would be further models."""
    if outputs == 2 or (outputs > 1 and settings.model == "linear"):
        raise PeerError(
            f"{settings.active} has {outputs} outputs: a linear regression and two classes have 1, more classes one "
            "each"
        )


def _note_large_scores(part: Floats, brought: Brought) -> None:
    """Say so if this party's part of a score is beyond where the sigmoid's series holds: it learned wrongly.

    Between two parties half of what the lookup reaches: two parts within that are within it together.
    """
    reached = float(np.abs(part).max(initial=0.0))
    alone = brought.settings.dealer is None
    largest, wrong = (lookup.LARGEST / 2, "may have been") if alone else (LARGEST, "were")
    if reached > largest:
        brought.sink.emit(
            Noted(
                f"{brought.name}: its part of a score reaches {reached:.0f}, and the sigmoid on shares holds up to "
                f"{largest:.0f}{' of each party' * alone}: such rows {wrong} learned wrongly; clip columns with far "
                "outliers, or lower the learning rate"
            )
        )


def _scaler(brought: Brought, training: batches.Rows) -> Scaler:
    if not brought.settings.scale:
        return Scaler.identity(brought.features.shape[1])
    return Scaler.fit(brought.features[training])


def _snapshots(state: Mapping[str, Any]) -> tuple[Snapshot, ...]:
    found = {each.position: each for each in (Snapshot.restore(state["before"]), Snapshot.restore(state["now"]))}
    return tuple(found[position] for position in sorted(found))


def _model(own: Trained, scaler: Scaler, brought: Brought, objective: Objective | None) -> Model:
    intercept = np.zeros(own.weights.shape[1]) if own.intercept is None else own.intercept
    classes: tuple[str, ...] = ()
    target: Target | None = None
    if objective is not None:
        classes, target = objective.classes, objective.target
    return Model(own.weights, scaler, brought.session, intercept, classes, target)


def _numbers(objective: Objective, training: batches.Rows) -> Floats:
    """The training labels of a linear regression; none of classes."""
    return np.empty(0) if objective.target is None else np.asarray(objective.labels, dtype=np.float64)[training]


# --- the dealer


def dealer(settings: Settings, name: str, place: Place) -> Callable[[Mapping[str, Channel]], Part]:
    """The party without data. It stores which training it deals for, and no seed."""
    found = place.store.stored() if place.store is not None else None
    session = bytes.fromhex(found[0]["session"]) if found is not None else b""

    def save(session: bytes, rounds: int, *, ended: bool) -> None:
        if place.store is not None:
            state = {"round": rounds, "ended": ended, "session": session.hex()}
            part = {"session": np.frombuffer(session, dtype=np.uint8).copy()}
            place.store.save(part, state, {"version": 1, "ledgers": []})

    def take_part(channels: Mapping[str, Channel]) -> Part:
        agreed = agreed_session(channels, name, settings.active, Held(session, False), needs_nothing=True)
        save(agreed, 0, ended=False)
        told = channels[settings.active].recv(Sizes, HEAD)
        _check_outputs(told.outputs, settings)
        try:
            terms = terms_of(settings, told.rows, told.outputs)
        except ValueError as error:
            raise PeerError(f"{settings.active} tells of {told.rows} rows: {error}") from None
        deal(channels, terms)
        save(agreed, settings.train.epochs, ended=True)
        return Part({}, {"version": 1, "ledgers": []})

    return take_part


# --- prediction


def releases_of(settings: Settings, rows: int, outputs: int, thresholds: tuple[int, ...], session: bytes) -> Releases:
    """What a prediction releases, of a file and of what the active tells."""
    common = Releases(settings.owners, settings.dealer or "", settings.active, rows, session, outputs=outputs)
    match settings.release:
        case "exact":
            return replace(common, release="exact")
        case "points":
            scale = release.scale(settings)
            return replace(common, release="points", factor=scale.slope, offset=scale.offset)
        case "decile" | "decision":
            return replace(common, release="steps", thresholds=tuple(each / _UNIT for each in thresholds))


def predict(
    channels: Mapping[str, Channel],
    features: Floats,
    model: Model,
    settings: Settings,
    name: str,
    order: bytes,
    deciles: Floats | None,
) -> Told | None:
    """At the active what the file releases of each row; None at all others."""
    active = name == settings.active
    if active:
        sizes = Sizes(len(features), model.outputs, _thresholds(settings, model, deciles))
        for channel in channels.values():
            channel.send(sizes)
    else:
        sizes = channels[settings.active].recv(Sizes, HEAD + 10 * 64)
        if sizes.rows != len(features) or sizes.outputs != model.outputs:
            raise PeerError(
                f"{settings.active} predicts {sizes.rows} rows with {sizes.outputs} outputs, and {name} has "
                f"{len(features)} and {model.outputs}: give all parties the same rows and parts of the same training"
            )
        _check_thresholds(sizes.thresholds, settings)
    terms = releases_of(settings, sizes.rows, sizes.outputs, sizes.thresholds, model.session)
    intercept = model.intercept if active else None
    take_part = predict_on_shares if terms.dealer else predict_between_two
    found = take_part(channels, model.scaler.apply(features), model.weights, intercept, terms, name)
    return None if found is None else _told(found, settings, model, sizes.thresholds, deciles)


def _thresholds(settings: Settings, model: Model, deciles: Floats | None) -> tuple[int, ...]:
    """What scores are compared with: the edges of tenths, and the score from which the second class is decided on."""
    values: list[float] = []
    if settings.release == "decile":
        edges = release.checked_edges(deciles)
        values += (edges if model.target is None else model.target.scaled(edges)).tolist()
    if settings.release in ("decile", "decision") and settings.model == "logistic":
        values.append(_cut(settings))
    return tuple(sorted(round(value * _UNIT) for value in values))


def _check_thresholds(told: tuple[int, ...], settings: Settings) -> None:
    """PeerError if the active compares scores with more, or with others, than the file says.

    Each further threshold would tell it more of a row. Where tenths begin and end, only the active knows.
    """
    due = {"exact": 0, "points": 0, "decision": 1, "decile": 9 + (settings.model == "logistic")}[settings.release]
    if len(told) != due or list(told) != sorted(told) or any(abs(each) >= REACH * _UNIT for each in told):
        raise PeerError(
            f"{settings.active} would compare scores with {len(told)} thresholds, and predict.release "
            f"{settings.release} has {due}, rising and below {REACH:g}: nothing was sent"
        )
    if due in (1, 10) and round(_cut(settings) * _UNIT) not in told:
        raise PeerError(
            f"{settings.active} would decide by another threshold than predict.threshold {settings.predict.threshold:g}"
            " of the file: nothing was sent"
        )


def _cut(settings: Settings) -> float:
    """The score of `predict.threshold`."""
    return float(np.log(settings.predict.threshold / (1 - settings.predict.threshold)))


def _told(found: Any, settings: Settings, model: Model, thresholds: tuple[int, ...], deciles: Floats | None) -> Told:
    """What the active was given, as the file names it."""
    match settings.release:
        case "exact":
            return release.released(found if model.target is None else model.target.original(found), settings)
        case "points":
            decided = release.by_points(found[:, 0], settings) if model.outputs == 1 else None
            return Told(found, decided)
        case "decision":
            return Told(found, found[:, 0] > 0)
        case "decile":
            if settings.model == "linear":
                return Told(found + 1)
            place = thresholds.index(round(_cut(settings) * _UNIT))
            decided = found[:, 0] > place
            return Told(found + 1 - decided[:, None], decided)


def predicting_dealer(settings: Settings, model: Mapping[str, Any]) -> Predictor:
    """The dealer of a prediction."""
    if "session" not in model:
        raise ConfigError("the dealer's folder does not say which training it dealt for: give the folder of its run")

    def take_part(channels: Mapping[str, Channel]) -> None:
        told = channels[settings.active].recv(Sizes, HEAD + 10 * 64)
        _check_thresholds(told.thresholds, settings)
        terms = releases_of(settings, told.rows, told.outputs, told.thresholds, _session(model))
        deal_predictions(channels, terms)

    return take_part


def _session(model: Mapping[str, Any]) -> bytes:
    return np.asarray(model["session"], dtype=np.uint8).tobytes()
