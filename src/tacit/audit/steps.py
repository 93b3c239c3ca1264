"""What an audit is made of: what is proved, and the attacks that fit, one step after the other.

Each kind has a package `attacks`, whose function `attacks` returns `Attacks`; `tacit.runs.audit` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tacit.audit.finding import Cost, Finding
from tacit.audit.tradeoff import Curve, claim_curve
from tacit.dp.accounting import HIDES_NOTHING, Ledger
from tacit.dp.pricing import Method
from tacit.dp.release import Relation
from tacit.report.promises import Promise
from tacit.report.promises import promise as bare_promise


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
        promise = Promise(what, epsilon, delta, made.central, reading, ledger.unit, against, ledger.relation)
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
