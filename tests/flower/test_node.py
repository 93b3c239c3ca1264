from __future__ import annotations

import pytest

from tacit.flower.node import Node
from tests.kinds.horizontal.federations import settings_for

pytest.importorskip("torch")

from tests.kinds.horizontal.torch_tasks.nets import plain_net, task_of


def test_a_task_that_keeps_values_at_clients_is_refused():
    with pytest.raises(ValueError, match="which a node of Flower does not store"):
        Node(settings_for(), 0, task_of(), None)
    assert Node(settings_for(), 0, task_of(model=plain_net), None).failure is None
