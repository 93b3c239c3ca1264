"""Carrying out an audit: the steps of the file's kind, one after the other, and what they found, strongest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tacit.audit.finding import Cost, Finding
from tacit.audit.result import Audit, advantage, share_found
from tacit.audit.scope import Scope
from tacit.errors import loggable
from tacit.kind import kind_of
from tacit.sections import Settings

Tell = Callable[[int, int, str], None]  # a step begins: its number from 0, of how many, and what it is


def audit(settings: Settings, scope: Scope, tell: Tell = lambda number, of, name: None) -> Audit:
    """Attack what `settings` describe. `tell` hears of each step before it begins.

    A step that fails does not keep the others from finding a claim false. If none does, its error is raised.
    """
    kind = kind_of(settings)
    plan = kind.attacks(settings, scope)
    findings: list[Finding] = []
    costs: list[Cost] = []
    failed: dict[str, Exception] = {}
    for number, step in enumerate(plan.steps):
        tell(number, len(plan.steps), step.name)
        try:
            found = list(step.find())
        except Exception as error:  # a fault that one attack trips over must not silence those that show it
            failed[step.name] = error
            continue
        findings += [each for each in found if isinstance(each, Finding)]
        costs += [each for each in found if isinstance(each, Cost)]
    if failed and not any(finding.refuted for finding in findings):
        raise next(iter(failed.values()))
    findings.sort(key=_strength, reverse=True)
    for finding in findings:
        if finding.cost is not None:
            costs.append(replace(finding.cost, metric=f"{finding.cost.metric} ({finding.protection})"))
    own = [sentence for finding in findings for sentence in finding.not_tested]
    own += [f"{name}: it could not be carried out ({loggable(error)})" for name, error in failed.items()]
    return Audit(
        settings,
        kind.boundary(settings),
        scope,
        plan.protection,
        tuple(plan.promises),
        tuple(findings),
        tuple(dict.fromkeys(costs)),
        tuple(dict.fromkeys([*plan.not_tested, *own])),
    )


def _strength(finding: Finding) -> tuple[bool, float, float]:
    """False claims first; then by how much of the way from no information to everything the attack goes."""
    score = finding.on or finding.off
    return finding.refuted, -1.0 if score is None else advantage(score), share_found(finding)
