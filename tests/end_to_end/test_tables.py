"""Raw tables through the commands: trained as they are, scored row by row, from every source, against scikit-learn."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import safetensors.numpy
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tacit
from examples import raw_tables
from tacit.events import EpochFinished
from tacit.kinds.vertical_logistic.protocol.batches import hold_out
from tacit.store.directory import read_events
from tests.commands import done, invoke

CLOSE = 0.01  # of an AUC
DEAL: dict[str, Any] = {
    "kind": "vertical_logistic",
    "protocol": "masked",
    "name": "deal",
    "parties": {"bank": {"role": "active"}, "shop": {"role": "passive"}},
    "data": {
        "bank": {"path": "bank.csv", "id": "customer", "label": "default", "label_counts": True},
        "shop": {"path": "shop.csv", "id": "card"},
    },
    "train": {"epochs": 10, "batch": 5000, "learning_rate": 3.0},
    "paillier": {"bits": 512},
}
WOE = {"city": "woe", "late payments": "woe"}


def deal(file="deal.yaml", bank=None, shop=None, **changes):
    """Write the file of both parties, with these uses of their columns."""
    data = {
        "bank": DEAL["data"]["bank"] | ({"columns": bank} if bank else {}),
        "shop": DEAL["data"]["shop"] | ({"columns": shop} if shop else {}),
    }
    Path(file).write_text(json.dumps(DEAL | {"data": data} | changes))


def train(epochs, **changes):
    return DEAL["train"] | {"epochs": epochs} | changes


# ---- scikit-learn on the same rows, from the raw files by pandas


def read_raw(path, delimiter, decimal):
    frame = pd.read_csv(path, sep=delimiter, dtype=str, keep_default_na=False)
    frame = frame.apply(lambda column: column.str.strip())
    frame = frame.mask(frame.isin(["", "n/a", "N/A"]))
    thousands = {".": ",", ",": "."}[decimal]

    def numbers(*names):
        for name in names:
            texts = frame[name].str.replace("%", "").str.replace(thousands, "").str.replace(decimal, ".")
            frame[name] = texts.astype(float)

    def days(name, form):
        frame[name] = (pd.to_datetime(frame[name], format=form) - pd.Timestamp(0)).dt.days

    return frame, numbers, days


def raw_bank(path="bank.csv"):
    frame, numbers, days = read_raw(path, ",", ".")
    numbers("age", "income", "debt", "limit used")
    days("customer since", "%Y-%m-%d")
    days("last payment", "%d %b %Y")
    return frame.drop(columns=["currency", "note"])


def raw_shop(path="shop.csv"):
    frame, numbers, days = read_raw(path, ";", ",")
    numbers("spent", "orders", "returned", "late payments")
    days("first order", "%d.%m.%Y")
    days("last visit", "%d/%m/%Y")
    return frame.drop(columns=["country"])


def joined(run):
    """Both raw tables side by side, in the order of the run; which of the rows it trained on, and held out."""
    bank = raw_bank()
    rows = stored(run / "bank", "state-*.safetensors")["rows"]
    both = bank.iloc[rows].merge(raw_shop(), left_on="customer", right_on="card", how="left", validate="1:1")
    assert both["card"].notna().all()
    training, held_out = hold_out(len(rows), 0.2, 0)
    return both.drop(columns=["customer", "card", "default"]), both["default"] == "yes", training, held_out


def scikit_learn(features, labels, training, held_out):
    """The AUC of a pipeline on the rows that were held out."""
    texts = [name for name in features if features[name].dtype.kind not in "fi"]
    numbers = [name for name in features if name not in texts]
    features = features.fillna(dict.fromkeys(texts, "missing"))
    steps = ColumnTransformer(
        [
            ("numbers", SimpleImputer(strategy="mean"), numbers),
            ("texts", OneHotEncoder(min_frequency=20, sparse_output=False), texts),
        ]
    )
    model = make_pipeline(steps, StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(features.iloc[training], labels.iloc[training])
    return roc_auc_score(labels.iloc[held_out], model.decision_function(features.iloc[held_out]))


def stored(folder, pattern):
    """The last file of a pattern in a party's folder."""
    paths = sorted(folder.glob(pattern), key=lambda path: int("0" + "".join(filter(str.isdigit, path.stem))))
    return safetensors.numpy.load_file(paths[-1])


def coefficients(folder):
    with (folder / "coefficients.csv").open() as file:
        return list(csv.DictReader(file))


def held_out_auc(run):
    return [event for event in read_events(run / "events.jsonl") if isinstance(event, EpochFinished)][-1].local["auc"]


def test_raw_tables_train_without_an_edit_as_well_as_scikit_learns_pipeline(here):
    raw_tables.write(here)
    deal()
    said = done("run", "deal.yaml", "--state", "run")
    assert "5000 of 5500 records are common" in said
    theirs = scikit_learn(*joined(Path("run")))
    assert held_out_auc(Path("run")) == pytest.approx(theirs, abs=CLOSE)
    assert theirs > 0.75


def weight_of_evidence(groups, labels, training):
    """Of each row by hand, and the information value: ln((p / P) / (n / N)) over the training rows."""
    positive = labels.iloc[training].groupby(groups.iloc[training]).agg(["sum", "count"])
    p, n = positive["sum"], positive["count"] - positive["sum"]
    values = np.log((p / p.sum()) / (n / n.sum()))
    return groups.map(values).astype(float), float(((p / p.sum() - n / n.sum()) * values).sum())


def rare_together(texts, training):
    """Categories with fewer than 20 rows together, and with the smallest of the others if these have fewer than 50."""
    counts = texts.iloc[training].value_counts()
    few = set(counts[counts < 20].index)
    if few and counts[list(few)].sum() < 50:
        few.add(counts[counts >= 20].idxmin())
    return texts.where(~texts.isin(few), "together")


def test_weight_of_evidence_is_that_of_the_training_labels_and_the_model_as_good_as_scikit_learns(here):
    raw_tables.write(here)
    deal(bank={"job": "woe"}, shop=WOE)
    done("run", "deal.yaml", "--state", "run")
    features, labels, training, held_out = joined(Path("run"))
    groups = {
        "job": rare_together(features["job"].fillna("missing"), training),
        "city": rare_together(features["city"].fillna("missing"), training),
        "late payments": features["late payments"].clip(upper=2).fillna(-1),  # tenths of so few values: 0, 1, more
    }
    by_hand = {name: weight_of_evidence(each, labels, training) for name, each in groups.items()}
    features = features.assign(**{name: values for name, (values, _) in by_hand.items()})
    theirs = scikit_learn(features, labels, training, held_out)
    assert held_out_auc(Path("run")) == pytest.approx(theirs, abs=CLOSE)
    lines = [line for name in ("bank", "shop") for line in coefficients(Path("run") / name)]
    told = {line["column"]: float(line["information value"]) for line in lines if line["information value"]}
    assert told == pytest.approx({name: information for name, (_, information) in by_hand.items()}, abs=1e-9)


# ---- a row alone, and among others


def predict(bank, shop, *more, file="deal.yaml", run="run", output="scores.csv"):
    ended_so = invoke(
        "predict", file, "--run", run, "--output", output, "--input", f"bank={bank}", "--input", f"shop={shop}", *more
    )
    assert ended_so.exit_code == 0, ended_so.output
    return Path(output).read_text().splitlines()


def test_a_row_is_scored_alone_as_among_others_to_the_last_bit(here):
    raw_tables.write(here, rows=800, new=60)
    deal(
        bank={"income": "log", "age": {"use": "bin", "bins": 4}, "job": "woe"},
        shop=WOE | {"spent": {"use": "log", "missing": "median"}},
        train=train(2),
    )
    done("run", "deal.yaml", "--state", "run")
    odd = {  # blank cells; then unknown categories, and a mark among numbers
        "new_bank.csv": ["X1,,,,10%,,3 May 2024,,Y,EUR,", 'X2,44,"2,000.00",?,10%,,3 May 2024,astronaut,maybe,EUR,'],
        "new_shop.csv": ["X1;;3;10,0 %;;01.02.2020;;;on;IT", "X2;1,5;3;0,0 %;9;01.02.2020;;Atlantis;never;IT"],
    }
    for file, lines in odd.items():
        Path(file).write_text(Path(file).read_text() + "\n".join(lines) + "\n")
    header, *scores = predict("new_bank.csv", "new_shop.csv")
    assert header == "id,score,decision"
    assert len(scores) == 62
    by_id = {line.split(",")[0]: line for line in scores}
    assert len({line.split(",")[1] for line in scores}) == 62
    names, *people = Path("new_bank.csv").read_text().splitlines()
    for each in ("X1", "X2", scores[0].split(",")[0], scores[33].split(",")[0]):
        (row,) = (line for line in people if line.startswith((f"{each},", f" {each} ,")))
        Path("one.csv").write_text(f"{names}\n{row}\n")
        assert predict("one.csv", "new_shop.csv") == [header, by_id[each]]


# ---- the same table from a frame, from a query, and from a file


def typed(frame, days):
    """The table as a typed source has it: dates are dates."""
    return frame.assign(**{name: pd.Timestamp(0) + pd.to_timedelta(frame[name], unit="D") for name in days})


DAYS = {"bank": ["customer since", "last payment"], "shop": ["first order", "last visit"]}


def of_polars(frame):
    return pl.DataFrame(
        {name: [None if pd.isna(cell) else cell for cell in column.tolist()] for name, column in frame.items()}
    )


def sources(bank, shop):
    """The data of both parties, by the kind of source."""
    frames = {"bank": typed(bank, DAYS["bank"]), "shop": typed(shop, DAYS["shop"])}
    with sqlite3.connect("deal.db") as database:
        for name, frame in frames.items():
            frame.to_sql(name, database, index=False)
    database.close()
    query = {name: {"source": {"url": "sqlite:///deal.db", "query": f"select * from {name}"}} for name in frames}  # noqa: S608
    return {
        "pandas": {name: {"frame": frame} for name, frame in frames.items()},
        "polars": {name: {"frame": of_polars(frame)} for name, frame in frames.items()},
        "sqlite": query,
    }


def test_frames_and_a_query_give_the_model_of_the_csv_files(here):
    raw_tables.write(here, rows=400)
    raw = {"bank": (Path("bank.csv"), ","), "shop": (Path("shop.csv"), ";")}
    frames = {"bank": raw_bank().set_index("customer"), "shop": raw_shop().set_index("card")}
    common = sorted(set(frames["bank"].index) & set(frames["shop"].index))
    for path, delimiter in raw.values():  # the same people in the same order, each file with its own spelling
        header, *lines = path.read_text().splitlines()
        known = {line.split(delimiter)[0].strip(): line for line in lines}
        path.write_text("\n".join([header, *(known[each] for each in common)]) + "\n")
    asked = DEAL | {"align": False, "train": train(2, secret_spread=0)}
    uses = {"bank": {"income": "log", "currency": "drop", "note": "drop"}, "shop": {**WOE, "country": "drop"}}
    given = {name: DEAL["data"][name] | {"columns": columns} for name, columns in uses.items()}
    model = weights(tacit.run(asked | {"data": given}).directory)
    assert len(model) > 20
    others = sources(*(frames[name].loc[common].reset_index() for name in ("bank", "shop")))
    for kind, tables in others.items():
        data = {name: _elsewhere(given[name], table) for name, table in tables.items()}
        outcome = tacit.run(asked | {"data": data})
        assert weights(outcome.directory) == pytest.approx(model, abs=1e-9), kind


def _elsewhere(given, table):
    columns = {name: use for name, use in given["columns"].items() if use != "drop"}
    return {key: value for key, value in given.items() if key != "path"} | {"columns": columns} | table


def weights(run):
    """All weights of both parties, by column and part."""
    return {
        (name, line["column"], line["part"]): float(line["weight (original scale)"])
        for name in ("bank", "shop")
        for line in coefficients(run / name)
    }


# ---- other models


def halves(data, target, names):
    """Two CSV files with a half of the columns each, for 80% of the rows, and two with the rest."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(target))
    cut = 4 * len(rows) // 5
    for old, part in (("", rows[:cut]), ("new_", rows[cut:])):
        frame = pd.DataFrame(data[part], columns=names)
        frame.insert(0, "who", [f"p{row}" for row in part])
        half = 1 + len(names) // 2
        bank = frame.iloc[:, :half]
        bank.insert(1, "y", target[part])
        bank.to_csv(f"{old}bank.csv", index=False)
        frame.iloc[:, [0, *range(half, len(names) + 1)]].to_csv(f"{old}shop.csv", index=False)
    return rows[:cut], rows[cut:]


def of_two(**changes):
    data = {"bank": {"path": "bank.csv"}, "shop": {"path": "shop.csv"}}
    Path("deal.yaml").write_text(json.dumps(DEAL | {"data": data} | changes))


def test_three_classes_by_command(here):
    iris = load_iris()
    species = iris.target_names[iris.target]
    old, new = halves(iris.data, species, iris.feature_names)
    of_two(train=train(20, learning_rate=2.0, test=0.0))
    assert "Classes of 'y': setosa is 0, versicolor is 1, virginica is 2." in done("run", "deal.yaml", "--state", "run")
    header, *scores = predict("new_bank.csv", "new_shop.csv")
    assert header == "id,score,decision,score setosa,score versicolor,score virginica"
    decided = {line.split(",")[0]: line.split(",")[2] for line in scores}
    peer = make_pipeline(StandardScaler(), LogisticRegression()).fit(iris.data[old], species[old])
    ours = np.mean([decided[f"p{row}"] == species[row] for row in new])
    assert ours >= peer.score(iris.data[new], species[new]) - 0.2  # one against the rest after twenty steps
    assert ours > 0.7


def test_numbers_by_command_are_the_sum_of_both_parties_coefficients(here):
    data, target = load_diabetes(return_X_y=True, scaled=False)
    names = load_diabetes().feature_names
    old, new = halves(data, target, names)
    of_two(model="linear", train=train(16, learning_rate=0.4, test=0.0))
    done("run", "deal.yaml", "--state", "run")
    header, *scores = predict("new_bank.csv", "new_shop.csv")
    assert header == "id,score"
    told = {line.split(",")[0]: float(line.split(",")[1]) for line in scores}
    ours = np.array([told[f"p{row}"] for row in new])
    theirs = LinearRegression().fit(data[old], target[old]).predict(data[new])
    assert np.corrcoef(ours, theirs)[0, 1] > 0.97
    told = {column: value for (_, column, _), value in weights(Path("run")).items()}
    raw = told["(intercept)"] + told["(offset of these columns)"] + data[new] @ np.array([told[name] for name in names])
    by_hand = told["(mean of the label)"] + told["(unit of the label)"] * raw
    np.testing.assert_allclose(ours, by_hand, rtol=1e-9)
