"""`tacit data check`: what it says of tables, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples import raw_tables
from tests.commands import invoke

FILE = {"kind": "vertical_logistic", "parties": {"bank": {"role": "active"}, "shop": {"role": "passive"}}}
BANK = {"path": "bank.csv", "id": "customer", "label": "default"}
SHOP = {"path": "shop.csv", "id": "card"}
FAULTY = """\
customer,default,age,since,grade
1,yes,44,2020-01-01,a
2,no,12x,2020-01-02,b
2,no,51,2020-01-03,a
,no,1e999,2020-01-04,b
5,no,51,someday,a
6,yes,37,2020-01-06,b
7,yes,37,2020-01-06,b
"""


@pytest.fixture(autouse=True)
def files(here):
    raw_tables.write(here, rows=120)
    shared(bank=BANK, shop=SHOP)


def shared(**data):
    Path("deal.yaml").write_text(json.dumps(FILE | {"data": data}))


def check(*arguments):
    return invoke("data", "check", *arguments)


def test_tables_that_can_be_used_end_with_0_and_are_summed_up():
    done = check("deal.yaml")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "bank:"
    assert lines[1] == "bank.csv: 132 rows, 12 columns"
    assert any(line.split()[:3] == ["job", "text", "one_hot"] for line in lines)
    assert any(line.split()[:4] == ["customer", "since", "date", "numeric"] for line in lines)
    assert "warning: bank.csv, column 'currency': it has one value only: it is dropped" in lines
    assert lines[-1] == "120 ids are common to bank, shop"
    assert not list(Path().glob("runs*"))


def test_all_problems_of_a_table_are_told_at_once_with_place_value_and_remedy():
    Path("bank.csv").write_text(FAULTY)
    shared(bank=BANK | {"columns": {"age": "numeric", "since": "numeric"}}, shop=SHOP)
    done = check("deal.yaml")
    assert done.exit_code == 2
    errors = [line for line in done.output.splitlines() if line.startswith("error: bank.csv")]
    for words in (
        "line 5, column 'customer': 1 row has no id",
        "line 4, column 'customer': 1 row has the id of an earlier row with other cells ('2'): keep one, or set",
        "line 3, column 'age': 1 cell is not a number, as the others are ('12x'): correct them, leave them blank",
        "line 5, column 'age': 1 number is infinite",
        "line 6, column 'since': 1 cell is not a date, as the others are ('someday')",
    ):
        assert any(words in line for line in errors), (words, errors)
    run = invoke("run", "deal.yaml")  # refuses the same ones
    assert run.exit_code == 2
    assert all(line.removeprefix("error: ") in run.output for line in errors)


def test_a_party_checks_its_own_table_by_its_own_file(here):
    Path("deal.yaml").write_text(json.dumps(FILE))
    own = here / "own"
    own.mkdir()
    Path("shop.csv").rename(own / "shop.csv")
    (own / "shop.yaml").write_text(json.dumps({"data": SHOP | {"columns": {"city": "woe"}}}))
    done = check("deal.yaml", "--party", "shop", "--local", "own/shop.yaml")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("shop:\n")
    assert any(line.split()[:3] == ["city", "text", "woe"] for line in done.output.splitlines())
    assert "bank" not in done.output
    assert check("deal.yaml", "--party", "shop", "--local", "own/none.yaml").exit_code == 2


def test_a_table_by_itself():
    done = check("shop.csv")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("shop.csv: 132 rows, 10 columns\n")
    Path("shop.csv").write_text("id,x\n1,2\n1,3\n")
    assert check("shop.csv").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.yaml"], "none.yaml"),
        (["none.csv"], "none.csv: there is no such file: correct the path"),
        (["deal.yaml", "--set", "data.bank.path=none.csv"], "none.csv: there is no such file"),
        (["deal.yaml", "--set", "data.bank.label=defaults"], "there is no column 'defaults': did you mean 'default'?"),
        (["deal.yaml", "--party", "post"], "--party is 'post': give bank or shop"),
        (["deal.yaml", "--local", "shop.yaml"], "add --party NAME"),
        (["shop.csv", "--party", "shop"], "shop.csv is a table"),
        (["deal.yaml", "--set", "data.shop.columns.city=wow"], "data.shop.columns"),
    ],
)
def test_mistakes_end_with_2_and_a_sentence(arguments, words):
    done = check(*arguments)
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert "Traceback" not in done.output


def test_a_file_without_tables_says_so():
    Path("deal.yaml").write_text(json.dumps(FILE))
    assert "no table is here" in check("deal.yaml").output
    Path("deal.yaml").write_text(json.dumps(FILE | {"task": "cancer"}))
    assert "there is no table to check" in check("deal.yaml").output
    Path("fleet.yaml").write_text(json.dumps({"kind": "horizontal", "task": "digits", "rounds": 1, "clients": 10}))
    done = check("fleet.yaml")
    assert done.exit_code == 2
    assert "has no tables" in done.output


def test_ids_that_would_match_in_another_spelling_are_advised_about():
    text = Path("shop.csv").read_text().replace("\nC", "\nc").replace("\n C", "\n c")
    Path("shop.csv").write_text(text)
    done = check("deal.yaml")
    assert done.exit_code == 0
    assert "0 ids are common to bank, shop" in done.output
    assert "120 ids would be common instead of 0 if capital letters did not count" in done.output
