from __future__ import annotations

import json

import numpy as np
import pytest

from tacit.config.source import ConfigError
from tacit.kinds.vertical_trees import columns as binned
from tacit.kinds.vertical_trees.columns import Columns
from tacit.kinds.vertical_trees.settings import Data
from tacit.tables.table import TableError, open_rows, open_table

TABLE = """\
id,age,city,income,code
a,30,Rome,"1,5",x
b,,Oslo,"2,5",x
c,40,Rome,"3,5",y
d,50,,"4,5",y
e,60,Oslo,"5,5",z
f,70,Rome,"6,5",x
"""


@pytest.fixture
def table(here):
    (here / "t.csv").write_text(TABLE)

    def opened(**columns):
        given = {"city": {"rare": 2}, "code": {"use": "one_hot", "rare": 2}, **columns}
        data = Data.model_validate({"path": "t.csv", "columns": {"age": {}, "income": {}, **given}})
        return open_table(data, here, label=None), data

    return opened


def fit(found, rows=6, most=4):
    table, data = found
    return binned.fit(table, np.arange(rows), most, data.sign)


def test_numbers_and_categories_become_bins_and_missing_ones_have_their_own(table):
    columns = fit(table())
    assert dict(zip(columns.names, columns.bins.ordered.tolist(), strict=True)) == {
        "age": True, "city": False, "income": True, "code": False,
    }  # fmt: skip
    cells = dict(zip(columns.names, columns.apply(table()[0].cells).T.tolist(), strict=True))
    assert cells["age"] == [0, 3, 0, 1, 2, 2]  # quantiles of 30, 40, 50, 60, 70; the bin of missing ones is the last
    assert cells["city"] == [0, 1, 0, 2, 1, 0]
    assert cells["code"] == [0, 0, 1, 1, 2, 0]  # z comes once, below `rare`
    parts = {column.name: [column.part(number) for number in range(column.bins.bins)] for column in columns.columns}
    assert parts["city"] == ["Rome", "Oslo", "missing or rare"]
    assert parts["code"] == ["x", "y", "missing or rare"]
    assert parts["age"] == ["up to 40", "40 to 50", "above 50", "missing"]


def test_only_the_given_rows_decide_on_bins(table):
    columns = fit(table(), rows=3)
    (age,) = (column for column in columns.columns if column.name == "age")
    assert age.bins.edges == (35.0,)


def test_missing_numbers_are_said_to_stand_apart(table):
    assert "1 missing: own category" in " ".join(table()[0].notes)


def test_a_constant_takes_the_place_of_missing_cells(table):
    columns = fit(
        table(age={"missing": "constant", "value": 65}, city={"missing": "constant", "value": "Rome", "rare": 1})
    )
    cells = dict(zip(columns.names, columns.apply(table()[0].cells).T.tolist(), strict=True))
    assert cells["age"] == [0, 2, 0, 1, 1, 2]
    assert cells["city"] == [0, 1, 0, 0, 1, 0]


def test_monotone_columns_carry_their_sign_and_categories_have_none(table):
    assert fit(table(age={"monotone": "falling"})).signs.tolist() == [-1, 0, 0, 0]
    with pytest.raises(TableError, match=r"t\.csv, column 'city': monotone is for numbers, and it holds categories"):
        table(city={"monotone": "rising", "rare": 2})


def test_missing_cells_are_refused_if_the_file_says_so_with_a_remedy_that_trees_have(table):
    with pytest.raises(TableError, match=r"1 value is missing: .* or set missing to own category$"):
        table(age={"missing": "refuse"})


def test_new_rows_are_read_as_those_of_the_training(table, here):
    columns = fit(table())
    restored = Columns.restore(json.loads(json.dumps(columns.state())))
    assert restored == columns
    (here / "new.csv").write_text('code,income,city,age,id\nz,"2,5",Paris,,n\nx,"9,5",Rome,41,m\n')
    rows = open_rows(Data(path="new.csv", id="id"), here, restored)
    names = restored.names
    cells = [dict(zip(names, row, strict=True)) for row in restored.apply(rows.cells).tolist()]
    assert cells[0] == {"age": 3, "city": 2, "income": 0, "code": 2}  # a city that was not in training
    assert cells[1] == {"age": 1, "city": 0, "income": 2, "code": 0}


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"version": 2, "columns": [], "readings": {}},
        {"version": 1, "columns": [{"name": "x"}], "readings": {}},
        {"version": 1, "columns": [{"name": "x", "use": "numbers", "parts": [2, 1], "filled": None, "sign": 0}],
         "readings": {}},
        {"version": 1, "columns": [{"name": "x", "use": "numbers", "parts": [1] * 300, "filled": None, "sign": 0}],
         "readings": {}},
        {"version": 1, "columns": [{"name": "x", "use": "numbers", "parts": [1], "filled": None, "sign": 2}],
         "readings": {}},
        [],
    ],
)  # fmt: skip
def test_damaged_columns_are_refused(broken):
    with pytest.raises(ValueError, match="the stored columns are damaged"):
        Columns.restore(broken)


def test_a_table_without_columns_is_refused(here):
    (here / "t.csv").write_text("id,x\n" + "".join(f"p{row},1\n" for row in range(9)))
    data = Data(path="t.csv")
    with pytest.raises((ConfigError, ValueError), match="column"):
        binned.fit(open_table(data, here, label=None), np.arange(9), 9, data.sign)
