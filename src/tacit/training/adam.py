"""Adam whose second moments are those of the gradients, without the noise that was added to them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class AdamBC(torch.optim.Optimizer):  # type: ignore[misc]
    """DP-AdamBC: Adam that subtracts the variance of the noise from its second moments.

    The squares of noisy gradients are mostly squares of noise, so that Adam divides every entry by nearly the same
    number and is SGD with momentum. What the noise adds in expectation is known, and is taken back here. A private
    optimizer writes `noise_deviation`, that of each entry, before each step; it is 0 elsewhere, and this is Adam then.

    Guarantee: what is released is what was released to any other optimizer: this only computes with noisy gradients.
    Source: Tang, Shpilevskiy, Lécuyer 2024, Algorithm 1. If the noise changes, its variance is averaged as the
    squares are.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        """`eps` is the least second moment; `weight_decay` is that of AdamW, apart from the gradients."""
        if not (lr >= 0 and eps > 0 and weight_decay >= 0 and all(0 <= beta < 1 for beta in betas)):
            raise ValueError(
                f"lr {lr}, betas {betas}, eps {eps} and weight_decay {weight_decay}: give betas in [0, 1), eps above 0 "
                "and the others at least 0"
            )
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.noise_deviation = 0.0

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: None = None) -> None:
        if closure is not None:
            raise ValueError("a closure asks for several gradients in one step: leave it out")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)

    def _move(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state, (first, second) = self.state[parameter], group["betas"]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter), noise=0.0)
        state["step"] += 1
        state["exp_avg"].lerp_(gradient, 1 - first)
        state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
        state["noise"] = second * state["noise"] + (1 - second) * self.noise_deviation**2
        seen = 1 - second ** state["step"]
        moments = ((state["exp_avg_sq"] - state["noise"]) / seen).clamp_(min=group["eps"])
        if group["weight_decay"]:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        rate = group["lr"] / (1 - first ** state["step"])
        parameter.addcdiv_(state["exp_avg"], moments.sqrt_(), value=-float(rate))


def tell_noise(
    optimizers: Iterable[torch.optim.Optimizer], noise: str, multiplier: float, clip: float, batch: int
) -> None:
    """Tell each AdamBC of `optimizers` the deviation of the noise in each entry of a noisy mean gradient."""
    deviation = multiplier * clip / batch * (math.sqrt(2) if noise == "laplace" else 1)
    for each in optimizers:
        if isinstance(each, AdamBC):
            each.noise_deviation = deviation
