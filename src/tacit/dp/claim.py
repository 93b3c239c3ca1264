"""What is promised of a release: the claim that an audit tests."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.dp.release import Relation, Unit


@dataclass(frozen=True, slots=True)
class Claim:
    """What is proved: (epsilon, delta) for one unit under a neighbouring relation."""

    epsilon: float
    delta: float
    unit: Unit
    relation: Relation

    def __str__(self) -> str:
        at = f" at delta {self.delta:.3g}" if self.delta else ""
        return f"epsilon {self.epsilon:.4g}{at} for each {self.unit} ({self.relation})"
