"""Coordinators and clients are made in one place, from settings and a task that were looked at once."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.events import Kept
from tacit.kinds.horizontal.messages import Update, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.simulate.memory import signing_keys
from tacit.kinds.horizontal.task import Fitted
from tests.kinds.horizontal.federations import Numbers, settings_for

SOURCE = Path(tacit.__file__).parent
PARTIES = {"tacit.kinds.horizontal.coordinator": "Coordinator", "tacit.kinds.horizontal.client": "Client"}


def made_in(path: Path) -> set[str]:
    """The parties of a federation that a module makes."""
    tree = ast.parse(path.read_text())
    known = {
        each.asname or each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
        if PARTIES.get(node.module or "") == each.name
    }
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return known & calls


def test_nothing_else_makes_a_coordinator_or_a_client():
    makers = {path.relative_to(SOURCE).as_posix(): made for path in SOURCE.rglob("*.py") if (made := made_in(path))}
    assert makers == {"kinds/horizontal/prepared.py": {"Coordinator", "Client"}}


def test_a_task_is_asked_for_its_model_once():
    class Counting(Numbers):
        asked = 0

        def model(self):
            self.asked += 1
            return super().model()

    task = Counting()
    prepared = Prepared.of(settings_for(), task)
    coordinator = prepared.coordinator(Kept(), lambda: 0.0)
    for identity in range(3):
        prepared.client(identity)
    assert coordinator.layout == prepared.layout
    assert task.asked == 1


def test_a_client_trains_by_the_task_unless_it_is_told_otherwise():
    prepared = Prepared.of(settings_for(), Numbers())
    (own,) = prepared.client(3).receive(Work(0, np.zeros(5)), 0.0)
    (other,) = prepared.client(3, fit=lambda client, model, work: Fitted(model, 7)).receive(Work(0, np.zeros(5)), 0.0)
    assert isinstance(own, Update)
    assert isinstance(other, Update)
    assert own.vector.tolist() == [3.0] * 5
    assert (other.vector.tolist(), other.samples) == ([0.0] * 5, 7)


@pytest.mark.parametrize("mode", ["active", "semi_honest"])
def test_a_coordinator_uses_signing_keys_where_clients_sign(mode):
    settings = settings_for(encrypt={"encrypt_type": "PW_ENCRYPT", "mode": mode})
    public = {client: key.public for client, key in signing_keys(settings).items()}
    assert settings.signs == (mode == "active") == bool(public)
    coordinator = Prepared.of(settings, Numbers()).coordinator(Kept(), lambda: 0.0, identities={0: b"k"} | public)
    assert len(coordinator.begin(0.0)) == 12


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "DP_ENCRYPT"])
def test_without_masks_nobody_signs(encrypt_type):
    assert not settings_for(encrypt={"encrypt_type": encrypt_type, "mode": "active"}).signs
