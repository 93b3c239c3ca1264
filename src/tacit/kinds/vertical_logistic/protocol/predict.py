"""What a trained model says about new rows. Each party has its own weights and scaler, and sends scores only.

With several passives the active learns the sum of their scores for each row; with one, that party's score. The
scores of a row are the same to the last bit, whichever rows are predicted with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.random import Generator

from tacit.channel import Channel
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.protocol import greeting
from tacit.kinds.vertical_logistic.protocol.masks import Hidden, agree_masks, decoded, total
from tacit.kinds.vertical_logistic.protocol.messages import HEAD, Hello, Scores
from tacit.kinds.vertical_logistic.protocol.model import Model, as_features
from tacit.kinds.vertical_logistic.settings import Settings


def active(channels: Mapping[str, Channel], features: Any, model: Model, settings: Settings) -> Floats:
    """The raw scores of each row, (rows, K): see `metrics.probabilities`, and `Model.target` of a linear model."""
    table = _fitting(features, model)
    greeting.greet_passives(channels, _hello(table, model, settings), settings)
    count = len(table) * model.outputs
    parts = {name: channels[name].recv(Scores, HEAD + 8 * count).words for name in settings.passives}
    return model.score(table) + decoded(total(parts, count), settings.passives, model.outputs)


def passive(
    channels: Mapping[str, Channel],
    features: Any,
    model: Model,
    settings: Settings,
    me: str,
    *,
    order: bytes = b"",
    rng: Generator | None = None,
    told: Callable[[Floats], Floats] = lambda scores: scores,
) -> None:
    """Sends its part of each row's score, under masks that cancel in the sum where there are other passives.

    Args:
        order: a digest of the rows' ids in their order; where passives' differ, their masks do not cancel.
        rng: of the keys behind the masks; the operating system's by default.
        told: what it tells of its part of the scores, such as rounded ones.
    """
    table = _fitting(features, model)
    greeting.greet_active(channels[settings.active], _hello(table, model, settings), me, settings)
    others = [name for name in settings.passives if name != me]
    keys = agree_masks(channels, me, others, model.session, rng, order=order)
    hidden = Hidden(keys, len(settings.passives))
    channels[settings.active].send(Scores(hidden.hide(told(model.score(table)))))


def _fitting(features: Any, model: Model) -> Floats:
    table = as_features(features)
    if table.shape[1] != len(model.weights):
        raise ValueError(f"rows have {table.shape[1]} features, the model was trained on {len(model.weights)}")
    return table


def _hello(table: Floats, model: Model, settings: Settings) -> Hello:
    return Hello(len(table), table.shape[1], model.outputs, (), settings.agreed(), model.session)
