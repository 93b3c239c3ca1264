"""Each client of the fleet has a TLS connection of its own, and all of them are in the round."""

from __future__ import annotations

import pytest

from bench.fleet import PATIENT, measured


@pytest.mark.parametrize(
    ("clients", "mode"),
    [
        (12, "active"),
        pytest.param(1000, "semi_honest", marks=pytest.mark.slow),  # about a minute on two processors
    ],
)
def test_a_fleet_holds_a_masked_round(clients, mode):
    """Clients of one address, with the default limit of 64 that are not known yet: the others come again."""
    _, seconds, memory, descriptors = measured(clients, mode, PATIENT)
    assert seconds > 0
    assert descriptors >= 3 * clients  # no connection is shared
    assert memory < 1_500_000_000
