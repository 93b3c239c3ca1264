"""The owner of a record by a column or a function."""

from __future__ import annotations

import pytest

from tacit.config.owner_column import owner_reader


def test_columns_with_and_without_names():
    assert owner_reader("writer", "privacy.owner")({"image": 0, "writer": "w1"}) == "w1"
    assert owner_reader(1, "privacy.owner")(("image", "writer")) == "writer"
    assert owner_reader("os.path:basename", "privacy.owner")("a/b") == "b"


@pytest.mark.parametrize(
    ("owner", "record", "said"),
    [
        (2, ("image", "writer"), "privacy.owner is column 2, a record has 2 columns"),
        (0, {"image": 1}, "column 0, a record is a dict"),
        ("writer", ("image", "writer"), "a record is a tuple without names"),
        ("doctor", {"image": 1, "writer": 2}, "column 'doctor', records have image, writer"),
    ],
)
def test_a_column_that_is_not_there_is_refused(owner, record, said):
    with pytest.raises(ValueError, match=said):
        owner_reader(owner, "privacy.owner")(record)
