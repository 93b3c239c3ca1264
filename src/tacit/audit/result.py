"""What an audit found, strongest first."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.audit.finding import Cost, Finding, Score
from tacit.audit.scope import Scope
from tacit.audit.steps import Proved
from tacit.boundary import Boundary
from tacit.sections import Settings


@dataclass(frozen=True, slots=True, eq=False)
class Audit:
    """What an audit found."""

    settings: Settings
    boundary: Boundary
    scope: Scope
    protection: str
    promises: tuple[Proved, ...]
    findings: tuple[Finding, ...]
    costs: tuple[Cost, ...]
    not_tested: tuple[str, ...]

    @property
    def attacks(self) -> list[Finding]:
        """What has a score, strongest first."""
        return [finding for finding in self.findings if finding.off is not None or finding.on is not None]

    @property
    def audited(self) -> list[Finding]:
        """What tests a claim: false claims first, then those whose bound comes closest to what is proved."""
        tested = (each for each in self.findings if each.audited or each.curve or each.watched)
        return sorted(tested, key=lambda each: (each.refuted, share_found(each)), reverse=True)

    @property
    def failure(self) -> float:
        """The probability that any true claim is refuted: what the tests may fail by adds up."""
        return sum(finding.failure for finding in self.findings)

    @property
    def false_claims(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.refuted]


def share_found(finding: Finding) -> float:
    """Of the proved epsilon that was found."""
    if finding.audited is None or finding.proved is None or finding.proved.epsilon <= 0:
        return 0.0
    return finding.audited.epsilon / finding.proved.epsilon


def advantage(score: Score) -> float:
    """0 for no information, 1 for everything; metrics end at 1, errors at 0."""
    if score.smaller_is_worse:
        return max(0.0, 1 - score.value / score.baseline) if score.baseline > 0 else 0.0
    return max(0.0, (abs(score.value) - score.baseline) / (1 - score.baseline)) if score.baseline < 1 else 0.0
