"""All transforms of a table: fitted on training rows only, stored as JSON, and the same for a row alone."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, OneHotEncoder, StandardScaler

from examples.raw_tables import MONTHS, messy
from tacit.tables.cells import MISSING, Numbers, Reading, Texts, take
from tacit.tables.choose import choose
from tacit.tables.evidence import Woe
from tacit.tables.fitted import Feature, Fitted, fit
from tacit.tables.settings import Column

USES = {"age": "bin", "income": "log", "job": "woe", "debt": "woe"}


def table(rows=600, seed=0):
    """Cells of a table, and labels."""
    rng = np.random.default_rng(seed)
    ages = np.where(rng.random(rows) < 0.1, np.nan, rng.integers(18, 80, rows))
    cells = {
        "age": Numbers(ages),
        "income": Numbers(np.where(rng.random(rows) < 0.1, np.nan, rng.lognormal(8, 1, rows))),
        "city": Texts(rng.choice(["Rome", "Oslo", "Bari", "", "rare"], rows, p=[0.4, 0.3, 0.2, 0.08, 0.02]).tolist()),
        "job": Texts(rng.choice(["cook", "clerk", "nurse"], rows).tolist()),
        "debt": Numbers(np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows))),
        "since": Numbers(rng.integers(9000, 19_000, rows).astype(float), "date"),
        "currency": Texts(["EUR"] * rows),
    }
    return cells, (rng.random(rows) < 0.4).astype(np.int64)


def choices(cells, **uses):
    return [choose(name, column, Column(use=(USES | uses).get(name))) for name, column in cells.items()]


def fitted(rows=600, training=400, labelled=True):
    cells, labels = table(rows)
    readings = {name: Reading("number" if isinstance(column, Numbers) else "text") for name, column in cells.items()}
    return fit(choices(cells), cells, readings, np.arange(training), labels[:training] if labelled else None)


def stored(of):
    return Fitted.restore(json.loads(json.dumps(of.state())))


def row_of(cells, row):
    return {name: take(column, np.array([row])) for name, column in cells.items()}


def test_features_have_names_that_people_read():
    assert Feature("city", "one_hot", "Rome").name == "city = Rome"
    assert Feature("age", "bin", "12 to 30").name == "age: 12 to 30"
    assert Feature("age", "log").name == "age"
    found = fitted()
    assert found.names == ("age", "income", "city", "job", "debt", "since")
    assert [feature.name for feature in found.features if feature.column != "age"] == [
        "income", "city = Bari", "city = Oslo", "city = Rome", "city = other", "job", "debt", "since",
    ]  # fmt: skip
    assert [feature.use for feature in found.features][-4:] == ["one_hot", "woe", "woe", "numeric"]


def test_the_matrix_has_a_column_for_each_feature():
    cells, _ = table()
    found = fitted()
    features = found.apply(cells)
    assert features.shape == (600, len(found.features))
    assert features.flags.c_contiguous
    names = [feature.name for feature in found.features]
    assert features[:, names.index("city = Rome")].tolist() == [float(text == "Rome") for text in cells["city"].values]
    assert features[:, names.index("since")].tolist() == cells["since"].values.tolist()
    assert np.isfinite(features).all()


def test_only_the_training_rows_are_looked_at():
    cells, labels = table()
    other = {
        name: Texts(column.values[:400] + ["new"] * 200)
        if isinstance(column, Texts)
        else Numbers(np.r_[column.values[:400], np.full(200, 1e9)], column.kind)
        for name, column in cells.items()
    }
    rows = np.random.default_rng(1).permutation(400)
    chosen = choices(cells)
    first, second = (fit(chosen, each, {}, rows, labels[rows]) for each in (cells, other))
    assert first == second
    assert first == fit(chosen, cells, {}, np.arange(400), labels[:400])  # in any order
    assert first != fit(chosen, cells, {}, np.arange(500), labels[:500])


def test_what_is_stored_is_json_and_the_same_to_the_last_bit():
    cells, _ = table()
    found = fitted()
    again = stored(found)
    assert again == found
    assert again.apply(cells).tobytes() == found.apply(cells).tobytes()
    assert again.readings["age"] == Reading("number")
    assert "currency" not in again.readings
    assert found.state()["version"] == 1


def test_a_row_becomes_the_same_alone_and_among_others():
    cells, _ = table()
    kept = stored(fitted())
    among = kept.apply(cells)
    for row in range(600):
        assert kept.apply(row_of(cells, row)).tobytes() == among[row].tobytes()


numbers = st.floats(-1e100, 1e100) | st.just(math.nan)
words = st.sampled_from(["", "a", "b", "c", "other"])
people = st.lists(st.tuples(numbers, numbers, words, words, numbers, numbers, words), min_size=1, max_size=12)
CELLS, _ = table()
KEPT = fitted()


def columns_of(rows):
    """Cells of these rows, as those of the table are."""
    columns = dict(zip(CELLS, zip(*rows, strict=True), strict=True))
    return {
        name: Texts(list(columns[name]))
        if isinstance(column, Texts)
        else Numbers(np.array(columns[name], float), column.kind)
        for name, column in CELLS.items()
    }


@given(people, st.randoms())
@settings(max_examples=50)
def test_no_row_depends_on_others_or_on_their_order(new, random):
    order = random.sample(range(len(new)), len(new))
    kept = KEPT.apply(columns_of(new))
    shuffled = stored(KEPT).apply(columns_of([new[place] for place in order]))
    assert shuffled.tobytes() == kept[order].tobytes()


def test_a_table_without_columns_to_learn_from_has_rows_all_the_same():
    cells = {"currency": Texts(["EUR"] * 9)}
    empty = fit([choose("currency", cells["currency"], Column())], cells, {}, np.arange(9))
    assert empty.apply(cells).shape == (9, 0)
    assert stored(empty) == empty


def test_what_is_refused_is_said_with_its_column():
    cells, labels = table()
    with pytest.raises(ValueError, match="no column city, debt, which the model needs"):
        fitted().apply({name: column for name, column in cells.items() if name not in ("city", "debt")})
    with pytest.raises(ValueError, match=r'column age: row 1 holds "\?"'):
        fitted().apply(row_of(cells, 0) | {"age": Texts(["?"])})
    with pytest.raises(ValueError, match="columns of 1 and 600 rows"):
        fitted().apply(cells | {"age": Numbers(np.zeros(1))})
    with pytest.raises(ValueError, match="no training rows"):
        fit(choices(cells), cells, {}, np.array([], dtype=np.int64))
    with pytest.raises(ValueError, match="column age: training rows go from 0 to 600, and the table has 600"):
        fit(choices(cells), cells, {}, np.arange(601))
    with pytest.raises(ValueError, match="3 labels for 400 training rows"):
        fit(choices(cells), cells, {}, np.arange(400), labels[:3])
    empty = Numbers(np.r_[np.full(5, np.nan), 1.0, 2.0])
    with pytest.raises(ValueError, match="column x: has no value in the training rows: drop it"):
        fit([choose("x", empty, Column())], {"x": empty}, {}, np.arange(5))


@pytest.mark.parametrize("use", ["numeric", "log", "bin", "one_hot", "woe"])
def test_refuse_names_the_row_of_the_table(use):
    column = Numbers(np.r_[np.arange(99.0), np.nan, 5])
    choice = choose("x", column, Column(use=use, missing="refuse"))
    with pytest.raises(ValueError, match="column x: row 100 has no value"):
        fit([choice], {"x": column}, {}, np.arange(50, 101), np.arange(51) % 2)
    kept = fit([choice], {"x": column}, {}, np.arange(99), np.arange(99) % 2)
    with pytest.raises(ValueError, match="column x: row 100 has no value"):
        kept.apply({"x": column})


def test_weight_of_evidence_waits_for_labels_of_another_party():
    cells, labels = table()
    waiting = fitted(labelled=False)
    assert list(waiting.waiting) == ["job", "debt"]
    assert waiting.features == fitted().features
    for use in (waiting.state, lambda: waiting.apply(cells)):
        with pytest.raises(ValueError, match="column job: its labels have not been counted yet"):
            use()
    merged = waiting.waiting["debt"].merge([True] + [False] * (waiting.waiting["debt"].count - 1))
    groupings = {"job": waiting.waiting["job"], "debt": merged}
    counts = {
        name: (each, np.bincount(each.numbers, labels[:400], each.count).astype(np.int64))
        for name, each in groupings.items()
    }
    counted = waiting.with_counts(counts)
    assert not counted.waiting
    assert len(counted.groups["debt"]) == merged.count
    assert counted.columns[3] == fitted().columns[3]  # as the party with the labels would have it
    assert stored(counted).apply(cells).shape == (600, len(counted.features))
    assert list(waiting.with_counts({"job": counts["job"]}).waiting) == ["debt"]
    with pytest.raises(ValueError, match="column age: it does not wait"):
        waiting.with_counts({"age": counts["job"]})
    with pytest.raises(ValueError, match="column job: counts of shape"):
        waiting.with_counts({"job": (groupings["job"], np.array([9]))})


def test_groups_and_information_of_weight_of_evidence():
    found = fitted()
    assert [part for part, _, _ in found.groups["job"]] == ["clerk", "cook", "nurse"]
    assert sum(rows for _, _, rows in found.groups["debt"]) == 400
    assert found.information.keys() == found.groups.keys() == {"job", "debt"}
    assert all(value > 0 for value in found.information.values())
    assert found.notes == ()


def test_a_column_that_tells_nothing_is_said():
    cells = {"x": Texts(["a"] * 30 + ["b"] * 30)}
    found = fit([choose("x", cells["x"], Column(use="woe"))], cells, {}, np.arange(60), np.arange(60) % 2)
    assert found.notes == (
        "column x: one group of rows is left, so its weight of evidence is 0 and it has no effect: drop it",
    )
    assert found.apply(cells).tolist() == [[0.0]] * 60


@pytest.mark.parametrize("labels", [np.arange(400) % 3, np.ones(400, int), np.linspace(0, 1, 400)])
def test_weight_of_evidence_needs_two_classes(labels):
    cells, _ = table()
    with pytest.raises(ValueError, match="column job: woe needs two classes"):
        fit(choices(cells), cells, {}, np.arange(400), labels)
    without = choices(cells, job="one_hot", debt="numeric")
    assert not fit(without, cells, {}, np.arange(400), labels).waiting


def changed(change):
    state = json.loads(json.dumps(KEPT.state()))
    change(state)
    return state


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.update(version=2),
        lambda state: state.update(version=True),
        lambda state: state.update(more=1),
        lambda state: state.pop("readings"),
        lambda state: state.update(columns="abc"),
        lambda state: state.update(columns=[1]),
        lambda state: state.update(columns=[{}] * 100_001),
        lambda state: state.update(readings=[]),
        lambda state: state["columns"].append(state["columns"][0]),
        lambda state: state["columns"][0].pop("name"),
        lambda state: state["columns"][0].update(name=7),
        lambda state: state["columns"][0].update(name="n" * 10_001),
        lambda state: state["columns"][0].update(use="drop"),
        lambda state: state["columns"][0].update(use=["bin"]),
        lambda state: state["columns"][0].update(use="numeric"),
        lambda state: state["columns"][0].update(more=1),
        lambda state: state["columns"][0]["quantiles"].update(edges=[2.0, 1.0]),
        lambda state: state["columns"][2].update(categories=["a"]),
        lambda state: state["columns"][2]["fill"].pop("value"),
        lambda state: state["readings"].update(other=state["readings"].pop("age")),
        lambda state: state["readings"]["age"].update(kind="colour"),
        lambda state: state["readings"]["age"].pop("kind"),
        lambda state: state["readings"]["age"].update(thousands="x"),
        lambda state: state["readings"]["age"].update(kind="date", date="%Q"),
        lambda state: state["readings"].update(age=7),
    ],
)
def test_a_damaged_state_is_refused(change):
    with pytest.raises(ValueError, match="the stored transforms are damaged: "):
        Fitted.restore(changed(change))


@pytest.mark.parametrize("state", [None, [], 7, "x", {}])
def test_something_else_is_no_state(state):
    with pytest.raises(ValueError, match="the stored transforms are damaged: "):
        Fitted.restore(state)


def test_states_that_would_make_too_many_features_are_refused():
    column = {"use": "one_hot", "fill": {"how": "refuse", "value": None}, "other": False}
    wide = {**column, "categories": [str(number) for number in range(10_000)], "rows": [1] * 10_000}
    columns = [{**wide, "name": str(number)} for number in range(11)]
    with pytest.raises(ValueError, match="the columns make 110000 features, at most 100000"):
        Fitted.restore({"version": 1, "columns": columns, "readings": {}})


# ---- two messy tables, read here by a few lines of plain Python


def read(text, delimiter, decimal):
    """CSV as cells, by id. Numbers lose separators and %, dates are days."""
    header, *lines = csv.reader(io.StringIO(text), delimiter=delimiter)
    lines.sort(key=lambda line: line[0].strip())
    ids = [line[0].strip() for line in lines]
    columns = {name: [line[place].strip() for line in lines] for place, name in enumerate(header) if place}
    columns = {name: ["" if v.lower() in MISSING else v for v in values] for name, values in columns.items()}
    return ids, {name: _typed(values, decimal) for name, values in columns.items()}


def _typed(values, decimal):
    thousands = "," if decimal == "." else "."

    def number(text):
        return float(text.rstrip(" %").replace(thousands, "").replace(decimal, ".")) if text else math.nan

    for convert, kind in ((_day, "date"), (number, "number")):
        try:
            return Numbers(np.array([convert(value) for value in values]), kind)
        except ValueError:
            continue
    return Texts(values)


def _day(text):
    if not text:
        return math.nan
    if text[:4].isdigit():
        day = date.fromisoformat(text)
    elif " " in text:
        number, month, year = text.split()
        day = date(int(year), MONTHS.index(month) + 1, int(number))
    else:
        number, month, year = map(int, text.replace(".", "/").split("/"))
        day = date(year, month, number)
    return (day - date(1970, 1, 1)).days


def joined(rows=5000, seed=0):
    """Both tables' cells of common people in one order, and the labels."""
    bank_text, shop_text, truth = messy(rows, seed)
    tables = [read(bank_text, ",", "."), read(shop_text, ";", ",")]
    known = dict(zip(truth.ids, truth.labels.tolist(), strict=True))
    cells = {}
    for ids, columns in tables:
        common = np.array([place for place, each in enumerate(ids) if each in known])
        cells |= {name: take(column, common) for name, column in columns.items()}
    labels = np.array([known[each] for each in sorted(known)])
    assert cells.pop("default").values == ["yes" if label else "no" for label in labels]
    return cells, labels


def test_messy_tables_are_the_same_for_a_seed_and_have_what_real_ones_have():
    bank, shop, truth = messy(1000, 3)
    assert (bank, shop) == messy(1000, 3)[:2]
    assert bank != messy(1000, 4)[0]
    assert 0.75 < roc_auc_score(truth.labels, truth.probabilities) < 0.85
    ids = [
        [line.split(delimiter)[0] for line in text.splitlines()[1:]] for text, delimiter in ((bank, ","), (shop, ";"))
    ]
    assert all(any(each != each.strip() for each in column) and column != sorted(column) for column in ids)
    first, second = ({each.strip() for each in column} for column in ids)
    assert (first & second, len(first), len(second)) == (set(truth.ids), 1100, 1100)
    assert "n/a" in bank
    assert ",," in bank


def test_messy_tables_are_chosen_sensibly():
    cells, _ = joined()
    chosen = {choice.name: choice for choice in (choose(name, column, Column()) for name, column in cells.items())}
    uses = {name: choice.use for name, choice in chosen.items()}
    assert {name for name, use in uses.items() if use == "drop"} == {"currency", "country", "note"}
    assert {name for name, use in uses.items() if use == "one_hot"} == {"job", "home owner", "city", "newsletter"}
    assert chosen["job"].said.startswith("13 categories, ")
    assert chosen["first order"].said == "days since 1970-01-01"


def test_messy_tables_train_as_scikit_learns_pipeline_does():
    cells, labels = joined()
    uses = {"income": "log", "spent": "log", "debt": "bin"}
    chosen = [choose(name, column, Column(use=uses.get(name))) for name, column in cells.items()]
    training, held_out = np.arange(4000), np.arange(4000, 5000)
    found = stored(fit(chosen, cells, {}, training))
    ours = found.apply(cells)
    steps, data = [], {}
    logarithm = FunctionTransformer(lambda values: np.sign(values) * np.log1p(np.abs(values)))
    for choice in chosen:
        column = cells[choice.name]
        data[choice.name] = np.array(column.values, dtype=float if isinstance(column, Numbers) else object)[:, None]
    for choice in chosen:
        step = {
            "numeric": SimpleImputer(),
            "log": make_pipeline(SimpleImputer(), logarithm),
            "bin": KBinsDiscretizer(10, encode="onehot-dense", quantile_method="linear"),
            "one_hot": OneHotEncoder(min_frequency=20, sparse_output=False, drop="if_binary"),
        }.get(choice.use)
        if step is not None:
            steps.append(step.fit(data[choice.name][training]).transform(data[choice.name]))
    theirs = np.hstack(steps)

    def auc(features):
        scaled = StandardScaler().fit(features[training]).transform(features)
        model = LogisticRegression(max_iter=1000).fit(scaled[training], labels[training])
        return roc_auc_score(labels[held_out], model.decision_function(scaled[held_out]))

    assert abs(auc(ours) - auc(theirs)) < 0.002
    assert auc(ours) > 0.75


def test_weight_of_evidence_of_messy_tables_rises_with_what_raises_the_risk():
    cells, labels = joined()
    chosen = [choose(name, cells[name], Column(use="woe")) for name in ("job", "city", "late payments", "limit used")]
    found = fit(chosen, cells, {}, np.arange(4000), labels[:4000])
    assert all(isinstance(column.transform, Woe) for column in found.columns)
    assert found.information["late payments"] > 0.05
    values = [value for _, value, _ in found.groups["limit used"]]
    assert values[-1] > 0 > values[0]
