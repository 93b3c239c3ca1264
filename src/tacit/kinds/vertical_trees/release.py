"""What a prediction tells about new rows: the table that the active gets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.vertical_trees.protocol.losses import loss_named
from tacit.kinds.vertical_trees.settings import Settings
from tacit.store.scores import Scores


def scores_table(ids: Sequence[str], scores: NDArray[np.float64], classes: Sequence[str], settings: Settings) -> Scores:
    """Each id with its prediction.

    Numbers and counts: id, score. Two classes: the probability of the second one, and the decision by
    `predict.threshold`. Several: the class with the highest probability, that probability, and one column for each.
    """
    objective = settings.train.objective
    told = loss_named("logistic" if objective == "binary" else objective, max(2, len(classes))).predictions(scores)
    match objective:
        case "squared" | "poisson":
            return Scores(("id", "score"), list(zip(ids, told.tolist(), strict=True)))
        case "binary":
            decided = [classes[int(each)] for each in told >= settings.predict.threshold]
            return Scores(("id", "score", "decision"), list(zip(ids, told.tolist(), decided, strict=True)))
        case "softmax":
            best = told.argmax(axis=1).tolist()
            rows = [
                (identity, each[code], classes[code], *each)
                for identity, code, each in zip(ids, best, told.tolist(), strict=True)
            ]
            return Scores(("id", "score", "decision", *(f"score {name}" for name in classes)), rows)
