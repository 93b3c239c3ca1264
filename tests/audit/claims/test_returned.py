"""The dictionary of audited code, checked for its keys."""

import pytest

from tacit.audit.claims.returned import keyed


def test_a_dictionary_with_all_needed_keys_is_taken():
    made = {"one": 1, "other": 2, "noise": "gaussian"}
    assert keyed(made, ("one", "other"), ("noise", "scale")) == made


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ([1], "it must return a dictionary with one, other, got list"),
        ({"one": 1}, "what it returns lacks other"),
        ({"one": 1, "other": 2, 3: 4}, "what it returns has unknown keys 3: known are one, other, noise"),
    ],
)
def test_what_is_wrong_with_it_is_told(made, told):
    with pytest.raises(ValueError, match=f"^{told}$"):
        keyed(made, ("one", "other"), ("noise",))
