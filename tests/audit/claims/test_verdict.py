"""The verdict on a claim, from the three numbers."""

import math

import pytest

from tacit.audit.claims.verdict import Recomputed, Row
from tacit.audit.finding import LowerBound
from tacit.dp.claim import Claim


def row(claimed, recomputed=None, measured=(), broken=()):
    bounds = tuple(LowerBound(each, 1e-5, 0.95, "test", 100) for each in measured)
    exact = None if recomputed is None else Recomputed(recomputed[0], recomputed[1], "test")
    return Row(Claim(claimed, 1e-5, "record", "add-remove"), exact, bounds, broken)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (row(1.0, (1.0, 1.0), [0.8]), "holds"),
        (row(1.0, (1.005, 1.005), [0.8]), "holds"),  # accountants differ
        (row(1.0, (1.0, 1.0), [0.8, 1.1]), "refuted"),
        (row(1.0, (2.0, 2.0), [0.8]), "refuted"),
        (row(1.0, (math.inf, math.inf)), "refuted"),
        (row(1.0, (2.0, 0.5), [0.8]), "not proved"),
        (row(1.0, None, [0.8]), "not refuted"),
        (row(1.0, None, [0.8], ("not Poisson",)), "not proved"),
        (row(1.0, (0.9, 0.5), [0.8], ("not Poisson",)), "holds"),  # recomputed without what is broken
    ],
)
def test_verdict_follows_from_the_numbers(found, verdict):
    assert found.verdict == verdict
    assert found.stands == (verdict in ("holds", "not refuted"))
