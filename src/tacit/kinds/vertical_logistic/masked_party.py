"""One party of a regression or a prediction under Paillier."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tacit.channel import Channel
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic import release
from tacit.kinds.vertical_logistic.brought import Brought, Judged, Judgement, flat, nested, paillier_key
from tacit.kinds.vertical_logistic.protocol import logistic_masked
from tacit.kinds.vertical_logistic.protocol import predict as prediction
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.protocol.model import Model, Saved
from tacit.kinds.vertical_logistic.release import Told
from tacit.kinds.vertical_logistic.settings import Settings


def train(channels: Mapping[str, Channel], brought: Brought) -> tuple[Model, Judgement | None]:
    """This party's part, and at the active by what it was judged."""
    settings, judged = brought.settings, list[Judged]()
    held_out = settings.train.test > 0

    def keep(saved: Saved) -> None:
        now = saved.now
        scores = Judged(now.best_scores, now.best_scores, held_out) if len(now.best_scores) else None
        brought.keep({"round": now.epoch, "ended": now.stopped, **flat(saved.state())}, saved.best, scores)

    context = PaillierContext(
        brought.sink,
        time.perf_counter,
        saved=() if brought.state is None else (Saved.restore(nested(brought.state)),),
        keep=keep,
        records=brought.records,
        session=brought.session,
        workers=brought.workers,
        key=paillier_key(settings, brought.records) if brought.active else None,
        order=brought.order,
        classes=brought.classes,
        judged=lambda scores, labels, held_out: judged.append(Judged(scores, labels, held_out)),
    )
    if brought.active:
        return logistic_masked.active(channels, brought.features, brought.labels, settings, context), judged[0]
    return logistic_masked.passive(channels, brought.features, settings, brought.name, context), None


def predict(
    channels: Mapping[str, Channel],
    features: Floats,
    model: Model,
    settings: Settings,
    name: str,
    order: bytes,
    deciles: Floats | None,
) -> Told | None:
    """At the active what the file releases of each row; None at a passive, which sends its part of the scores."""
    if name != settings.active:
        prediction.passive(
            channels, features, model, settings, name, order=order, told=lambda part: release.rounded(part, settings)
        )
        return None
    scores = prediction.active(channels, features, model, settings)
    values = scores if model.target is None else model.target.original(scores)
    return release.released(values, settings, edges=deciles)
