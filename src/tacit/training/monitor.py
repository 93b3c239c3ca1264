"""Watching what a training costs while it runs.

    monitor = Monitor(plan, method="rdp", every=100, budget=2.0)     # RDP, zCDP or PLD
    monitor.max_epoch_suggest()                                      # before: how many epochs the budget pays for
    plan.attach(model, optimizer, data, monitors=[monitor])          # shows epsilon as it grows, stops at the budget

A price is computed only where it is shown. The budget becomes a number of steps once, before the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tacit.dp.pricing import Method
from tacit.dp.release import check_choice, check_positive
from tacit.training.plan import TOLERANCE, Plan

_MOST_EPOCHS = 1_000_000


def show(steps: int, epsilon: float, method: Method) -> None:
    """One line on stdout."""
    print(f"step {steps} epsilon {epsilon:.4g} ({method})")


@dataclass(frozen=True)
class Monitor:
    """A callback that prices a training by one method.

    Args:
        method: how steps are priced. `zcdp` needs shuffled batches, or every record in every step.
        budget: the epsilon that no step may exceed; without one the monitor only shows. The plan's own epsilon holds
            in any case, by the method that the plan was calibrated with.
        every: steps between two reports.
        tell: is given the steps done, their epsilon and the method.
    """

    plan: Plan
    method: Method = "pld"
    budget: float | None = None
    every: int = 100
    tell: Callable[[int, float, Method], None] = show

    def __post_init__(self) -> None:
        check_choice("method", self.method, Method)
        if self.method == "zcdp" and self.plan.probability < 1:
            raise ValueError(
                f"zCDP is not amplified by subsampling: for samples of {self.plan.probability:.3g} of the records it "
                "would show an epsilon many times too large. Take method 'rdp' or 'pld', or sampling='shuffled'"
            )
        if self.budget is not None:
            check_positive("budget", self.budget)
        if self.every < 1:
            raise ValueError(f"every must be at least 1, got {self.every}")

    def epsilon(self, steps: int) -> float:
        """What the first `steps` steps of the plan cost by this method."""
        return self.plan.epsilon_after(steps, self.method)

    def due(self, steps: int) -> bool:
        return steps % self.every == 0 or steps == self.plan.steps

    def max_epoch_suggest(self) -> int:
        """The most epochs that the budget, or the plan's epsilon, pays for with the plan's noise; 0 for none."""
        limit = self.budget or self.plan.epsilon
        if limit is None:
            raise ValueError("there is no budget to divide: give the monitor one, or the plan an epsilon")

        def affords(epochs: int) -> bool:
            longer = replace(self.plan, epochs=epochs, epsilon=None, noise_multiplier=self.plan.initial_noise)
            return longer.epsilon_after(longer.steps, self.method) <= limit * TOLERANCE

        low, high = 0, 1
        while high < _MOST_EPOCHS and affords(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if affords(middle) else (low, middle)
        return low


def most_steps(cost: Callable[[int], float], limit: float, steps: int) -> int:
    """The most of `steps` steps whose cost is at most `limit`: tried from above, because it is mostly all or nearly."""
    low, high, stride = 0, steps + 1, 1  # `low` is affordable, `high` is not
    tried = steps
    while tried > 0:
        if cost(tried) <= limit * TOLERANCE:
            low = tried
            break
        high, tried, stride = tried, tried - stride, 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= limit * TOLERANCE else (low, middle)
    return low
