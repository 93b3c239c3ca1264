"""A table is opened for a training with all its errors at once, and new rows are read as the training's were."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.tables.settings import Data, Ids
from tacit.tables.table import TableError, checked, open_rows, open_table

HEADER = "id;y;age;income;opened\n"


def bank(rows=60):
    lines = [
        f"p{row:03d};{'yes' if row % 3 else 'no'};{20 + row % 40};1.{row:03d},5;{row % 28 + 1:02d}.01.2024"
        for row in range(rows)
    ]
    return HEADER + "\n".join(lines) + "\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="bank.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return Data(path=name)

    return write


def test_a_table_for_a_training(write, tmp_path):
    table = open_table(write(bank()), tmp_path, label="classes")
    assert table.ids[:2] == ["p000", "p001"]
    assert table.labels.classes == ("no", "yes")
    assert table.labels.codes.tolist() == [int(row % 3 > 0) for row in range(60)]
    assert table.cells["income"].values.tolist() == [1000.5 + row for row in range(60)]
    assert table.cells["opened"].values[0] == 19723  # 2024-01-01
    assert table.readings["income"].decimal == ","
    assert [choice.name for choice in table.choices] == ["age", "income", "opened"]
    assert table.left_out == 0
    assert any("no is 0, yes is 1" in note for note in table.notes)
    features = table.fit(np.arange(30)).apply(table.cells)
    assert features.shape == (60, 3)


def test_paths_are_relative_to_the_folder(write, tmp_path):
    (tmp_path / "deep").mkdir()
    write(bank())
    assert open_table(Data(path="../bank.csv"), tmp_path / "deep", label=None).ids


def test_every_error_is_said_one_a_line_behind_their_number(write, tmp_path):
    text = bank().replace("p004;", "p005;").replace(";31;", ";old;")
    data = write(text)
    with pytest.raises(TableError) as error:
        open_table(data, tmp_path, label="classes")
    first, *rest = str(error.value).splitlines()
    assert first.endswith("bank.csv: 2 problems to correct first")
    assert len(rest) == 2
    assert "line 7, column 'id': 1 row has the id of an earlier row" in rest[0]
    assert "column 'age': 2 cells are not numbers" in rest[1]
    assert isinstance(error.value, ValueError)
    assert [problem.severity for problem in checked(data, tmp_path, "classes").problems] == ["error"] * 2


def test_a_check_raises_nothing(tmp_path):
    found = checked(Data(path="none.csv"), tmp_path, "classes")
    assert [problem.kind for problem in found.problems] == ["file"]
    assert found.contents is None


def test_what_was_chosen_is_one_short_note(write, tmp_path):
    text = HEADER + "".join(f"p{row};{row % 2};{row % 40};EUR;free text {row}\n" for row in range(60))
    notes = open_table(write(text), tmp_path, label="classes").notes
    assert len(notes) == 1
    assert notes[0].startswith("Columns: 1 column: numeric; income: dropped (one value only); opened: dropped (")


@pytest.fixture
def fitted(write, tmp_path):
    return open_table(write(bank()), tmp_path, label="classes").fit(np.arange(60))


def test_new_rows_are_read_by_name_as_the_training_was(write, tmp_path, fitted):
    data = write("opened|income|more|id|age\n01.02.2024|1.234|x|n1|33\n||y|n2|\n", "new.csv")
    rows = open_rows(data.model_copy(update={"id": "id"}), tmp_path, fitted)
    assert rows.ids == ["n1", "n2"]
    assert set(rows.cells) == {"age", "income", "opened"}
    assert rows.cells["income"].values[0] == 1234  # alone it could be 1.234
    assert np.isnan(rows.cells["age"].values[1])
    assert fitted.apply(rows.cells).shape == (2, 3)


def test_a_row_alone_and_among_others_gets_the_same_numbers(write, tmp_path, fitted):
    lines = bank().splitlines()
    whole = fitted.apply(open_rows(write("\n".join(lines), "all.csv"), tmp_path, fitted).cells)
    for row in (0, 31, 59):
        alone = open_rows(write(f"{lines[0]}\n{lines[row + 1]}\n", "one.csv"), tmp_path, fitted)
        assert fitted.apply(alone.cells).tobytes() == whole[row : row + 1].tobytes()


def test_new_rows_that_cannot_be_read(write, tmp_path, fitted):
    data = write("id;age;incme;opened\nx;old;1;01.02.2024\nx;3;1;2024-02-01\n;3;1;01.02.2024\n", "new.csv")
    with pytest.raises(TableError) as error:
        open_rows(data, tmp_path, fitted)
    said = [str(problem).partition("new.csv")[2] for problem in error.value.problems]
    assert said[0].startswith(": there is no column 'income': did you mean 'incme'?")
    assert said[1].startswith(", line 4, column 'id': 1 row has no id")
    assert said[2].startswith(", line 3, column 'id': 1 row has the id of an earlier row")
    assert said[3].startswith(", line 2, column 'age': 1 cell is not a number as in the training's table ('old')")
    assert said[4].startswith(", line 3, column 'opened': 1 cell is not a date")


def test_duplicates_of_new_rows_are_treated_as_in_training(write, tmp_path, fitted):
    data = write("id;age;income;opened\nx;1;1;01.02.2024\nx;3;1;01.02.2024\n", "new.csv")
    rows = open_rows(data.model_copy(update={"ids": Ids(dedupe="first")}), tmp_path, fitted)
    assert rows.ids == ["x"]
    assert rows.cells["age"].values.tolist() == [1]


def test_new_rows_from_another_source(write, tmp_path, fitted):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(
        {"id": [7, 8], "age": [30, None], "income": [1.5, 2], "opened": pandas.to_datetime(["2024-02-01"] * 2)}
    )
    rows = open_rows(Data(frame=frame), tmp_path, fitted)
    assert rows.ids == ["7", "8"]
    assert rows.cells["opened"].values.tolist() == [19754, 19754]
    wrong = frame.assign(opened=[1.0, 2.0])
    with pytest.raises(TableError, match="2 cells are not dates as in the training's table"):
        open_rows(Data(frame=wrong), tmp_path, fitted)


def test_a_table_without_rows(write, tmp_path, fitted):
    with pytest.raises(TableError, match="no rows under the header"):
        open_rows(write("id;age;income;opened\n", "new.csv"), tmp_path, fitted)


def test_sources_of_one_table_agree(tmp_path, write):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    frame = pandas.DataFrame(
        {
            "id": range(60),
            "y": [row % 2 for row in range(60)],
            "a": [row / 3 for row in range(60)],
            "b": [None if row == 7 else float(row % 7) for row in range(60)],
            "day": pandas.date_range("2024-01-01", periods=60),
            "city": ["Rome" if row % 3 else "Oslo" for row in range(60)],
        }
    )
    frame.to_csv(tmp_path / "bank.csv", index=False)
    frame.to_parquet(tmp_path / "bank.parquet", index=False)
    sources = [Data(path="bank.csv"), Data(path="bank.parquet"), Data(frame=frame)]
    first, *others = [open_table(data, tmp_path, label="classes") for data in sources]
    for other in others:
        assert other.ids == first.ids
        assert other.labels.classes == first.labels.classes
        assert other.labels.codes.tolist() == first.labels.codes.tolist()
        for name in ("a", "b", "day"):
            assert np.array_equal(other.cells[name].values, first.cells[name].values, equal_nan=True), name
        assert other.cells["city"].values == first.cells["city"].values
        assert [(each.name, each.use) for each in other.choices] == [(each.name, each.use) for each in first.choices]
