"""The canary audit of private training: below the claim where it is honest, above it where it is sabotaged."""

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn
from torch.utils.data import TensorDataset

from tacit.audit.canaries import audit_canaries
from tacit.randomness import seeded_rng
from tacit.training.attach import attach
from tacit.training.engine import Engine
from tacit.training.plan import Plan

CANARIES = 3000
DELTA = 0.01  # large, so that a few thousand guesses come close to the claim


def training(plan: Plan, size: float = 1.0, **options):
    """One-hot canaries on a linear model with a linear loss: canary j moves weight j alone. Score: that weight."""

    def train(members):
        x = torch.diag(torch.from_numpy(members).float()) * size
        module = nn.Linear(CANARIES, 1, bias=False)
        nn.init.zeros_(module.weight)
        inner = torch.optim.SGD(module.parameters(), lr=1.0)
        _, optimizer, loader = attach(plan, module, inner, TensorDataset(x), check=False, **options)
        for _ in range(plan.epochs):
            for (batch,) in loader:
                (-module(batch)).mean().backward()
                optimizer.step()
        return module.weight.detach().numpy()[0].astype(np.float64)

    return train


def plan(**changed) -> Plan:
    return Plan(
        **{"records": CANARIES, "batch": CANARIES, "epochs": 2, "noise_multiplier": 3.0, "delta": DELTA, **changed}
    )


def audit(train, seed=0, runs=3):
    return audit_canaries(train, canaries=CANARIES, delta=DELTA, rng=np.random.default_rng(seed), runs=runs)


class Scaled:
    """Noise of a known seed, so that the test repeats, at a share of what is claimed."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.generator = torch.Generator().manual_seed(5)

    def normal(self, flat, deviation):
        flat.normal_(0.0, deviation * self.share, generator=self.generator)


@pytest.mark.parametrize("tier", ["fast", "secure"])
def test_an_honest_training_is_below_its_claim(tier):
    honest = plan(tier=tier)
    found = audit(training(honest, size=5.0, source=Scaled(1.0), rng=seeded_rng(6)))
    assert 0.1 < found.epsilon < honest.epsilon_after(honest.steps)


def test_an_honest_training_on_samples_is_below_its_claim():
    honest = plan(batch=CANARIES // 2, epochs=3, noise_multiplier=1.0)
    found = audit(training(honest, size=5.0, source=Scaled(1.0), rng=seeded_rng(6)))
    assert 0.5 < found.epsilon < honest.epsilon_after(honest.steps)


@pytest.mark.parametrize("share", [0.5, 0.01])
def test_too_little_noise_is_found(share):
    claimed = plan().epsilon_after(plan().steps)
    assert audit(training(plan(), size=5.0, source=Scaled(share))).epsilon > claimed


def test_missing_clipping_is_found(monkeypatch):
    claimed = plan().epsilon_after(plan().steps)
    monkeypatch.setattr(
        Engine, "factors", lambda self, norms, clip, divisor: torch.ones_like(norms).to(self.sum.dtype) / divisor
    )
    assert audit(training(plan(), size=5.0, source=Scaled(1.0))).epsilon > claimed


def test_the_bound_of_a_gaussian_that_is_known():
    """Two Gaussians μ apart: near the best ratio of their tails,
    and below it at every threshold that leaves a dozen guesses."""
    rng, mu, count = seeded_rng(1), 2.0, 40_000

    def train(members):
        return rng.standard_normal(len(members)) + mu * members

    found = audit_canaries(train, canaries=count, delta=0.0, rng=rng)
    threshold = norm.isf(12 / count)
    at_three = np.log(norm.sf(3.0 - mu) / norm.sf(3.0))
    assert at_three - 0.8 < found.epsilon < np.log(norm.sf(threshold - mu) / norm.sf(threshold))
    assert found.samples == count


def test_who_sees_nothing_finds_nothing():
    rng = seeded_rng(2)
    found = audit_canaries(lambda members: rng.standard_normal(1000), canaries=1000, delta=1e-5, rng=rng)
    assert found.epsilon < 0.3


def test_refused():
    with pytest.raises(ValueError, match="at least 100 guesses"):
        audit_canaries(lambda members: np.zeros(9), canaries=9, delta=0.0, rng=seeded_rng(0))
    with pytest.raises(ValueError, match="one finite score"):
        audit_canaries(lambda members: np.full(100, np.nan), canaries=100, delta=0.0, rng=seeded_rng(0))
