"""Samplers that are not Poisson are told apart, and those that are pass."""

import numpy as np
import pytest

from tacit.audit.claims.batch_sampling import observe

RECORDS, BATCH = 300, 20
STEPS = RECORDS // BATCH


class Sampler:
    """An epoch is what `draw` makes of a generator: a list of batches."""

    def __init__(self, draw, seed=0):
        self.draw, self.rng = draw, np.random.default_rng(seed)

    def __len__(self):
        return STEPS

    def __iter__(self):
        return iter(self.draw(self.rng))


def poisson(rng):
    return [np.flatnonzero(rng.random(RECORDS) < BATCH / RECORDS).tolist() for _ in range(STEPS)]


def shuffled(rng):
    return rng.permutation(RECORDS).reshape(STEPS, BATCH).tolist()


def fixed(rng):
    return np.arange(RECORDS).reshape(STEPS, BATCH).tolist()


def subsets(rng):
    return [rng.choice(RECORDS, BATCH, replace=False).tolist() for _ in range(STEPS)]


def with_replacement(rng):
    return [rng.integers(0, RECORDS, BATCH).tolist() for _ in range(STEPS)]


def truncated(rng):
    return [batch[:BATCH] for batch in poisson(rng)]


def observed(draw, seed=0):
    return observe(Sampler(draw, seed), RECORDS, BATCH / RECORDS, 0.95)


@pytest.mark.parametrize("seed", range(20))
def test_poisson_samples_pass(seed):
    found = observed(poisson, seed)
    assert found.kind == "poisson"
    assert not found.departures
    assert found.rate_low < BATCH / RECORDS * 1.05
    assert found.rate == pytest.approx(BATCH / RECORDS, rel=0.05)


@pytest.mark.parametrize(
    ("draw", "kind"),
    [(shuffled, "shuffled"), (fixed, "fixed"), (subsets, "other"), (with_replacement, "other"), (truncated, "other")],
)
def test_other_samples_are_told_apart(draw, kind):
    found = observed(draw)
    assert found.kind == kind
    assert found.departures
    assert found.repeats == (draw is with_replacement)


def test_one_batch_of_all_records_is_a_poisson_sample_of_rate_1():
    class All:
        def __len__(self):
            return 1

        def __iter__(self):
            return iter([list(range(RECORDS))])

    assert observe(All(), RECORDS, 1.0, 0.95).kind == "poisson"


def test_a_departure_is_said_with_what_was_expected():
    assert "0.0% of the records are in several batches of an epoch, and 26." in observed(shuffled).departures[0]
