"""The tiers of noise: what is added, on which grid, for which sensitivity, and what it is made of."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn

from tacit.dp import mechanisms, noise
from tacit.randomness import seeded_rng
from tacit.training import Engine, sums
from tacit.training.recorded import Outer, absolute_norms
from tests.training.definition import record_gradients
from tests.training.test_engine import Cnn, Gpt
from tests.training.trainings import data, flat, model, plan


class Quiet:
    """Stands in for the mechanisms: remembers what they were asked for and adds nothing."""

    def __init__(self) -> None:
        self.asked: list[dict[str, float]] = []

    def gaussian(self, values, **arguments):
        self.asked.append(arguments)
        return type("Released", (), {"value": values})


def noiseless(monkeypatch) -> Quiet:
    quiet = Quiet()
    monkeypatch.setattr(mechanisms, "gaussian", quiet.gaussian)
    return quiet


def entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs, labels, reduction="sum")


CASES = {
    "mlp": (lambda: model(torch.float32), lambda: (torch.randn(9, 5), torch.randint(0, 3, (9,)))),
    "cnn": (Cnn, lambda: (torch.randn(9, 1, 11, 11), torch.randint(0, 3, (9,)))),
    "gpt": (Gpt, lambda: (torch.randint(0, 11, (9, 6)), torch.randint(0, 11, (9, 6)))),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("memory", [0, 1 << 29])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_secure_sum_is_that_of_the_definition(case, memory, reduction, monkeypatch):
    """In float64: as near to the recorded gradients as float64 is, also for models in float32."""
    noiseless(monkeypatch)
    torch.manual_seed(3)
    make, draw = CASES[case]
    module, (x, y) = make(), draw()
    wanted = record_gradients(module.double(), [x.double() if x.is_floating_point() else x], y, entropy)
    module.float()
    clip = float(wanted.norm(dim=1).median())
    engine = Engine(module, reduction=reduction, memory=memory)
    secure = sums.Secure(engine, 20, seeded_rng(0))
    secure.begin(clip, 1.0)
    for span in (slice(0, 4), slice(4, 9)):
        value = entropy(module(x[span]), y[span])
        (value / len(y[span]) if reduction == "mean" else value).backward()
        secure.add(engine.norms(), clip)
    secure.finish(clip, 1.0)
    expected = (wanted * (clip / wanted.norm(dim=1)).clamp(max=1)[:, None]).sum(0)
    assert float((engine.sum.double() - expected).norm()) <= 2e-5 * clip * 9


def test_contributions_of_the_secure_sum_stay_below_the_clip(monkeypatch):
    """One record at a time, in float64 without rounding to float32 in between."""
    noiseless(monkeypatch)
    torch.manual_seed(0)
    module = model(torch.float32)
    engine = Engine(module)
    secure = sums.Secure(engine, 1, seeded_rng(0))
    for i in range(20):
        secure.begin(0.1, 1.0)
        F.cross_entropy(module(torch.randn(1, 5) * 10), torch.tensor([i % 3])).backward()
        secure.add(engine.norms(), 0.1)
        assert float(secure._total.norm()) <= 0.1
        assert float(secure._total.norm()) >= 0.09


def test_cancelled_gradients_are_clipped_harder(monkeypatch):
    """A sequence whose terms cancel to far less than themselves has no useful error bound at full size."""
    noiseless(monkeypatch)
    module = nn.Linear(1, 1, bias=False)
    engine = Engine(module, reduction="sum", memory=0)
    x = torch.tensor([[[1.0], [1.0]]])
    weights = torch.tensor([[[1e6], [-1e6 + 1]]])
    (module(x) * weights).sum().backward()
    secure = sums.Secure(engine, 1, seeded_rng(0))
    secure.begin(1.0, 1.0)
    secure.add(engine.norms(), 1.0)
    assert 0 < float(secure._total.abs()) < 1e-3  # the real gradient is 1: its terms are bounded by 64, not 1e6


def test_the_bound_on_rounding_holds():
    """E against exact arithmetic: sums of products in float64, beside the same in fractions."""
    rng = np.random.default_rng(0)
    records, terms = 50, 40
    share = sums._rounding_share(records)
    x = rng.standard_normal((records, terms)) * 10.0 ** rng.integers(-8, 8, (records, terms))
    reach = np.abs(x).sum(1)
    factors = np.minimum(1 / np.maximum(np.abs(x.sum(1)), 1e-9), 64 / reach)
    computed = float((torch.from_numpy(x) * torch.from_numpy(factors)[:, None]).flatten() @ torch.ones(x.size).double())
    exact = math.fsum(math.fsum(row) * factor for row, factor in zip(x, factors, strict=True))
    assert 0 < share < 1e-4
    assert abs(computed - exact) <= share


def test_the_sensitivity_that_the_noise_is_for(monkeypatch):
    quiet = noiseless(monkeypatch)
    engine = Engine(model())
    secure = sums.Secure(engine, 300, seeded_rng(0))
    secure.begin(0.5, 1.3)
    secure.finish(0.5, 1.3)
    assert quiet.asked[0]["noise_multiplier"] == 1.3
    assert quiet.asked[0]["sensitivity"] == secure.sensitivity == pytest.approx(1 + 2 * sums._rounding_share(300))
    assert 1 < secure.sensitivity < 1.001


def test_the_noise_of_the_secure_tier_is_on_a_grid_and_has_its_distribution():
    """χ² of the integers against the mass of the discrete Gaussian, in cells of half a sigma."""
    given_plan = plan(batch=40, noise_multiplier=1.3, clip=0.5, tier="secure")
    module = nn.Linear(200, 100).double()
    engine = Engine(module)
    secure = sums.noisy_sum(given_plan, engine, rng=seeded_rng(4))
    assert isinstance(secure, sums.Secure)
    secure.begin(0.5, 1.3)
    secure.finish(0.5, 1.3)
    values = engine.sum.numpy() * 40 / 0.5
    d = len(values)
    step = 2.0 ** -math.ceil(-math.log2(min(secure.sensitivity * 1.3 / 2**12, secure.sensitivity / (d**0.5 * 2**13))))
    integers = np.rint(values / step)
    np.testing.assert_allclose(values / step, integers, rtol=1e-15, atol=0)
    assert np.any(integers % 2 == 1)
    sigma = math.sqrt((1.3 * (secure.sensitivity / step + d**0.5)) ** 2 + 72)
    assert sigma * step >= 1.3 * secure.sensitivity
    edges = np.floor(np.arange(-3, 3.25, 0.5) * sigma) + 0.5
    cells = np.bincount(np.digitize(integers, edges), minlength=len(edges) + 1)
    # The mass between half-integers; at this sigma the discrete and the continuous distribution agree to 1e-12.
    expected = np.diff(np.concatenate([[0.0], stats.norm.cdf(edges / sigma), [1.0]])) * d
    assert stats.chi2.sf(((cells - expected) ** 2 / expected).sum(), len(edges)) > 1e-3


def test_the_mass_of_the_laplace_noise_is_exact():
    engine = Engine(nn.Linear(50, 40, bias=False).double())
    laplace = sums.Laplace(engine, seeded_rng(2))
    counts: dict[int, int] = {}
    rounds, multiplier = 20, 2.0
    for _ in range(rounds):
        laplace.begin(0.25, multiplier)
        laplace.finish(0.25, multiplier)
        integers = engine.sum.numpy() / 0.25 * 2.0**laplace._bits
        assert np.array_equal(integers, np.rint(integers))
        for value in np.abs(integers) // 2 ** (laplace._bits - 1):
            counts[int(value)] = counts.get(int(value), 0) + 1
    # In cells of half the clipping norm: P(|K| < n) for P(k) ∝ e^(-r |k|) is 1 - 2 e^(-r n) / (1 + e^-r).
    steps = 2**laplace._bits + 1000
    rate = 1 / multiplier / steps
    tail = [1.0] + [2 * math.exp(-rate * n * 2 ** (laplace._bits - 1)) / (1 + math.exp(-rate)) for n in range(1, 20)]
    expected = np.array([*(-np.diff(tail)), tail[-1]]) * 2000 * rounds
    found = np.array([counts.get(n, 0) for n in range(19)] + [sum(c for n, c in counts.items() if n >= 19)])
    assert stats.chi2.sf(((found - expected) ** 2 / expected).sum(), 19) > 1e-3


def test_the_laplace_sum_is_clipped_in_l1_and_exact(monkeypatch):
    module = model()
    x, y = (tensor[:12] for tensor in data().tensors)
    wanted = record_gradients(module, [x], y, entropy)
    clip = float(wanted.abs().sum(1).median())
    expected = (wanted * (clip / wanted.abs().sum(1)).clamp(max=1)[:, None]).sum(0)
    engine = Engine(module)
    laplace = sums.Laplace(engine, seeded_rng(0))
    monkeypatch.setattr(noise, "discrete_laplace", lambda rate, size, rng: np.zeros(size, dtype=np.int64))
    totals = []
    for spans in ([slice(0, 12)], [slice(0, 5), slice(5, 12)]):
        laplace.begin(clip, 1.0)
        for span in spans:
            F.cross_entropy(module(x[span]), y[span]).backward()
            laplace.add(engine.norms(order=1), clip)
        totals.append(laplace._total.clone())
        laplace.finish(clip, 1.0)
        assert float((engine.sum - expected).abs().max()) < 2.0**-13 * clip
    assert int((totals[0] - totals[1]).abs().max()) <= 1  # integers; a batch of another size may round a gradient


def test_one_record_adds_at_most_the_l1_sensitivity():
    torch.manual_seed(1)
    module = model(torch.float32)
    engine = Engine(module)
    laplace = sums.Laplace(engine, seeded_rng(0))
    for i in range(20):
        laplace.begin(0.3, 0.5)
        F.cross_entropy(module(torch.randn(1, 5) * 5), torch.tensor([i % 3])).backward()
        laplace.add(engine.norms(order=1), 0.3)
        assert int(laplace._total.abs().sum()) <= 2**laplace._bits + laplace._total.numel() // 2


@given(st.integers(2, 10**7), st.floats(0.0001, 0.9))
@settings(max_examples=30)
def test_samples_stay_below_their_bound(records, share):
    batch = max(1, int(records * share))
    bound = sums.largest_sample(plan(records=records, batch=batch))
    assert batch <= bound <= records + 1
    if bound <= records:
        assert stats.binom.logsf(bound, records, batch / records) <= -256 * math.log(2) * 0.999


def test_shuffled_samples_have_a_size():
    assert sums.largest_sample(plan(records=41, batch=10, sampling="shuffled")) == 11


def test_a_bound_that_would_swallow_the_noise_is_refused():
    with pytest.raises(ValueError, match="smaller batch for tier='secure'"):
        sums._rounding_share(10**6)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_training_in_the_secure_tier(noise):
    """The whole way: the report says the tier, samples and noise are there, nothing depends on torch's seed."""
    given_plan = plan(tier="secure", noise=noise, noise_multiplier=0.5, clip=1.0)
    ends = []
    for _ in range(2):
        module = model(torch.float32)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        _, optimizer, loader = given_plan.attach(module, optimizer, data(dtype=torch.float32))
        for x, y in loader:
            F.cross_entropy(module(x), y).backward()
            optimizer.step()
        assert optimizer.report()["tier"] == "secure"
        ends.append(flat(module))
    assert not torch.equal(*ends)


def test_the_tier_of_a_plan():
    engine = Engine(model())
    kinds = {"fast": sums.Fast, "secure": sums.Secure}
    assert all(type(sums.noisy_sum(plan(tier=tier), engine)) is kind for tier, kind in kinds.items())
    assert type(sums.noisy_sum(plan(noise="laplace"), engine)) is sums.Laplace


@pytest.mark.parametrize("multiplier", [0.01, 1.0, 30.0])
def test_the_laplace_noise_is_sized_for_what_rounding_adds_to_a_record(monkeypatch, multiplier):
    engine, rates = Engine(model()), []
    laplace = sums.Laplace(engine, seeded_rng(0))

    def remember(rate, size, rng):
        rates.append(rate)
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(noise, "discrete_laplace", remember)
    laplace.begin(0.3, multiplier)
    laplace.finish(0.3, multiplier)
    most = 2**laplace._bits + Fraction(engine.sum.numel(), 2)  # each entry is rounded by at most 1/2
    assert rates[0] * most <= Fraction(1 / multiplier)


def test_l1_norms_of_gradients_that_cancel_are_not_measured_too_small():
    """a·b − fl(a·b) is what a product rounds: the computed sum may well be 0."""
    a, b = torch.rand(2, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    inputs, outputs = torch.stack([a, a * b], 1)[:, :, None], torch.stack([b, -torch.ones(50).double()], 1)[:, :, None]
    bounds = absolute_norms(Outer(inputs, outputs, 1 << 20), 1, 1 << 20).tolist()
    for x, g, bound in zip(inputs[:, :, 0].tolist(), outputs[:, :, 0].tolist(), bounds, strict=True):
        real = abs(sum((Fraction(one) * Fraction(other) for one, other in zip(x, g, strict=True)), Fraction()))
        assert real <= Fraction(bound) <= Fraction(1, 10**15)
