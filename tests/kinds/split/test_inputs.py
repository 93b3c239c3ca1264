"""What a network gets of a table: scikit-learn's numbers, of the training rows only, and the same for a row alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from tacit.kinds.split.inputs import Inputs
from tacit.tables.cells import take
from tacit.tables.settings import Data
from tacit.tables.table import Table, open_table

ROWS = np.arange(0, 90, 2)


@pytest.fixture
def table(tmp_path) -> Table:
    rng = np.random.default_rng(1)
    lines = ["id,amount,flag,city,constant"]
    for row in range(90):
        amount = "" if row % 10 == 3 else f"{rng.lognormal(5):.4f}"
        lines.append(f"p{row},{amount},{row % 3},{'Roma' if row % 4 else 'Bari'},{7 if row % 2 == 0 else row}")
    (tmp_path / "table.csv").write_text("\n".join(lines))
    return open_table(Data(path="table.csv"), tmp_path, label=None)


def test_features_are_those_of_a_standard_scaler_fitted_on_the_training_rows(table):
    inputs = Inputs.fit(table, ROWS)
    plain = inputs.transforms.apply(table.cells)
    expected = StandardScaler().fit(plain[ROWS]).transform(plain)
    varies = plain[ROWS].std(axis=0) > 0
    found = inputs.apply(table.cells)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, varies], expected[:, varies], rtol=0, atol=1e-5)
    (constant,) = np.flatnonzero(~varies)
    assert not found[:, constant].any()  # also in rows where it is another number


def test_a_row_alone_enters_as_the_same_numbers_to_the_last_bit(table):
    inputs = Inputs.restore(Inputs.fit(table, ROWS).state())
    whole = inputs.apply(table.cells)
    for row in range(90):
        alone = inputs.apply({name: take(cells, np.array([row])) for name, cells in table.cells.items()})
        assert alone.tobytes() == whole[row : row + 1].tobytes()


def test_what_was_stored_is_the_same_and_damage_is_noticed(table):
    inputs = Inputs.fit(table, ROWS)
    state = inputs.state()
    again = Inputs.restore(state)
    assert again.apply(table.cells).tobytes() == inputs.apply(table.cells).tobytes()
    with pytest.raises(ValueError, match="has no transforms"):
        Inputs.restore({"mean": state["mean"], "factor": state["factor"]})
    with pytest.raises(ValueError, match="damaged"):
        Inputs.restore({**state, "mean": state["mean"][1:], "factor": state["factor"][1:]})


def test_a_table_of_labels_alone_has_no_width(tmp_path):
    Path(tmp_path / "labels.csv").write_text("id,y\n" + "".join(f"p{row},{row % 2}\n" for row in range(40)))
    table = open_table(Data(path="labels.csv"), tmp_path, label="classes")
    inputs = Inputs.fit(table, np.arange(30))
    assert inputs.width == 0
    assert Inputs.restore(inputs.state()).width == 0
