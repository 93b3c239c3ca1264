from __future__ import annotations

import pytest

from tests.kinds.horizontal.federations import finished, run, settings_for


@pytest.mark.parametrize("encrypt_type", ["NOT_ENCRYPT", "PW_ENCRYPT"])
def test_a_pool_of_processes_gives_the_same_model(encrypt_type):
    common = {"clients": 10, "rounds": 2, "encrypt": {"encrypt_type": encrypt_type}}
    here, _ = run(settings_for(**common, simulation={"dropout": 0.2}))
    pooled, kept = run(settings_for(**common, simulation={"dropout": 0.2, "workers": 2}))
    for name, array in here.coordinator.model.items():
        assert (array == pooled.coordinator.model[name]).all()
    assert len(finished(kept)) == 2
