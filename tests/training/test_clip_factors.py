"""Flat, automatic and layer by layer: against the formulas, record by record, and never above the norm."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.training import Engine, Plan
from tacit.training.attach import attach
from tacit.training.clip_factors import STABILITY, factors
from tacit.training.sums import Laplace, Secure, real_factors
from tests.training.definition import record_gradients
from tests.training.trainings import Silent, data, flat, model, plan

KINDS = ["flat", "automatic", "per_layer"]


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.scan, self.last = nn.Embedding(9, 4), nn.GRU(4, 5, batch_first=True), nn.Linear(5, 9)
        self.unused = nn.Linear(2, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.last(self.scan(self.words(ids))[0])


def expected(rows: Tensor, engine: Engine, kind: str, clip: float) -> Tensor:
    """What each record adds, by the formulas."""
    sizes = [parameter.numel() for parameter in engine.parameters]
    if kind == "flat":
        return rows * (clip / rows.norm(dim=1).clamp(min=1e-300)).clamp(max=1)[:, None]
    if kind == "automatic":
        return rows * (clip / (rows.norm(dim=1) + STABILITY))[:, None]
    owners = [name.rpartition(".")[0] for name in engine.names]
    pieces = list(rows.split(sizes, dim=1))
    for owner in dict.fromkeys(owners):
        mine = [place for place, each in enumerate(owners) if each == owner]
        norms = torch.cat([pieces[place] for place in mine], dim=1).norm(dim=1)
        factor = (clip / len(set(owners)) ** 0.5 / norms.clamp(min=1e-300)).clamp(max=1)
        for place in mine:
            pieces[place] = pieces[place] * factor[:, None]
    return torch.cat(pieces, dim=1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("memory", [1 << 29, 1 << 10])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_records_add_is_what_the_formulas_say(kind, reduction, memory, dtype):
    torch.manual_seed(0)
    trained, ids = Text().to(dtype), torch.randint(0, 9, (6, 5))

    def loss(out: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(out.transpose(1, 2), labels, reduction="none").mean(1).sum()

    rows = record_gradients(trained.double(), [ids], ids, loss)
    trained.to(dtype)
    clip = float(rows.norm(dim=1).median())
    engine = Engine(trained, reduction=reduction, memory=memory)
    value = loss(trained(ids), ids)
    (value / 6 if reduction == "mean" else value).backward()
    found = factors(engine, kind, engine.norms(), clip)
    used = engine.whole(found.double()).expand(len(engine.parameters), -1)
    parts = [(part, own) for part, own in zip(engine._pass.join(), used, strict=True) if part is not None]
    added = torch.cat([part.instantiate(0, 6, torch.float64) * own[:, None] for part, own in parts], dim=1)
    assert (added.norm(dim=1) * (1 - 1e-12) <= clip).all()
    engine.add_clipped(found)
    total = expected(rows, engine, kind, clip).sum(0)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-5
    assert (engine.sum.double() - total).norm() <= tolerance * 6 * clip


@pytest.mark.parametrize("kind", KINDS)
def test_the_secure_sum_is_clipped_alike(kind):
    torch.manual_seed(0)
    trained = model()
    x, y = data()[:12]
    rows = record_gradients(trained, [x], y, lambda out, labels: F.cross_entropy(out, labels, reduction="sum"))
    engine = Engine(trained)
    secure = Secure(engine, 20, np.random.default_rng(0), clipping=kind)
    secure.begin(0.4, 1.0)
    F.cross_entropy(trained(x), y).backward()
    secure.add(engine.norms(), 0.4)
    torch.testing.assert_close(secure._total, expected(rows, engine, kind, 0.4).sum(0), rtol=1e-9, atol=1e-12)


def test_automatic_clipping_is_for_norms_in_l1_too():
    torch.manual_seed(0)
    trained = model()
    x, y = data()[:6]
    rows = record_gradients(trained, [x], y, lambda out, labels: F.cross_entropy(out, labels, reduction="sum"))
    engine = Engine(trained)
    laplace = Laplace(engine, np.random.default_rng(0), clipping="automatic")
    laplace.begin(0.4, 1.0)
    F.cross_entropy(trained(x), y).backward()
    norms = engine.norms(order=1)
    torch.testing.assert_close(norms, rows.abs().sum(1), rtol=1e-9, atol=0)
    assert (real_factors(engine, "automatic", norms, 0.4) * rows.abs().sum(1) / 6 <= 0.4).all()
    laplace.add(norms, 0.4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_is_left_out_adds_nothing(kind):
    trained = model()
    x, y = data()[:5]
    engine = Engine(trained)
    F.cross_entropy(trained(x), y).backward()
    norms = engine.norms()
    norms[3:] = torch.inf
    assert not factors(engine, kind, norms, 1.0)[..., 3:].any()
    assert factors(engine, kind, norms, 1.0)[..., :3].all()


@pytest.mark.parametrize("tier", ["fast", "secure"])
@pytest.mark.parametrize("kind", ["automatic", "per_layer"])
def test_a_whole_training_with_all_checks(kind, tier):
    trained, given = model(), plan(clipping=kind, tier=tier)
    _, optimizer, loader = attach(given, trained, torch.optim.SGD(trained.parameters(), 0.1), data())
    before = flat(trained)
    for _ in range(2):
        for x, y in loader:
            F.cross_entropy(trained(x), y).backward()
            optimizer.step()
    assert optimizer.steps == given.steps
    assert optimizer.report()["not_covered"] == {"unclipped": None}
    assert not flat(trained).equal(before)
    again = model()
    other = plan(tier=tier).attach(again, torch.optim.SGD(again.parameters(), 0.1), data())[1]
    with pytest.raises(ValueError, match="the state is of a plan with another clipping"):
        other.restore(optimizer.state())


def test_the_model_moves_by_the_sum_of_layers():
    trained, given = model(), plan(clipping="per_layer", batch=40, clip=0.05)
    _, optimizer, loader = attach(
        given, trained, torch.optim.SGD(trained.parameters(), 1.0), data(), source=Silent(), check=False
    )
    before = flat(trained)
    x, y = next(iter(loader))
    rows = record_gradients(model(), [x], y, lambda out, labels: F.cross_entropy(out, labels, reduction="sum"))
    F.cross_entropy(trained(x), y).backward()
    optimizer.step()
    moved = before - expected(rows, optimizer.engine, "per_layer", 0.05).sum(0) / 40
    torch.testing.assert_close(flat(trained), moved)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clipping": "layer"}, "clipping"),
        ({"clipping": "per_layer", "noise": "laplace"}, "per_layer shares a norm in L2"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Plan(records=40, batch=10, epochs=1, noise_multiplier=1.0, **options)
