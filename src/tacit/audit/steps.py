"""What an audit is made of: how hard to try, what is proved, and the attacks that fit, one step after the other.

Each kind has a package `attacks`, whose function `attacks` returns `Attacks`; `tacit.runs.audit` runs them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from numpy.random import Generator

from tacit.audit.bounds import corrected
from tacit.audit.finding import Cost, Finding
from tacit.audit.tradeoff import Curve, claim_curve
from tacit.dp.accounting import HIDES_NOTHING, Ledger
from tacit.dp.pricing import Method
from tacit.dp.release import Relation
from tacit.randomness import seeded_rng
from tacit.report.promises import Promise
from tacit.report.promises import promise as bare_promise

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


@dataclass(frozen=True, slots=True, eq=False)
class Proved:
    """What is proved of the whole run: (epsilon, delta), what it allows, and the curve of errors."""

    promise: Promise
    relation: Relation
    ledger: Ledger
    method: Method

    @classmethod
    def of(
        cls, what: str, ledger: Ledger, epsilon: float, delta: float, *, against: str, method: Method = "pld"
    ) -> Proved:
        made = bare_promise(what, epsilon, delta, ledger.relation != "replace-one")
        reading = made.reading if epsilon > HIDES_NOTHING else ledger.reading(method)
        promise = Promise(what, epsilon, delta, made.central, reading, ledger.unit, against)
        return cls(promise, ledger.relation, ledger, method)

    def curve(self) -> Curve:
        """The least part of the true cases that any attacker misses, at each rate of false alarms."""
        if self.promise.epsilon > HIDES_NOTHING:
            return claim_curve(self.promise.epsilon, self.promise.delta)
        return Curve.of(self.ledger, self.method)


@dataclass(frozen=True, slots=True)
class Step:
    """One attack, or what a protection costs."""

    name: str
    find: Callable[[], Sequence[Finding | Cost]]


@dataclass(frozen=True, slots=True)
class Attacks:
    """What fits a file."""

    protection: str
    steps: Sequence[Step]
    promises: Sequence[Proved] = ()
    not_tested: Sequence[str] = ()


def named(found: Finding, mechanism: str, words: str, adversary: str) -> Finding:
    """A mechanism's finding under the name of what claims the epsilon."""
    attack, protection = f"{mechanism}: {found.attack}", f"{mechanism}: {words}"
    return replace(found, attack=attack, protection=protection, adversary=adversary)


def bare(found: Finding) -> Finding:
    """The finding where nothing protects: only what was measured without a protection."""
    pictures = replace(found.pictures, on=None) if found.pictures is not None else None
    return replace(
        found, protection="none", proved=None, audited=None, curve=None, on=None, also=(), pictures=pictures, cost=None
    )
