"""What `tacit status` prints of what a party told."""

from __future__ import annotations

import pytest

from tacit.cli.status import lines

TOLD = {
    "version": "1.0", "kind": "vertical_logistic", "party": "bank", "state": "running", "ready": True, "round": None,
    "rounds": None, "stage": None, "epoch": 2, "epochs": 20, "step": None, "steps": None, "connected": None,
    "needed": None, "epsilon": {}, "delta": {}, "budget": None, "left": {}, "last_success": None, "started": None,
    "certificates": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "words"),
    [("vertical_logistic", "epoch"), ("vertical_trees", "round"), ("of another environment", "epoch")],
)
def test_how_far_it_is_is_told_as_the_kind_counts(kind, words):
    told = dict(lines({**TOLD, "kind": kind}))
    assert told[words] == "2 of 20"
    assert len(told.keys() & {"epoch", "round"}) == 1
