"""How good trees are, at the active: figures after each round, and curves and tables at the end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from tacit.config.source import ConfigError
from tacit.events import Event
from tacit.kinds.vertical_trees.protocol.boosting import Labelled, State
from tacit.kinds.vertical_trees.protocol.features import IntArray
from tacit.kinds.vertical_trees.protocol.losses import Loss, class_weights, loss_named
from tacit.kinds.vertical_trees.protocol.rounding import most_rows
from tacit.kinds.vertical_trees.settings import Settings
from tacit.lockstep.evaluation import area_under_curve, evaluated
from tacit.lockstep.held_out import hold_out
from tacit.lockstep.own_table import labels_of
from tacit.tables.labels import Labels
from tacit.tables.table import Table

Floats = NDArray[np.float64]


def check_labels(settings: Settings, table: Table) -> None:
    """ConfigError if the active's labels do not fit the objective or the class weights of the file."""
    classes = _classes(table)
    if settings.train.objective == "binary" and len(classes) != 2:
        raise ConfigError(
            f"{table.where}: the label has {len(classes)} classes, and train.objective is binary: take softmax"
        )
    given = settings.train.class_weight
    if isinstance(given, dict) and (unknown := [name for name in given if name not in classes]):
        raise ConfigError(
            f"{table.where}: train.class_weight names {unknown[0]}, and the classes are {', '.join(classes)}"
        )
    counts = table.labels
    if settings.train.objective == "poisson" and isinstance(counts, np.ndarray) and (below := int((counts < 0).sum())):
        raise ConfigError(
            f"{table.where}: {below} of {len(counts)} labels are below 0, the least {counts.min():g}, and "
            "train.objective: poisson is for counts: correct them, or take squared"
        )


def labelled(settings: Settings, table: Table, rows: IntArray) -> tuple[Labelled, tuple[str, ...]]:
    """What the active knows of the common rows, and the names of its classes. ConfigError if no tree can be grown."""
    classes, objective = _classes(table), settings.train.objective
    loss = loss_named("logistic" if objective == "binary" else objective, max(2, len(classes)))
    labels = labels_of(table, rows).astype(np.float64)
    training, held_out = hold_out(len(rows), settings.train.test, settings.seed)
    _check_rows(settings, len(training))
    trained = np.bincount(labels[training].astype(np.int64), minlength=len(classes)) if classes else np.ones(1)
    if not trained.all():
        raise ConfigError(
            f"{table.where}: no row of the class {classes[int(trained.argmin())]} is among the {len(training)} that "
            "are trained on: give more rows in common, or leave this class out"
        )
    try:
        return Labelled(loss, labels, _weights(settings, labels, classes, training), training, held_out), classes
    except ValueError as error:
        raise ConfigError(f"{table.where}: {error}") from None


def _classes(table: Table) -> tuple[str, ...]:
    return table.labels.classes if isinstance(table.labels, Labels) else ()


def _check_rows(settings: Settings, rows: int) -> None:
    """ConfigError if no node may be opened, or if sums may overflow."""
    privacy, counted = settings.privacy, max(1, round(settings.train.rows * rows))
    if counted < privacy.least:
        raise ConfigError(
            f"a tree is grown from {counted} of {rows} training rows, and privacy.least lets no node below "
            f"{privacy.least} be opened: give more rows in common, or a lower privacy.least"
        )
    if counted > most_rows(privacy.bits):
        raise ConfigError(
            f"{counted} rows of a tree at privacy.bits {privacy.bits} may overflow their sums: take fewer bits, or a "
            f"lower train.rows, for at most {most_rows(privacy.bits)}"
        )


def _weights(settings: Settings, labels: Floats, classes: tuple[str, ...], training: IntArray) -> Floats:
    """Of each row that of its class, by the training rows."""
    given = settings.train.class_weight
    if given is None:
        return np.ones(len(labels))
    if not isinstance(given, str):
        return np.array([given.get(name, 1.0) for name in classes])[labels.astype(np.int64)]
    trained = labels[training].astype(np.int64)
    by_class = np.ones(len(classes))
    by_class[trained] = class_weights(labels[training], given)
    return by_class[labels.astype(np.int64)]


def figures(known: Labelled, state: State) -> dict[str, float]:
    """After a round: loss and, of classes, AUC on held-out rows, or on those trained on if none are held out."""
    held_out = len(known.held_out) > 0
    rows = known.held_out if held_out else known.rows
    scores, labels = state.scores[rows], known.labels[rows]
    found = {"loss": state.held_out_losses[-1] if held_out else state.losses[-1]}
    if known.loss.name in ("squared", "poisson"):
        off = known.loss.predictions(scores) - labels
        return {**found, "rmse": float(np.sqrt(np.mean(off**2)))}
    raw = ranked(known.loss, scores)
    wanted = [1] if raw.shape[1] == 1 else range(raw.shape[1])
    areas = [area_under_curve(raw[:, place], labels == code) for place, code in enumerate(wanted)]
    guessed = raw[:, 0] > 0 if raw.shape[1] == 1 else raw.argmax(axis=1)
    found["accuracy"] = float(np.mean(guessed == labels))
    known_areas = [area for area in areas if area is not None]
    return {**found, "auc": float(np.mean(known_areas))} if len(known_areas) == len(areas) else found


def ranked(loss: Loss, scores: Floats) -> Floats:
    """Scores that rank rows: log odds of two classes, log probabilities of several, and values of numbers."""
    if loss.name == "softmax":
        found: Floats = log_softmax(scores, axis=1)
        return found
    return scores if loss.name == "logistic" else loss.predictions(scores)[:, None]


def told(known: Labelled, scores: Floats, classes: tuple[str, ...]) -> list[Event]:
    """Curves and tables of held-out rows, or of those trained on if none are held out; `scores` are of these rows."""
    held_out = len(known.held_out) > 0
    labels = known.labels[known.held_out if held_out else known.rows]
    return evaluated(ranked(known.loss, scores), labels, classes, held_out=held_out, linear=not classes)
