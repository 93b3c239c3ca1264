from __future__ import annotations

import pytest

from tacit.events import Kept
from tacit.kinds.horizontal.simulate.choose import engine_for
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tests.kinds.horizontal.federations import settings_for

pytest.importorskip("torch")

from tests.kinds.horizontal.torch_tasks.nets import task_of


def test_what_clients_keep_is_not_lost_on_ray_but_refused():
    with pytest.raises(ValueError, match=r"engine\.kind is ray, and the task keeps parameters or buffers"):
        engine_for(settings_for(engine={"kind": "ray"}), task_of(), Kept())
    assert isinstance(engine_for(settings_for(), task_of(), Kept()), MemoryEngine)
