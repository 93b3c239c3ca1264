"""What an epsilon means in words: no unit but a client is spoken of as one of a federation."""

from __future__ import annotations

import pytest

from tacit.report.promises import against, explained, promised
from tacit.store.reading import Account

PURE = ({"kind": "pure", "count": 1, "epsilon": 1.0},)


def account(unit, relation, view, covers=("model",)):
    return Account(covers, view, unit, relation, 1.0, 0.0, PURE, None, "", "")


@pytest.mark.parametrize("view", ["local", "central", "composed", "of its own"])
@pytest.mark.parametrize("unit", ["record", "vector", "label"])
@pytest.mark.parametrize(
    ("relation", "change"),
    [
        ("replace-one", "for replacing it"),
        ("add-remove", "for adding it or leaving it out"),
        ("zero-out", "for leaving it out"),
    ],
)
def test_a_unit_that_is_no_client_gets_neutral_words(unit, relation, change, view):
    for covers in (("model",), ("model", "scores")):
        (made,) = promised(account(unit, relation, view, covers))
        assert against(made) == f"for each {unit}, {change}, against anyone who sees what was released"
        assert made.what == " and ".join(covers)
        assert "client" not in explained(made)


def test_a_client_is_one_of_a_federation():
    (local,) = promised(account("client", "replace-one", "local", ("updates",)))
    assert against(local).startswith("for each client, for replacing all its data, against everybody who sees")
    (central,) = promised(account("client", "zero-out", "central", ("updates",)))
    assert against(central).startswith("for each client, for leaving its update out of the sums")
    (both,) = promised(account("client", "zero-out", "composed", ("updates", "inference vectors")))
    assert "against the coordinator" in against(both)
