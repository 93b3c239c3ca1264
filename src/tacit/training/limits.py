"""The steps that budgets pay for: the plan's own epsilon, and those of monitors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tacit.dp.pricing import Method
from tacit.errors import BudgetError
from tacit.training.monitor import Monitor, most_steps
from tacit.training.plan import Plan

Cost = Callable[[int, Method], float]  # of so many steps, and of all samples that were begun in vain


class Limits:
    """Each budget becomes a number of steps once, and again after `clear`."""

    def __init__(self, plan: Plan, monitors: Sequence[Monitor], cost: Cost) -> None:
        self._plan, self._cost = plan, cost
        self.budgets: list[tuple[Method, float]] = [(m.method, m.budget) for m in monitors if m.budget is not None]
        self._steps: dict[tuple[Method, float], int] = {}

    def clear(self) -> None:
        """Other samples were begun in vain than before."""
        self._steps.clear()

    def refuse(self, due: int, abandoned: Mapping[int, int]) -> None:
        """BudgetError if the step `due`, counted from 1, is beyond the plan or a budget."""
        plan = self._plan
        if due > plan.steps:
            raise BudgetError(f"the plan is for {plan.steps} steps, and all are taken: make a plan of more epochs")
        own: list[tuple[Method, float]] = [(plan.method, plan.epsilon)] if plan.epsilon and abandoned else []
        for method, epsilon in [*self.budgets, *own]:
            if due > self._affordable(method, epsilon):
                vain = sum(abandoned.values())
                raise BudgetError(
                    f"step {due} would bring epsilon above {epsilon:g} at delta {plan.delta:g} (by {method}): training "
                    f"stops here, with the model of {due - 1} of {plan.steps} steps. "
                    + (
                        f"Samples that were begun in vain, {vain} of them, are paid for too"
                        if vain
                        else "Plan for fewer epochs or more noise, or raise the budget"
                    )
                )

    def _affordable(self, method: Method, epsilon: float) -> int:
        if (method, epsilon) not in self._steps:
            self._steps[method, epsilon] = most_steps(lambda n: self._cost(n, method), epsilon, self._plan.steps)
        return self._steps[method, epsilon]
