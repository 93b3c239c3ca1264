"""How hard an audit tries."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeVar

from numpy.random import Generator

from tacit.audit.bounds import corrected
from tacit.randomness import seeded_rng

T = TypeVar("T")
CONFIDENCE = 0.99  # of all tests of an audit together: true claims are called false in at most one audit of a hundred


@dataclass(frozen=True, slots=True)
class Scope:
    """How hard to try, and what fixes the outcome."""

    quick: bool = True
    seed: int = 0

    def pick(self, quick: T, full: T) -> T:
        return quick if self.quick else full

    def number(self, purpose: str) -> int:
        """A number that belongs to this seed and purpose alone."""
        digest = hashlib.sha256(f"audit {self.seed} {purpose}".encode()).digest()
        return int.from_bytes(digest[:6], "big")

    def rng(self, purpose: str) -> Generator:
        """Noise of what is audited, and chance of the attacker. It is no secret: nothing of an audit is released."""
        return seeded_rng(self.number(purpose))

    def confidence(self, tests: int) -> float:
        """Of each of so many tests: the lower bounds on epsilon, and the tests of trade-off curves."""
        return corrected(CONFIDENCE, max(1, tests))
