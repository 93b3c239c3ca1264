"""One pass finds every problem of a table, each with its place, value and remedy, and a summary of its columns."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.tables.cells import Numbers, Raw, Texts
from tacit.tables.check import check, lines
from tacit.tables.files import read_file
from tacit.tables.settings import Data


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "bank.csv"
        path.write_text(text, encoding="utf-8")
        return read_file(path)

    return write


def csv(*columns, rows=60):
    """A table of this many rows; a column is a name and a function of the row's number."""
    header = ",".join(name for name, _ in columns)
    return "\n".join([header, *(",".join(str(cell(row)) for _, cell in columns) for row in range(rows))]) + "\n"


ID = ("id", lambda row: f"p{row:03d}")
Y = ("y", lambda row: row % 2)
AGE = ("age", lambda row: 20 + (row * 7) % 50)


def found(raw, wanted="classes", **options):
    return check(raw, Data(path="bank.csv", **options), wanted)


def kinds(checked):
    return sorted((problem.kind, problem.column) for problem in checked.problems)


def test_a_clean_table_has_no_problems(table):
    checked = found(table(csv(ID, Y, AGE)))
    assert checked.problems == ()
    assert checked.rows == 60
    assert checked.contents.ids[:2] == ["p000", "p001"]
    assert list(checked.contents.cells) == ["age"]


def test_none_is_a_category_or_a_class_and_no_number(table):
    raw = table(
        csv(
            ID,
            ("guarantor", lambda row: ["none", "parent"][row % 2]),
            ("claims", lambda row: "none" if row % 20 == 0 else row % 7),
            ("y", lambda row: ["none", "some", "None"][row % 3]),
        )
    )
    checked = found(raw, label="y")
    assert not checked.errors
    assert checked.rows == 40  # of those with a label
    assert checked.contents.labels.classes == ("none", "some")
    uses = {each.name: (each.kind, each.use, each.missing) for each in checked.summary}
    assert uses["guarantor"] == ("text", "one_hot", 0)
    assert uses["claims"] == ("number", "numeric", 2)
    assert any("taken as missing" in str(problem) for problem in checked.problems if problem.column == "claims")


def test_a_label_that_is_a_number_is_summed_up_as_one(table):
    raw = table(csv(ID, ("y", lambda row: "" if row == 3 else f"{row * 1000}.5"), AGE))
    shown = lines(found(raw, "number"))
    assert shown[3].split() == ["y", "number", "label", "0", "59", "0.5", "59000.5"]
    assert lines(found(table(csv(ID, Y, AGE))))[3].split() == ["y", "text", "label", "0", "2", "0", "50%"]


def test_all_problems_are_found_at_once(table):
    text = csv(
        ID,
        Y,
        ("income", lambda row: {3: "much", 9: "1e999", 13: "?"}.get(row, f"{row * 1000 + 1}.5")),
        ("opened", lambda row: "soon" if row == 5 else f"2024-01-{row % 28 + 1:02d}"),
        ("gone", lambda row: ""),
        ("same", lambda row: "EUR"),
        ("paid", lambda row: "late" if row % 2 else "early"),
        ("note", lambda row: f"text number {row}"),
    )
    text = text.replace("p010,", "p011,").replace("p020,", ",").replace("p030,0,", "p030,0,extra,")
    checked = found(table(text), columns={"incme": "numeric"})
    assert kinds(checked) == sorted(
        [
            ("width", ""),
            ("column", ""),
            ("blank id", "id"),
            ("id twice", "id"),
            ("infinite", "income"),
            ("unread", "income"),
            ("mark", "income"),
            ("unread", "opened"),
            ("empty", "gone"),
            ("constant", "same"),
            ("tells", "paid"),
            ("text", "note"),
        ]
    )
    assert checked.contents is None
    said = "\n".join(map(str, checked.errors))
    assert (
        "line 5, column 'income': 1 cell is not a number, as the others are ('much'): correct them, leave them" in said
    )
    assert "there is no column 'incme': did you mean 'income'?" in said
    assert "line 7, column 'opened': 1 cell is not a date" in said


def test_the_first_three_places_and_the_count(table):
    checked = found(
        table(
            csv(
                ID,
                Y,
                (
                    "a",
                    lambda row: "x" if row % 20 == 3 else row / 2,
                ),
                rows=100,
            )
        )
    )
    (problem,) = checked.errors
    assert (problem.place, problem.count) == ("lines 5, 25 and 45", 5)
    assert "5 cells are not numbers" in str(problem)


def test_a_column_that_is_not_used_is_no_problem(table):
    text = csv(ID, Y, AGE, ("odd", lambda row: "x" if row == 3 else row))
    assert kinds(found(table(text))) == [("unread", "odd")]
    assert found(table(text), columns=("age",)).problems == ()
    assert found(table(text), columns={"odd": "drop"}).problems == ()
    assert found(table(text), columns={"odd": "one_hot"}).errors == ()


def test_a_use_decides_how_a_column_is_read(table):
    text = csv(ID, Y, AGE, ("code", lambda row: "A" if row % 3 == 0 else row % 4))
    assert isinstance(found(table(text)).contents.cells["code"], Texts)
    (problem,) = found(table(text), columns={"code": "numeric"}).errors
    assert (problem.kind, problem.count) == ("unread", 20)
    (problem,) = found(table(csv(ID, Y, AGE, ("c", lambda row: "ab"[row // 3 % 2]))), columns={"c": "log"}).errors
    assert problem.kind == "use"
    assert "one_hot" in problem.remedy


def test_missing_values_that_are_refused(table):
    text = csv(ID, Y, AGE, ("a", lambda row: "" if row in (4, 8) else row % 9))
    assert found(table(text)).errors == ()
    (problem,) = found(table(text), missing="refuse").errors
    assert (problem.kind, problem.place, problem.column) == ("missing", "lines 6 and 10", "a")
    (problem,) = found(table(text), columns={"a": {"missing": "refuse"}}).errors
    assert problem.count == 2


def test_rows_that_are_left_out_have_no_problems_and_places_stay_those_of_the_file(table):
    text = csv(ID, ("y", lambda row: "" if row == 3 else row % 2), ("a", lambda row: "x" if row in (3, 50) else row))
    checked = found(table(text), columns={"a": "numeric"})
    assert [(problem.kind, problem.place) for problem in checked.problems] == [
        ("no label", "line 5"),
        ("unread", "line 52"),
    ]
    assert checked.rows == 59
    text = csv(ID, ("y", lambda row: "" if row == 3 else row % 2), ("a", lambda row: "" if row in (3, 8) else row % 9))
    assert [problem.place for problem in found(table(text), missing="refuse").errors] == ["line 10"]
    text = csv(ID, ("y", lambda row: "" if row == 3 else row % 2), AGE)
    contents = found(table(text)).contents
    assert (len(contents.ids), len(contents.cells["age"]), contents.left_out) == (59, 59, 1)
    assert contents.ids[3] == "p004"
    assert contents.cells["age"].values[3] == 20 + 28
    assert contents.labels.codes[3] == 0


def test_one_class_and_no_rows(table):
    assert kinds(found(table(csv(ID, ("y", lambda row: 1), AGE)))) == [("one class", "y")]
    assert kinds(found(table("id,y,a\n"))) == [("no rows", "")]


def test_infinite_numbers_of_a_typed_source():
    columns = (Texts(["x", "y"]), Numbers(np.array([1, np.inf])))
    raw = Raw("the frame", ("id", "a"), columns, lambda row: f"row {row + 1}")
    (problem,) = check(raw, Data(frame=0), None).errors
    assert str(problem).startswith("the frame, row 2, column 'a': 1 number is infinite ('inf')")


def test_a_column_tells_in_what_way_another_is_written(table):
    text = csv(
        ("id", lambda row: f"p{row}"),
        ("price", lambda row: f'"{row},5"'),
        ("sum", lambda row: f"{row + 1}.{row:03d}"),
        ("rate", lambda row: f'"1,{row:03d}"'),
    )
    checked = found(table(text), None)
    assert checked.contents.cells["sum"].values[7] == 8007
    assert checked.contents.cells["rate"].values[7] == 1.007
    alone = found(table(text), None, columns=("sum",))
    assert alone.contents.cells["sum"].values[7] == 8.007


def test_roles(table):
    raw = table("y,who,a\n0,x,1\n1,y,2\n")
    assert found(raw, id="who").contents.labels.codes.tolist() == [0, 1]
    assert list(found(raw, None, id="who").contents.cells) == ["y", "a"]
    assert list(found(raw, None, id="who", label="y").contents.cells) == ["a"]
    assert found(raw, None, id=("who", "a")).contents.ids[0] != "x"
    assert [problem.what for problem in found(raw, id="who", label="who").errors] == [
        "the column 'who' cannot hold both ids and labels"
    ]
    assert "neither the ids nor the labels" in found(raw, id="who", columns=("a", "a")).errors[0].what
    assert "no column 'name'" in found(raw, id="name").errors[0].what
    assert "labels are the second column" in found(table("id\nx\n")).errors[0].what


def test_the_lines_of_a_terminal(table):
    text = csv(
        ID,
        Y,
        AGE,
        ("city", lambda row: ["Rome", "Oslo", ""][row % 3]),
        ("day", lambda row: f"2024-01-{row % 9 + 1:02d}"),
    )
    shown = lines(found(table(text)))
    assert shown[0].endswith("bank.csv: 60 rows, 5 columns")
    assert shown[1].split() == ["column", "kind", "use", "missing", "distinct", "least", "largest", "commonest"]
    rows = {line.split()[0]: line.split()[1:] for line in shown[2:7]}
    assert rows["id"] == ["text", "id", "0", "60"]  # no id is shown
    assert rows["age"] == ["number", "numeric", "0", "50", "20", "69"]
    assert rows["city"] == ["text", "one_hot", "20", "2", "Rome", "33%"]
    assert rows["day"] == ["date", "numeric", "0", "9", "2024-01-01", "2024-01-09"]
    assert shown[-1] == "0 errors, 0 warnings"
    assert "text number" not in "\n".join(
        lines(found(table(csv(ID, Y, AGE, ("note", lambda row: f"text number {row}")))))
    )
    broken = lines(found(table(csv(ID, Y, AGE, ("a", lambda row: "x" if row == 1 else row)))))
    assert [line.partition(":")[0] for line in broken[-2:]] == ["error", "1 error, 0 warnings"]


def test_names_and_cells_start_no_line_and_steer_no_terminal(table):
    text = 'id,y,"a\n\x1b[2Jb"\n' + "".join(f"p{row},{row % 2},{row}\n" for row in range(59)) + 'q,1,"x\n\x1b[2J"\n'
    checked = found(table(text))
    assert len(checked.errors) == 1
    assert all(line.isprintable() for line in lines(checked))


def test_twenty_thousand_columns_are_checked_without_comparing_each_with_each():
    """Names are looked up, not searched for: a search would look at 20,000² / 2 of them."""
    names = [f"c{number}" for number in range(20_000)]

    class Counting(str):
        compared = 0

        def __eq__(self, other):
            Counting.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    columns = tuple(Numbers(np.array([1.0, 2.0])) for _ in range(len(names) + 2))
    every = tuple(map(Counting, ("id", "y", *names)))
    raw = Raw("bank.csv", every, columns, lambda row: f"line {row + 2}")
    assert found(raw).contents is not None
    assert Counting.compared < 50 * len(names)
