"""What a federation on Flower refuses."""

from __future__ import annotations

import pytest

from tacit.flower.fleet import FleetEngine
from tacit.flower.node import Node
from tacit.flower.refused import refuse_record_privacy
from tests.kinds.horizontal.federations import Numbers, settings_for


def test_private_training_needs_a_ledger_that_flower_does_not_keep():
    private = settings_for(train={"privacy": {"epsilon": 3.0}})
    for begin in (
        lambda: refuse_record_privacy(private),
        lambda: Node(private, 0, Numbers(), None),
        lambda: FleetEngine(private, Numbers(), None, None, None),
    ):
        with pytest.raises(ValueError, match=r"train\.privacy: a client on Flower keeps no ledger of its records"):
            begin()
    refuse_record_privacy(settings_for())
