"""Vertical regression on held-out rows against scikit-learn's on the whole table: AUC, of three classes the mean over
each against the rest, and R² of numbers.

Breast cancer in two and three parties, wine (three classes), diabetes (a number), and with `--data` the 30,000 rows of
UCI's credit defaults as FATE deals them out: the numbers as they are, and the files through `tacit.run` with one_hot
for the host's columns of few values, against scikit-learn's pipeline with the same transforms. All checks are on. Keys
have 1024 bits, to save time: the length of a key changes no number.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tacit
from bench.measure import Options, Row
from tacit.channel import Channel, run_parties
from tacit.events import EpochFinished, Kept
from tacit.kinds.vertical_logistic.protocol import batches, logistic_masked
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.store.directory import read_events
from tacit.tables.plain import read_numbers

Floats = NDArray[np.float64]
ALLOWED = 0.005  # below scikit-learn's
CANCER = {"epochs": 12, "batch": 512, "learning_rate": 2.0, "l2": 0.002, "test": 0.3}
WINE = {"epochs": 8, "batch": 512, "learning_rate": 2.0, "l2": 0.002, "test": 0.3}
DIABETES = {"epochs": 24, "batch": 512, "learning_rate": 0.45, "test": 0.3}
TABLES = {"epochs": 4, "batch": 2048, "learning_rate": 2.0, "test": 0.2}
ALLOWED_OF_TABLES = 0.01
CATEGORIES = [f"x{place}" for place in (1, 2, 3, 5, 6, 7, 8, 9)]  # of the host: a person's sex, education, payments
CREDIT = {"epochs": 4, "batch": 1024, "learning_rate": 1.0, "test": 0.2}


def run(options: Options) -> list[Row]:
    x, y = load_breast_cancer(return_X_y=True)
    rows = [_compared(f"breast cancer, {n} parties", np.array_split(x, n, axis=1), y, CANCER) for n in (2, 3)]
    rows.append(_compared("wine, 3 classes, 2 parties", _halves(load_wine), load_wine().target, WINE))
    numbers = load_diabetes().target
    rows.append(_compared("diabetes, 2 parties", _halves(load_diabetes), numbers, DIABETES, model="linear"))
    if options.data is not None and not options.quick:
        rows.append(_credit(options.data))
        rows.append(_credit_by_tables(options.data))
    return rows


def _halves(load: Any) -> list[Floats]:
    return np.array_split(load(return_X_y=True)[0], 2, axis=1)


def _credit(folder: Path) -> Row:
    guest = read_numbers(folder / "default_credit_hetero_guest.csv", label=True)
    host = read_numbers(folder / "default_credit_hetero_host.csv")
    if guest.ids != host.ids or guest.labels is None:
        raise ValueError("the two files of the credit data do not hold the same rows")
    return _compared("credit defaults, 2 parties", [guest.features, host.features], guest.labels.codes, CREDIT)


def _credit_by_tables(folder: Path) -> Row:
    """The two files as a user gives them: read, transformed and trained by `tacit.run`."""
    guest, host = (folder / f"default_credit_hetero_{name}.csv" for name in ("guest", "host"))
    file = {
        "kind": "vertical_logistic",
        "protocol": "masked",
        "parties": {"guest": {"role": "active"}, "host": {"role": "passive"}},
        "data": {
            "guest": {"path": str(guest.absolute())},
            "host": {"path": str(host.absolute()), "columns": dict.fromkeys(CATEGORIES, "one_hot")},
        },
        "align": False,
        "train": TABLES,
        "paillier": {"bits": 1024, "workers": 2},
    }
    with tempfile.TemporaryDirectory() as runs:
        done = tacit.run(file, runs=runs)
        events = [event for event in read_events(done.directory / "events.jsonl") if isinstance(event, EpochFinished)]
    ours, theirs = events[-1].local["auc"], _pipeline(guest, host)
    name = "AUC, credit defaults by files, categories"
    return Row(name, ours, theirs, "", "higher", floor=1 - ALLOWED_OF_TABLES / theirs)


def _pipeline(guest: Path, host: Path) -> float:
    own, other = (np.genfromtxt(path, delimiter=",", names=True) for path in (guest, host))
    numbers = list(own.dtype.names[2:])
    rest = [name for name in other.dtype.names[1:] if name not in CATEGORIES]
    x = np.column_stack([*(own[name] for name in numbers), *(other[name] for name in [*rest, *CATEGORIES])])
    labels = own["y"]
    kept, held_out = batches.hold_out(len(x), TABLES["test"], 0)
    categories = list(range(x.shape[1] - len(CATEGORIES), x.shape[1]))
    one_hot = OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist", sparse_output=False)
    transforms = ColumnTransformer([("categories", one_hot, categories)], remainder="passthrough")
    model = make_pipeline(transforms, StandardScaler(), LogisticRegression(max_iter=2000)).fit(x[kept], labels[kept])
    return float(roc_auc_score(labels[held_out], model.decision_function(x[held_out])))


def _compared(name: str, parts: list[Floats], labels: Any, train: Mapping[str, Any], model: str = "logistic") -> Row:
    names = ["bank", *(f"shop{number}" for number in range(1, len(parts)))]
    roles = {party: {"role": "passive" if place else "active"} for place, party in enumerate(names)}
    common = {"protocol": "masked", "parties": roles, "train": train, "paillier": {"bits": 1024}}
    settings = Settings.model_validate({"model": model} | common)
    theirs = _scikit_learn(np.hstack(parts), labels, settings)
    ours = _vertical(dict(zip(names, parts, strict=True)), labels, settings)
    figure = "R²" if model == "linear" else "AUC"
    return Row(f"{figure}, {name}", ours, theirs, "", "higher", floor=1 - ALLOWED / theirs)


def _vertical(parts: Mapping[str, Floats], labels: Any, settings: Settings) -> float:
    events = Kept()

    def active(channels: Mapping[str, Channel]) -> object:
        return logistic_masked.active(channels, parts[settings.active], labels, settings, PaillierContext(sink=events))

    def passive(name: str) -> Any:
        return lambda channels: logistic_masked.passive(channels, parts[name], settings, name)

    run_parties({settings.active: active} | {name: passive(name) for name in settings.passives})
    return [event for event in events.events if isinstance(event, EpochFinished)][-1].local[
        "r2" if settings.model == "linear" else "auc"
    ]


def _scikit_learn(x: Floats, labels: Any, settings: Settings) -> float:
    kept, held_out = batches.hold_out(len(x), settings.train.test, settings.seed)
    scaler = StandardScaler().fit(x[kept])
    trained, judged = scaler.transform(x[kept]), scaler.transform(x[held_out])
    if settings.model == "linear":
        return float(r2_score(labels[held_out], LinearRegression().fit(trained, labels[kept]).predict(judged)))
    model = LogisticRegression(max_iter=2000)
    if len(np.unique(labels)) == 2:
        return float(roc_auc_score(labels[held_out], model.fit(trained, labels[kept]).decision_function(judged)))
    several = OneVsRestClassifier(model).fit(trained, labels[kept])
    return float(roc_auc_score(labels[held_out], several.predict_proba(judged), multi_class="ovr"))
