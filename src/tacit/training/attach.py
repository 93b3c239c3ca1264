"""From a plan to the ordinary loop: the model, the optimizer and the loader that keep to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any, Literal, TypeVar

import torch
from numpy.random import Generator
from torch import nn

from tacit.training.engine import Engine
from tacit.training.independence import Watch
from tacit.training.monitor import Monitor
from tacit.training.optimizer import PrivateOptimizer
from tacit.training.ownership import Ownership, ownership
from tacit.training.plan import Plan
from tacit.training.ranks import Alone, Ranks, plainly, structure, weights
from tacit.training.record_source import digest
from tacit.training.sampler import Loader, Sampler
from tacit.training.several_optimizers import as_one, each_of, kind_of, settings_of
from tacit.training.sums import NoiseSource, noisy_sum

M = TypeVar("M", bound=nn.Module)


def attach(
    plan: Plan,
    model: M,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    data: Any,
    *,
    reduction: Literal["mean", "sum"] = "mean",
    loss_scale: float = 1.0,
    monitors: Sequence[Monitor] = (),
    check: bool = True,
    memory: int = 512 << 20,
    owners: Any = None,
    leave_out: bool = False,
    distributed: bool = False,
    source: NoiseSource | None = None,
    rng: Generator | None = None,
    check_rng: Generator | None = None,
) -> tuple[M, PrivateOptimizer, Loader]:
    """The same model, an optimizer whose steps are private, and a loader of the plan's samples.

    Args:
        optimizer: one, or several of which each moves parameters of its own. The gradient over the parameters of all
            is clipped to one norm, gets noise once and is paid for once; then each optimizer steps.
        reduction: of the loss over the records of a backward pass. Several passes before a step are of different
            records of the batch, in order.
        loss_scale: what the loop multiplies the loss by besides: 1/4 where it divides by four passes.
        monitors: are told as the cost grows.
        check: whether some batches are followed by changed copies of themselves, to see that records keep apart (see
            `independence`), and whether it is seen that nothing is stored without noise (see `contents`).
        memory: bytes that the gradients of single records may take; more is slower to do without.
        owners: for unit="owner" whose each record is: one id a record, in their order, or a function from a record of
            `data` to an id, called once for each of them. Ids are compared only.
        leave_out: whether a record (an owner) whose gradient is not finite counts as one with a gradient of 0.
            Otherwise the step is refused, which tells that there was one: a party that chooses the model could ask.
        distributed: whether the processes of torch's process group train together, see `ranks`.
        source: noise of the fast tier. Secret, as `rng` is, from which samples and all other noise are drawn: both
            come from the operating system by default, and others are for tests.
        check_rng: of the times at which batches are shown again; secret likewise.
    """
    ranks = Ranks() if distributed else Alone()
    with _undone(ranks) as undo:
        inner = as_one(optimizer)
        _check(plan, model, inner, monitors)
        ranks.refuse_others()
        engine = Engine(
            model, reduction=reduction, memory=memory, loss_scale=loss_scale, resize=not check, leave_out=leave_out
        )
        undo.callback(engine.detach)
        sampler = Sampler(plan, rng, owned := ownership(plan, data, owners), ranks)
        noisy = noisy_sum(plan, engine, source, rng, ranks)
        watch = Watch(check_rng) if check else None
        private = PrivateOptimizer(
            plan, engine, inner, noisy, sampler, monitors=monitors, watch=watch, rng=rng, ranks=ranks
        )
        loader = Loader(plan, data, sampler, private, watch)
        _agree(ranks, private, data, owned, [reduction, loss_scale, check, leave_out])
    return model, private, loader


@contextmanager
def _undone(ranks: Alone) -> Iterator[ExitStack]:
    """What an error ends half-way is undone, and other ranks are told of it."""
    with ExitStack() as undo:
        try:
            yield undo
        except Exception:
            ranks.failed()
            raise
        undo.pop_all()


def _agree(ranks: Alone, private: PrivateOptimizer, data: Any, owned: Ownership | None, options: list[Any]) -> None:
    """ValueError where ranks were not given the same training."""
    if not isinstance(ranks, Ranks):
        return
    plan, model, inner = private.plan, private.engine.model, private.inner
    if any(parameter.device.type != "cpu" for parameter in model.parameters()):
        raise ValueError(
            "the model is on an accelerator, and ranks train on CPUs: move it with model.cpu(), or train in one process"
        )
    ranks.attached({
        "the plan": plainly([asdict(plan), plan.initial_noise]),
        "the model": structure(model),
        "the weights of the model": weights(model),
        "the records": digest(data, *ranks.some(plan.records)),
        "the owners of records": b"" if owned is None else owned.of.tobytes(),
        "the settings of attach": plainly([*options, private.budgets]),
        "the settings of the optimizer": plainly([kind_of(inner), settings_of(inner)]),
    })  # fmt: skip


def _check(plan: Plan, model: nn.Module, optimizer: torch.optim.Optimizer, monitors: Sequence[Monitor]) -> None:
    for monitor in monitors:
        if monitor.plan != plan:
            raise ValueError("a monitor is of another plan: make it with Monitor(plan, ...) of this one")
    _check_optimizer(model, optimizer)
    plan.noise_of(0)  # calibrated now, and refused where the count leaves nothing for the gradients


def _check_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for each in each_of(optimizer):
        if isinstance(each, PrivateOptimizer):
            raise ValueError(
                "this optimizer is private already: attach the one that was given to attach, optimizer.inner"
            )
        if isinstance(each, torch.optim.LBFGS):
            raise ValueError("LBFGS asks for several gradients in one step, each of which would cost: use SGD or Adam")
        if not isinstance(each, torch.optim.Optimizer):
            raise ValueError(f"a torch optimizer is expected, got {type(each).__name__}")
    moved = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    own = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    missing = [name for name, parameter in own.items() if id(parameter) not in moved]
    if missing:
        raise ValueError(
            f"the optimizer does not move {', '.join(missing[:3])}: make it of model.parameters(), or freeze what is "
            "not to be trained with requires_grad_(False)"
        )
    if moved - {id(parameter) for parameter in model.parameters()}:
        raise ValueError("the optimizer moves parameters that are not the model's: make it of model.parameters()")
