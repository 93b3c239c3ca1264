"""A test of any promise about updates: canaries in what a client itself sends, whatever tests its protection brings.

It is for protections from outside. The built-in ones have sharper ones, which know the curve of their noise.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.audit.attacks.mechanisms import Effort
from tacit.audit.finding import Finding
from tacit.audit.scope import Scope
from tacit.audit.steps import named
from tacit.dp.accounting import Ledger
from tacit.kinds.horizontal.alone import alone_of
from tacit.kinds.horizontal.attacks import variants
from tacit.kinds.horizontal.attacks.client_canaries import audit_sums, audit_uploads
from tacit.kinds.horizontal.protections.contract import NoiseTest, Price
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.vector import Layout


def test_of_any(settings: Settings, price: Price) -> NoiseTest:
    """The test; ValueError if the claim of a round and its price contradict each other."""
    claim = settings.updates.claim(settings)
    if claim is not None and price.local:
        once = Ledger("client", claim.relation)
        for cost in price.local:
            once.spend(cost.event, cost.count)
        paid = once.pure_epsilon() if claim.delta == 0 else once.epsilon(claim.delta)
        if not 0.99 * paid <= claim.epsilon:
            raise ValueError(
                f"{settings.updates.name} claims an epsilon of {claim.epsilon:.4g} for a round, and its price says "
                f"{paid:.4g}: one of them is wrong"
            )

    def find(scope: Scope, effort: Effort, task: Task) -> Finding:
        layout, rng = Layout.of(task.model()), scope.rng("canaries of any promise")
        brief = replace(effort, samples=scope.pick(3_600, 24_000))
        free = variants.unlimited(settings)
        if settings.masked:
            made = audit_sums(free, layout, rng, brief, clip=1.0)
        else:
            made = audit_uploads(free, layout, rng, brief, clip=alone_of(free, layout.size).clip or 1.0, gaussian=False)
        return named(
            made, f"{settings.updates.name}: what a client sends", "its own code, the file's own model", "server"
        )

    return NoiseTest("canaries in what a client sends", find)
