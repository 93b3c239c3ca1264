"""AUC of vertical logistic regression on held-out rows against scikit-learn's on the whole table.

Breast cancer in two and three parties, and with `--data` the 30,000 rows of UCI's credit defaults as FATE deals them
out. All checks are on. Keys have 1024 bits, to save time: the length of a key changes no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from bench.measure import Options, Row
from tacit.channel import Channel, run_parties
from tacit.events import EpochFinished, Kept
from tacit.kinds.vertical_logistic.protocol import batches, logistic_masked
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.tables.plain import read_numbers

Floats = NDArray[np.float64]
ALLOWED = 0.005  # below scikit-learn's
CANCER = {"epochs": 12, "batch": 512, "learning_rate": 2.0, "l2": 0.002, "test": 0.3}
CREDIT = {"epochs": 4, "batch": 1024, "learning_rate": 1.0, "test": 0.2}


def run(options: Options) -> list[Row]:
    x, y = load_breast_cancer(return_X_y=True)
    rows = [_compared(f"breast cancer, {n} parties", np.array_split(x, n, axis=1), y, CANCER) for n in (2, 3)]
    if options.data is not None and not options.quick:
        rows.append(_credit(options.data))
    return rows


def _credit(folder: Path) -> Row:
    guest = read_numbers(folder / "default_credit_hetero_guest.csv", label=True)
    host = read_numbers(folder / "default_credit_hetero_host.csv")
    if guest.ids != host.ids or guest.labels is None:
        raise ValueError("the two files of the credit data do not hold the same rows")
    return _compared("credit defaults, 2 parties", [guest.features, host.features], guest.labels.codes, CREDIT)


def _compared(name: str, parts: list[Floats], labels: Any, train: Mapping[str, Any]) -> Row:
    names = ["bank", *(f"shop{number}" for number in range(1, len(parts)))]
    roles = {party: {"role": "passive" if place else "active"} for place, party in enumerate(names)}
    settings = Settings.model_validate({"parties": roles, "train": train, "paillier": {"bits": 1024}})
    theirs = _scikit_learn(np.hstack(parts), labels, settings)
    ours = _vertical(dict(zip(names, parts, strict=True)), labels, settings)
    return Row(f"AUC, {name}", ours, theirs, "", "higher", floor=1 - ALLOWED / theirs)


def _vertical(parts: Mapping[str, Floats], labels: Any, settings: Settings) -> float:
    events = Kept()

    def active(channels: Mapping[str, Channel]) -> object:
        return logistic_masked.active(channels, parts[settings.active], labels, settings, PaillierContext(sink=events))

    def passive(name: str) -> Any:
        return lambda channels: logistic_masked.passive(channels, parts[name], settings, name)

    run_parties({settings.active: active} | {name: passive(name) for name in settings.passives})
    return [event for event in events.events if isinstance(event, EpochFinished)][-1].local["auc"]


def _scikit_learn(x: Floats, labels: Any, settings: Settings) -> float:
    kept, held_out = batches.hold_out(len(x), settings.train.test, settings.seed)
    scaler = StandardScaler().fit(x[kept])
    model = LogisticRegression(max_iter=2000).fit(scaler.transform(x[kept]), labels[kept])
    return float(roc_auc_score(labels[held_out], model.decision_function(scaler.transform(x[held_out]))))
