"""The definition of clipped gradient sums: one record at a time, by plain autograd on a copy without an engine."""

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from tacit.training import Engine

Loss = Callable[[Tensor, Tensor], Tensor]  # of outputs and weights or labels, summed over records


def linear_loss(outputs: Tensor, weights: Tensor) -> Tensor:
    return (outputs * weights).sum()


def record_gradients(model: nn.Module, inputs: Sequence[Tensor], targets: Tensor, loss: Loss) -> Tensor:
    """[B, n]: the gradient of each record over all trainable parameters."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rows = []
    for i in range(len(targets)):
        value = loss(model(*(x[i : i + 1] for x in inputs)), targets[i : i + 1])
        found = torch.autograd.grad(value, parameters, allow_unused=True, materialize_grads=True)
        rows.append(torch.cat([gradient.flatten() for gradient in found]))
    return torch.stack(rows)


def check(
    model: nn.Module,
    *inputs: Tensor,
    targets: Tensor | None = None,
    loss: Loss = linear_loss,
    reduction: str = "sum",
    memory: int = 1 << 29,
    dtypes: Sequence[torch.dtype] = (torch.float64, torch.float32),
) -> None:
    """The engine's clipped sum and norms are those of the definition, in float64 to 1e-10 and in float32 to 1e-5."""
    for dtype in dtypes:
        tolerance = 1e-10 if dtype == torch.float64 else 1e-5
        trained = copy.deepcopy(model).to(dtype)
        given = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
        with torch.no_grad():
            shape = trained(*given).shape
        aims = torch.randn(shape, dtype=dtype) if targets is None else targets
        exact = copy.deepcopy(trained).double()
        doubled = [x.double() if x.is_floating_point() else x for x in given]
        wanted = record_gradients(exact, doubled, aims.double() if aims.is_floating_point() else aims, loss)
        norms = wanted.norm(dim=1)
        clip = float(norms.median()) or 1.0
        engine = Engine(trained, reduction=reduction, memory=memory, announce=lambda _: None)
        value = loss(trained(*given), aims)
        (value / len(aims) if reduction == "mean" else value).backward()
        found = engine.norms()
        slack = tolerance * float(norms.max()) + 1e-15
        assert torch.all((found - norms).abs() <= slack), (found, norms)
        absolute = engine.norms(order=1)
        assert torch.all((absolute - wanted.abs().sum(1)).abs() <= slack * math.sqrt(wanted.shape[1]))
        factors = engine.factors(found, clip)
        contributions = within(engine, factors, reduction)
        assert torch.all(contributions <= clip)
        engine.add_clipped(factors)
        assert all(parameter.grad is None for parameter in trained.parameters())
        expected = (wanted * (clip / norms.clamp(min=1e-300)).clamp(max=1)[:, None]).sum(0)
        scale = float(norms.clamp(max=clip).sum()) + 1e-15
        assert float((engine.sum.double() - expected).norm()) <= tolerance * scale


def within(engine: Engine, factors: Tensor, reduction: str) -> Tensor:
    """The norm of what each record adds, recomputed in float64 from what was recorded."""
    used = factors * len(factors) if reduction == "mean" else factors
    total = torch.zeros(len(factors), dtype=torch.float64)
    for part in engine._pass.join():
        if part is not None:
            total += part.instantiate(0, len(factors), torch.float64).flatten(1).square().sum(1)
    return total.sqrt() * used.double() * (1 - 1e-12)  # the rounding of this recomputation
