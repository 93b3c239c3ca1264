"""Trainings on shares for tests, and the same steps in plain floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from tacit.channel import Recorder, run_parties
from tacit.kinds.vertical_logistic.shared.dealer import deal
from tacit.kinds.vertical_logistic.shared.masked_table import Given
from tacit.kinds.vertical_logistic.shared.terms import Terms
from tacit.kinds.vertical_logistic.shared.training import SharedContext, train
from tacit.kinds.vertical_logistic.two_party.training import train as train_between_two
from tacit.randomness import seeded_rng

NAMES = ("bank", "shop", "phone", "post", "club")
PATIENCE = 30.0


def people(rows: int, columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    y = rng.random(rows) < 1 / (1 + np.exp(-x @ rng.normal(size=columns)))
    return x, y.astype(np.float64)


def terms_of(parties: int, rows: int, *, epochs: int = 3, rate: float = 0.5, **changes: Any) -> Terms:
    given = {"batch": 64, "figures": "never", "active": NAMES[0]} | changes
    return Terms(
        parties=NAMES[:parties],
        dealer="dealer",
        rows=rows,
        rates=(rate,) * epochs,
        order_seeds=tuple(range(epochs)),
        **given,
    )


def shared_out(x: np.ndarray, terms: Terms) -> dict[str, np.ndarray]:
    return dict(zip(terms.parties, np.array_split(x, len(terms.parties), axis=1), strict=True))


def functions(x, y, terms, *, row_weights=None, contexts=None, recorders=None, seed=1):
    """Each party's function, and the dealer's if there is one. `recorders` collects each one's recorded channels."""
    recorders = {} if recorders is None else recorders

    def recorded(name, channels):
        recorders[name] = {other: Recorder(channel) for other, channel in channels.items()}
        return recorders[name]

    def party(name, part):
        active = name == terms.active
        context = (contexts or {}).get(name, SharedContext())
        given = Given(part, y, row_weights) if active else Given(part)
        take_part = train if terms.dealer else train_between_two
        return lambda channels: take_part(recorded(name, channels), given, terms, name, context)

    made = {name: party(name, part) for name, part in shared_out(x, terms).items()}
    if terms.dealer:
        made[terms.dealer] = lambda channels: deal(recorded(terms.dealer, channels), terms, seeded_rng(seed))
    return made


def run(x, y, terms, **options):
    return run_parties(functions(x, y, terms, **options), patience=PATIENCE)


def whole(models: dict[str, Any], terms: Terms) -> tuple[np.ndarray, np.ndarray]:
    """All weights, in the order of the columns, and the intercepts."""
    return np.concatenate([models[name].weights for name in terms.parties]), models[terms.active].intercept


def plain(x, y, terms, row_weights=None, steps=None):
    """The oracle: the same steps in floats."""
    y = np.asarray(y, dtype=float).reshape(len(x), terms.outputs)
    weights, intercept = np.zeros((x.shape[1], terms.outputs)), np.zeros(terms.outputs)
    training, _ = terms.split
    for number, batch in terms.schedule.from_step(0):
        if steps is not None and number >= steps:
            break
        rows, rate = training[batch], terms.rates[number // terms.schedule.steps]
        scores = x[rows] @ weights + intercept
        residue = (scores if terms.model == "linear" else 1 / (1 + np.exp(-scores))) - y[rows]
        if row_weights is not None:
            residue *= row_weights[rows, None]
        weights = weights - rate * (x[rows].T @ residue / len(rows) + terms.l2 * weights)
        intercept = intercept - rate * residue.mean(axis=0)
    return weights, intercept


def cancer() -> tuple[np.ndarray, np.ndarray]:
    """Breast cancer, standardised."""
    x, y = load_breast_cancer(return_X_y=True)
    return (x - x.mean(axis=0)) / x.std(axis=0), y.astype(float)


def aucs(x, y, terms) -> tuple[float, float]:
    """Of the held-out rows: by a training on shares, and by the same steps in floats."""
    held_out = terms.split[1]
    found, expected = (
        roc_auc_score(y[held_out], x[held_out] @ weights[:, 0])
        for weights, _ in (whole(run(x, y, terms), terms), plain(x, y, terms))
    )
    return found, expected
