"""What came of auditing a claim: claimed, recomputed and measured ε, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tacit.audit.finding import LowerBound
from tacit.dp.claim import Claim

Verdict = Literal["refuted", "not proved", "holds", "not refuted"]
_TOLERANCE = 0.01  # relative and absolute: accountants differ by that much, and claims are rounded


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What the parameters of the code say."""

    epsilon: float  # holds
    at_least: float  # and none below this one does
    how: str


@dataclass(frozen=True, slots=True)
class Row:
    """One reading of a claim: for one unit and neighbouring relation."""

    claim: Claim
    recomputed: Recomputed | None
    measured: tuple[LowerBound, ...]  # each at a confidence that is corrected for all of them
    broken: tuple[str, ...] = ()  # what the claim assumes and the code does not do; `recomputed` does not assume it

    @property
    def verdict(self) -> Verdict:
        if any(bound.epsilon > self.claim.epsilon for bound in self.measured):
            return "refuted"
        if self.recomputed is not None and self.recomputed.at_least > _allowed(self.claim):
            return "refuted"
        if self.recomputed is None:
            return "not proved" if self.broken else "not refuted"
        return "not proved" if self.recomputed.epsilon > _allowed(self.claim) else "holds"

    @property
    def stands(self) -> bool:
        return self.verdict in ("holds", "not refuted")


def _allowed(claim: Claim) -> float:
    return claim.epsilon * (1 + _TOLERANCE) + _TOLERANCE


@dataclass(frozen=True, slots=True)
class ClaimAudit:
    """Everything about one claim. The first row is the one that is judged; the others read the claim differently."""

    subject: str  # what was audited
    said_by: str  # where the claim is from
    rows: tuple[Row, ...]
    confidence: float  # of all bounds of a row together
    facts: tuple[tuple[str, str], ...]  # what the code does, by its attributes and by samples
    warnings: tuple[str, ...] = ()
    not_tested: tuple[str, ...] = ()

    @property
    def judged(self) -> Row:
        return self.rows[0]
