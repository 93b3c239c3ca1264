"""What a federation on Flower refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

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


@pytest.mark.filterwarnings("ignore")  # of protobuf, while Flower is imported
def test_a_site_with_a_policy_is_refused_because_flower_counts_nothing_for_it(here):
    pytest.importorskip("flwr", reason="needs the extra flower")
    from tacit.flower import apps

    Path("fleet.yaml").write_text("kind: horizontal\ntask: digits\nrounds: 1\nclients: 3\n")
    Path("site.yaml").write_text("policy: {kinds: [horizontal]}\n")
    context = SimpleNamespace(node_config={"tacit-local": str(Path("site.yaml").absolute())}, run_id=1)
    with pytest.raises(ValueError, match="policy: it counts what tacit join pays, and not what Flower asks"):
        apps._node(Path("fleet.yaml"), context)
    Path("site.yaml").write_text("{}\n")
    context.node_config["tacit-client"] = 0
    assert isinstance(apps._node(Path("fleet.yaml"), context), Node)
