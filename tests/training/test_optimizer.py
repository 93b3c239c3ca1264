"""Steps of the private optimizer beside a hand computation, and what is paid for them."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler

from tacit.dp.schedules import ClipAdaptation
from tacit.errors import BudgetError
from tacit.randomness import seeded_rng
from tacit.training import attach as attaching
from tacit.training.sampler import Sampler
from tests.training.trainings import Silent, clipped_sum, data, flat, model, plan, train

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.05),
}


def attach(given, module, inner=OPTIMIZERS["sgd"], seed=7, **options):
    options = {"source": Silent(), "check": False, **options}
    return attaching.attach(given, module, inner(module.parameters()), data(), rng=seeded_rng(seed), **options)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("physical", [None, 3])
def test_steps_are_those_of_the_inner_optimizer_on_clipped_sums(name, physical):
    """Also: the divisor is the expected batch whatever came, and pieces add up to the sample."""
    given = plan(physical=physical)
    trained, by_hand = model(), model()
    _, optimizer, loader = attach(given, trained, OPTIMIZERS[name])
    train(trained, optimizer, loader, given.epochs)
    inner, sampler = OPTIMIZERS[name](by_hand.parameters()), Sampler(given, seeded_rng(7))
    x, y = data().tensors
    sizes = []
    for step in range(given.steps):
        chosen = sampler.sample(step)
        sizes.append(len(chosen))
        for parameter, total in zip(by_hand.parameters(), clipped_sum(by_hand, x[chosen], y[chosen], 0.5), strict=True):
            parameter.grad = total / given.batch
        inner.step()
    assert len(set(sizes)) > 2
    assert optimizer.steps == given.steps
    assert float((flat(trained) - flat(by_hand)).abs().max()) < 1e-6


def test_an_empty_sample_steps_with_noise():
    class Ones:
        def normal(self, values, deviation):
            values.fill_(deviation)

    given = plan(records=40, batch=1, epochs=1, noise_multiplier=2.0)
    trained = model()
    before = flat(trained)
    _, optimizer, loader = attach(given, trained, source=Ones())
    seen = 0
    for x, y in loader:
        seen += 1
        assert len(x) >= 1
        F.cross_entropy(trained(x), y).backward()
        optimizer.step()
    assert optimizer.steps == given.steps == 40
    assert seen < 40  # about e^-1 of the samples are empty
    assert sum(count for _, count in optimizer.ledger.lines) == 40
    # 40 steps with noise of multiplier times clip over the expected batch, and at most one clipped gradient a record.
    drift = before - flat(trained)
    assert float(drift.mean()) == pytest.approx(0.1 * 40 * 2.0 * 0.5 / 1, rel=0.1)


def test_the_default_noise_has_the_deviation_that_is_paid_for():
    given = plan(epochs=20, noise_multiplier=3.0, clip=0.2)
    still = nn.Sequential(nn.Linear(5, 400), nn.Linear(400, 3)).double()
    optimizer = torch.optim.SGD(still.parameters(), lr=1.0)
    _, optimizer, loader = given.attach(still, optimizer, data(), check=False)
    moves, before = [], flat(still)
    for x, _ in loader:
        (still(x) * 0).mean().backward()  # no gradient: noise alone
        optimizer.step()
        moves.append((flat(still) - before) * given.batch)
        before = flat(still)
    noise = torch.cat(moves)
    assert float(noise.std()) == pytest.approx(3.0 * 0.2, rel=0.03)
    assert abs(float(noise.mean())) < 0.03


def noise_of_each_step(given):
    """What each step moves three layers without gradients, over the deviation that is paid for: [step, coordinate]."""
    deep = nn.Sequential(nn.Linear(5, 15), nn.Linear(15, 20), nn.Linear(20, 3)).double()
    _, optimizer, loader = given.attach(deep, torch.optim.SGD(deep.parameters(), lr=1.0), data(), check=False)
    moves, before = [], flat(deep)
    for _ in range(given.epochs):
        for x, _ in loader:
            (deep(x) * 0).mean().backward()
            optimizer.step()
            moves.append(flat(deep) - before)
            before = flat(deep)
    return torch.stack(moves) * given.batch / (given.noise_multiplier * given.clip)


def test_every_coordinate_gets_fresh_noise_at_every_step():
    """By chance it fails less often than once in 10^8 runs."""
    noise = noise_of_each_step(plan(epochs=30, noise_multiplier=3.0, clip=0.2))
    assert noise.shape == (120, 473)
    assert float(noise.std(dim=0).min()) > 0.5  # of each coordinate over the steps: 7 deviations
    assert float(noise.std(dim=1).sub(1).abs().max()) < 0.25  # of each step over the coordinates: 7 deviations
    among_steps, among_coordinates = torch.corrcoef(noise), torch.corrcoef(noise.T)
    assert float(among_steps.fill_diagonal_(0).abs().max()) < 0.4  # 8 deviations
    assert float(among_coordinates.fill_diagonal_(0).abs().max()) < 0.75  # (1 - 0.75^2)^59 < 1e-21 for each pair
    assert float(torch.linalg.matrix_norm(noise, 2)) < 40  # nothing is shared: √120 + √473 is 32.7, and e^(-7.3²/2)
    beyond = float((noise.abs() > 3.05).double().mean())
    assert beyond == pytest.approx(0.00229, rel=0.55)  # 6 deviations of the number among 56,760
    again = noise_of_each_step(plan(epochs=1, noise_multiplier=3.0, clip=0.2))
    assert float((again[0] - noise[0]).abs().max()) > 1.0  # another training draws other noise


@pytest.mark.parametrize("kind", ["Linear", "Geometric"])
def test_the_clipping_norm_follows_the_quantile(kind):
    """With little noise the share of norms below the clipping norm comes to the quantile."""
    adapt = ClipAdaptation(kind, quantile=0.5, rate=0.2)
    given = plan(batch=40, epochs=60, clip=5.0, adapt=adapt, noise_multiplier=1.0, count_noise=0.05)
    trained = model()
    x, y = data().tensors
    norms = torch.tensor([clipped_norm(trained, x[i : i + 1], y[i : i + 1]) for i in range(40)])
    _, optimizer, loader = attach(given, trained, lambda p: torch.optim.SGD(p, lr=0.0))
    train(trained, optimizer, loader, given.epochs)
    assert float(norms.quantile(0.3)) < optimizer.clip_norm < float(norms.quantile(0.7))
    assert 0.2 < optimizer.unclipped < 0.8


def clipped_norm(module, x, y):
    return float(torch.sqrt(sum(g.square().sum() for g in clipped_sum(module, x, y, math.inf))))


@pytest.mark.parametrize(("kind", "expected"), [("Linear", 1.0 - 0.3 * 0.4), ("Geometric", math.exp(-0.3 * 0.4))])
def test_one_move_of_the_clipping_norm(kind, expected, monkeypatch):
    """All 40 norms are below 1e3 · C here: the share is 1, the quantile 0.6."""
    adapt = ClipAdaptation(kind, quantile=0.6, rate=0.3)
    given = plan(batch=40, epochs=1, clip=1.0, adapt=adapt, noise_multiplier=1.0)
    trained = model()
    _, optimizer, loader = attach(given, trained)
    spent = {}

    def exact(values, *, sensitivity, noise_multiplier, rng):
        spent.update(sensitivity=sensitivity, multiplier=noise_multiplier, count=float(values[0]))
        return type("Released", (), {"value": values})

    monkeypatch.setattr("tacit.training.adaptive_norm.mechanisms.gaussian", exact)
    for x, _ in loader:
        (trained(x) * 1e-3).mean().backward()
        optimizer.step()
    assert optimizer.clip_norm == pytest.approx(expected)
    assert spent == {"sensitivity": 0.5, "multiplier": 2 * 0.05 * 40, "count": 20.0}


def test_the_clipping_norm_follows_a_noisy_count():
    """All norms are below the clipping norm, so that what varies is the noise that is paid for. By chance it fails less
    often than once in 10^7 runs."""
    adapt = ClipAdaptation("Geometric", quantile=0.999, rate=0.1)
    given = plan(batch=40, epochs=300, clip=1.0, adapt=adapt, noise_multiplier=1.0, count_noise=0.3)
    trained = model()
    inner = torch.optim.SGD(trained.parameters(), lr=0.0)
    _, optimizer, loader = given.attach(trained, inner, data(), check=False)
    clips = [optimizer.clip_norm]
    for _ in range(given.epochs):
        for x, _ in loader:
            (trained(x) * 0).mean().backward()
            optimizer.step()
            clips.append(optimizer.clip_norm)
    shares = torch.tensor(clips).double().log().diff() / -0.1 + 0.999
    assert float(shares.mean()) == pytest.approx(1.0, abs=0.11)  # 6 deviations
    assert float(shares.std()) == pytest.approx(0.3, rel=0.25)  # 6 deviations


@pytest.mark.parametrize("kind", ["Time", "Step", "Exp"])
def test_a_decaying_noise_is_drawn_as_accounted(kind):
    class Listening(Silent):
        heard: list[float] = []  # noqa: RUF012

        def normal(self, flat, deviation):
            self.heard.append(deviation)
            flat.zero_()

    given = plan(epochs=5, decay=kind, rate=0.1, noise_multiplier=2.0)
    Listening.heard = []
    trained = model()
    _, optimizer, loader = attach(given, trained, source=Listening())
    train(trained, optimizer, loader, given.epochs)
    accounted = [given.event(step).noise_multiplier * given.clip for step in range(given.steps)]
    assert [heard * given.batch for heard in Listening.heard] == pytest.approx(accounted, rel=1e-15)
    assert accounted[0] == 1.0 > accounted[-1]
    lines = {event.noise_multiplier * given.clip: count for event, count in optimizer.ledger.lines}
    assert lines == {level: accounted.count(level) for level in accounted}


@pytest.mark.parametrize(
    "make",
    [
        lambda o: lr_scheduler.StepLR(o, step_size=2, gamma=0.5),
        lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=8),
        lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.2, total_steps=9),
        lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
        lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 / (1 + step)),
    ],
)
@pytest.mark.parametrize("of_inner", [False, True])
def test_schedulers_of_torch(make, of_inner):
    given, trained = plan(), model()
    _, optimizer, loader = attach(given, trained, OPTIMIZERS["momentum"])
    assert isinstance(optimizer, torch.optim.Optimizer)
    scheduler = make(optimizer.inner if of_inner else optimizer)
    rates = [optimizer.param_groups[0]["lr"]]
    for x, y in [batch for _ in range(2) for batch in _stepping(loader, trained, optimizer)]:
        assert len(x) == len(y)
        scheduler.step(*([1.0] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
        rates.append(optimizer.inner.param_groups[0]["lr"])
    assert len(set(rates)) > 2


def _stepping(loader, module, optimizer):
    for x, y in loader:
        F.cross_entropy(module(x), y).backward()
        optimizer.step()
        yield x, y


def test_what_is_paid_grows_with_each_step_and_the_plan_ends():
    given, trained = plan(epsilon=4.0, noise_multiplier=None), model()
    _, optimizer, loader = attach(given, trained)
    train(trained, optimizer, loader, 1)
    assert optimizer.epoch == 1
    assert optimizer.epsilon() == given.epsilon_after(given.steps_an_epoch)
    assert optimizer.ledger.epsilon(1e-5) == optimizer.epsilon()
    train(trained, optimizer, loader, 1)
    assert optimizer.epsilon() == pytest.approx(4.0, rel=1e-3)
    before = flat(trained)
    with pytest.raises(BudgetError, match="8 steps, and all are taken"):
        train(trained, optimizer, loader, 1)
    assert torch.equal(before, flat(trained))
    report = optimizer.report()
    assert report["tier"] == "fast"
    assert report["steps"] == 8
    assert report["ledger"]["lines"][0]["count"] == 8


def test_a_sample_that_is_not_finished_stays_paid_for():
    given, trained = plan(physical=2), model()
    _, optimizer, loader = attach(given, trained)
    for x, y in loader:
        F.cross_entropy(trained(x), y).backward()
        optimizer.step()
        break
    before = flat(trained)
    assert optimizer.steps == 0
    assert sum(count for _, count in optimizer.ledger.lines) == 1
    train(trained, optimizer, loader, 2)  # the sample is drawn again
    assert optimizer.steps == 8
    assert sum(count for _, count in optimizer.ledger.lines) == 9
    assert not torch.equal(before, flat(trained))
    assert optimizer.epsilon() > given.epsilon_after(8)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_releases_nothing(bad):
    given, trained = plan(), model()
    _, optimizer, loader = attach(given, trained)
    before = flat(trained)
    (x, y), *_ = [next(iter(loader))]
    (F.cross_entropy(trained(x), y) * bad).backward()
    with pytest.raises(ValueError, match=r"nothing was released.*not finite: lower the learning rate"):
        optimizer.step()
    assert torch.equal(before, flat(trained))
    train(trained, optimizer, loader, 2)
    assert sum(count for _, count in optimizer.ledger.lines) == given.steps + 1


def test_a_forgotten_step_is_told():
    given, trained = plan(), model()
    _, _, loader = attach(given, trained)
    batches = iter(loader)
    x, y = next(batches)
    F.cross_entropy(trained(x), y).backward()
    with pytest.raises(ValueError, match=r"not stepped: call loss.backward\(\) and optimizer.step\(\)"):
        next(batches)


def test_misuse_is_told():
    given, trained = plan(), model()
    _, optimizer, loader = attach(given, trained)
    with pytest.raises(ValueError, match="batches from the loader"):
        optimizer.step()
    x, y = next(iter(loader))
    with pytest.raises(ValueError, match="closure"):
        optimizer.step(lambda: 0)
    F.cross_entropy(trained(x[:1]), y[:1]).backward()
    with pytest.raises(ValueError, match=f"saw 1 records, the batch has {len(x)}"):
        optimizer.step()
    for misuse in (
        lambda: optimizer.load_state_dict(optimizer.inner.state_dict()),
        lambda: optimizer.add_param_group({}),
    ):
        with pytest.raises(ValueError, match=r"does not say what was spent|fixed"):
            misuse()
    next(iter(loader))
    with pytest.raises(RuntimeError, match="no backward pass is recorded"):
        optimizer.step()
    train(trained, optimizer, loader, 2)
    assert optimizer.steps == given.steps


def test_a_grad_scaler_is_refused_in_a_sentence():
    """It would scale the loss, and so the norms at which records are clipped."""
    network, optimizer, loader = attach(plan(), model())
    scaler = torch.amp.GradScaler("cpu")
    before = [parameter.detach().clone() for parameter in network.parameters()]
    features, labels = next(iter(loader))
    scaler.scale(F.cross_entropy(network(features), labels)).backward()
    with pytest.raises(ValueError, match="a GradScaler cannot drive a private optimizer"):
        scaler.step(optimizer)
    assert optimizer.steps == 0
    assert all(torch.equal(old, now) for old, now in zip(before, network.parameters(), strict=True))
