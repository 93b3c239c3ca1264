"""Truncated Poisson samples: batches of one size, records that count nothing, and the price of what is cut."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import binom

from tacit.randomness import seeded_rng
from tacit.training import Plan
from tacit.training.attach import attach
from tacit.training.sampler import Sampler
from tacit.training.sums import largest_sample
from tacit.training.truncation import log2_exceeding, smallest_size
from tests.training.trainings import Silent, clipped_sum, data, model

CUT = {"records": 40, "batch": 10, "epochs": 2, "noise_multiplier": 1.0, "clip": 0.5, "delta": 1e-2, "truncate": 34}


def test_what_is_cut_is_paid_for_as_slack():
    close = {**CUT, "truncate": 24, "epsilon": 2.0, "noise_multiplier": None}
    given, whole = Plan(**close), Plan(**{**close, "truncate": None})
    cut = binom.sf(24, 41, 0.25)
    assert given.event(0).log2_slack == pytest.approx(math.log2(cut), abs=1e-4)
    assert whole.event(0).log2_slack == -200
    assert given.epsilon_after(8) <= 2.0 * (1 + 1e-9)
    assert given.initial_noise > whole.initial_noise
    # The price is that of all samples, at what the cut ones leave of delta.
    slack = 8 * cut * (1 + math.exp(given.epsilon_after(8)))
    alone = Plan(**{**close, "truncate": None, "epsilon": None, "noise_multiplier": given.initial_noise})
    assert alone.ledger(8).delta(given.epsilon_after(8), "pld") <= 1e-2 - slack


@pytest.mark.parametrize("most", [0, 3, 10, 25, 39, 40])
def test_the_tail_is_that_of_a_binomial_number(most):
    exact = sum(math.comb(40, k) * 0.25**k * 0.75 ** (40 - k) for k in range(most + 1, 41))
    assert log2_exceeding(40, 0.25, most) == pytest.approx(math.log2(exact) if exact else -math.inf, rel=1e-6, abs=1e-5)
    assert exact == 0 or 2 ** log2_exceeding(40, 0.25, most) >= exact * (1 - 1e-12)


@pytest.mark.parametrize("log2_most", [0.0, -1.0, -10.5, -60.0, -math.inf])
@pytest.mark.parametrize("probability", [0.25, 0.9, 1.0])
def test_the_smallest_size_is_the_first_that_is_rarely_exceeded(probability, log2_most):
    first = next(size for size in range(42) if log2_exceeding(41, probability, size) <= log2_most)
    assert smallest_size(41, probability, log2_most) == first


def test_a_limit_that_is_exceeded_too_often_is_refused_with_one_that_is_not():
    with pytest.raises(ValueError, match=r"samples exceed truncate=20 too often .* give (\d+) or more") as raised:
        Plan(**{**CUT, "truncate": 20, "delta": 1e-5})
    least = int(str(raised.value).split(": give ")[1].split()[0])
    assert Plan(**{**CUT, "truncate": least, "delta": 1e-5}).epsilon_after(8) < math.inf
    with pytest.raises(ValueError, match="too often"):
        Plan(**{**CUT, "truncate": least - 1, "delta": 1e-5})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling": "shuffled"}, "truncate is for poisson samples"),
        ({"noise": "laplace"}, "truncate is for poisson samples"),
        ({"physical": 5}, "give a multiple"),
        ({"truncate": 0}, "truncate"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Plan(**{**CUT, **options})


class Everyone:
    """A generator by which every record is sampled."""

    def random(self, size):
        return np.zeros(size)

    def choice(self, found, size, replace):
        return np.random.default_rng(0).choice(found, size, replace=replace)


def test_a_sample_that_is_too_large_is_cut_to_random_records():
    (piece,) = Sampler(Plan(**CUT), Everyone()).pieces(0)
    chosen = piece.indices
    assert (piece.padding, piece.last) == (0, True)
    assert len(set(chosen.tolist())) == 34
    assert (np.diff(chosen) > 0).all()
    assert chosen.tolist() != list(range(34))


@pytest.mark.parametrize("physical", [None, 17])
def test_all_batches_have_one_size(physical):
    given = Plan(**{**CUT, "physical": physical})
    assert largest_sample(given) == 34
    sampler = Sampler(given, seeded_rng(0))
    for step in range(30):
        pieces = list(sampler.pieces(step))
        assert {len(piece.indices) for piece in pieces} <= {physical or 34, 0}
        assert [piece.last for piece in pieces] == [False] * (len(pieces) - 1) + [True]
        real = np.concatenate([piece.indices[: len(piece.indices) - piece.padding] for piece in pieces])
        assert len(set(real.tolist())) == len(real) <= 34


@pytest.mark.parametrize("tier", ["fast", "secure"])
@pytest.mark.parametrize("clipping", ["flat", "per_layer"])
@pytest.mark.parametrize("physical", [None, 17])
def test_records_that_fill_a_batch_add_nothing(clipping, physical, tier):
    noise = 1e-9 if tier == "secure" else 1.0
    changed = {"clip": 1e3, "clipping": clipping, "physical": physical, "tier": tier, "noise_multiplier": noise}
    given = Plan(**{**CUT, **changed})
    trained, expected = model(), model()
    _, optimizer, loader = attach(
        given, trained, torch.optim.SGD(trained.parameters(), 1.0), data(), source=Silent(), rng=seeded_rng(1)
    )
    sums = [torch.zeros_like(each) for each in expected.parameters()]
    for x, y in loader:
        assert optimizer.checking or len(x) == (physical or 34)
        F.cross_entropy(trained(x), y).backward()
        if not optimizer.checking:
            counted = len(x) - optimizer._piece.padding
            for total, more in zip(sums, clipped_sum(expected, x[:counted], y[:counted], 1e3), strict=True):
                total += more
        optimizer.step()
        if optimizer.steps:
            break
    for before, total, after in zip(expected.parameters(), sums, trained.parameters(), strict=True):
        torch.testing.assert_close(after, before - total / given.batch, rtol=1e-5, atol=1e-6)
    assert optimizer.unclipped == (1.0 if clipping == "flat" else None)
