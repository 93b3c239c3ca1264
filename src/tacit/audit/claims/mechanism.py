"""A claim about any function that adds noise: `tacit audit --mechanism module:function --epsilon E --delta D`.

The function takes no arguments and returns a dictionary:

    release         a function of one input that returns numbers: the code to audit
    one, other      two neighbouring inputs, as far apart as the claim allows
    noise           optional, to recompute ε: "gaussian" or "laplace", with `scale` (σ or b) and `sensitivity`
    releases        how often the claim lets it release on the same data; 1 unless it is given
    sampling_probability    of a Poisson sample that `release` draws; 1 unless it is given
    unit, relation  of the claim; "record" and "add-remove" unless they are given
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from tacit.audit.claims.returned import keyed
from tacit.audit.claims.samples import Effort, Measured, measure, numbers_of
from tacit.audit.claims.verdict import ClaimAudit, Recomputed, Row
from tacit.dp.accounting import Ledger
from tacit.dp.claim import Claim
from tacit.dp.release import (
    GaussianEvent,
    LaplaceEvent,
    Relation,
    Unit,
    check_choice,
    check_epsilon,
    check_positive,
    number,
)

Noise = Literal["gaussian", "laplace"]
_MOST_RELEASES = 1000
_KEYS = ("release", "one", "other")
_OPTIONAL = ("noise", "scale", "sensitivity", "releases", "sampling_probability", "unit", "relation")


@dataclass(frozen=True, slots=True, eq=False)
class Mechanism:
    """Code that adds noise, two neighbouring inputs, and what is said of the noise."""

    release: Callable[[Any], Any]
    one: Any
    other: Any
    noise: Noise | None = None
    scale: float = math.nan
    sensitivity: float = math.nan
    releases: int = 1
    sampling_probability: float = 1.0
    unit: Unit = "record"
    relation: Relation = "add-remove"

    def __post_init__(self) -> None:
        if not callable(self.release):
            raise ValueError(f"release must be a function of one input, got {type(self.release).__name__}")
        check_choice("unit", self.unit, Unit)
        check_choice("relation", self.relation, Relation)
        releases: object = self.releases
        if not (isinstance(releases, int) and 1 <= releases <= _MOST_RELEASES):
            raise ValueError(f"releases must be a whole number from 1 to {_MOST_RELEASES}, got {self.releases!r}")
        if self.noise is not None:
            check_choice("noise", self.noise, Noise)
            check_positive("scale", self.scale)
            check_positive("sensitivity", self.sensitivity)
            self.event()

    @classmethod
    def of(cls, made: object) -> Mechanism:
        """From what the function of `--mechanism` returned."""
        given = keyed(made, _KEYS, _OPTIONAL)
        if given.get("noise") is None and ("scale" in given or "sensitivity" in given):
            raise ValueError(f"scale and sensitivity need noise: one of {', '.join(get_args(Noise))}")
        return cls(**given)

    def event(self) -> GaussianEvent | LaplaceEvent:
        """One release, for the accountant."""
        kind = GaussianEvent if self.noise == "gaussian" else LaplaceEvent
        return kind(self.scale / self.sensitivity, self.unit, self.relation, self.sampling_probability)

    def outputs(self, given: Any) -> np.ndarray[Any, Any]:
        """All releases on one input, one after the other."""
        return np.concatenate([numbers_of(self.release(given)) for _ in range(self.releases)])


def audit_mechanism(
    made: Mechanism, *, epsilon: float, delta: float, subject: str, confidence: float, effort: Effort
) -> ClaimAudit:
    """Compare the claim with the parameters of the noise and with outputs."""
    claim = Claim(check_epsilon(epsilon), check_probability(delta), made.unit, made.relation)
    seen = measure(
        lambda: made.outputs(made.one),
        lambda: made.outputs(made.other),
        epsilon=claim.epsilon,
        delta=claim.delta,
        gaussian=made.noise == "gaussian" and made.sampling_probability == 1 and claim.delta > 0,
        confidence=confidence,
        effort=effort,
    )
    recomputed = None if made.noise is None else _recomputed(made, claim.delta)
    facts, warnings = _facts(made, seen)
    not_tested = ["other pairs of neighbouring inputs: one and other were taken as given"]
    if recomputed is None:
        not_tested.append("the parameters of the noise: noise, scale and sensitivity were not given")
    row = Row(claim, recomputed, seen.bounds)
    return ClaimAudit(subject, "--epsilon, --delta", (row,), confidence, facts, warnings, tuple(not_tested))


def check_probability(delta: float) -> float:
    """A delta that may be 0."""
    if not 0 <= number(delta) < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta!r}")
    return number(delta)


def ledger_epsilon(ledger: Ledger, delta: float) -> float:
    """Of all that the ledger holds, also at a delta of 0."""
    return ledger.epsilon(delta) if delta > 0 else ledger.pure_epsilon()


def _recomputed(made: Mechanism, delta: float) -> Recomputed:
    ledger = Ledger(made.unit, made.relation)
    ledger.spend(made.event(), made.releases)
    epsilon = ledger_epsilon(ledger, delta)
    sampled = f", sampled with {made.sampling_probability:g}" if made.sampling_probability < 1 else ""
    how = f"{made.noise} noise of {made.scale:.4g}, sensitivity {made.sensitivity:.4g}{sampled}, {made.releases} times"
    return Recomputed(epsilon, epsilon, how)


def _facts(made: Mechanism, seen: Measured) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    shown = [("outputs measured", f"{seen.samples:,}")]
    warnings = []
    if made.releases == 1 and made.sampling_probability == 1:
        shown.append(("distance of the mean outputs, measured", f"{seen.distance:.4g}"))
        shown.append(("noise, measured", f"{seen.sigma:.4g} (± {seen.sigma_error:.2g})"))
        if made.noise is not None:
            stated = made.scale if made.noise == "gaussian" else made.scale * math.sqrt(2)
            shown.append(("noise, stated", f"{stated:.4g}" + ("" if made.noise == "gaussian" else " (b √2)")))
            if made.noise == "gaussian" and seen.differs_from(stated):
                warnings.append(f"the noise is {seen.sigma:.4g} and not the stated {stated:.4g}")
            if made.noise == "gaussian" and seen.distance > made.sensitivity * 1.05 + 4 * seen.sigma_error:
                warnings.append(
                    f"the outputs are {seen.distance:.4g} apart, and the stated sensitivity is {made.sensitivity:.4g}"
                )
    return tuple(shown), tuple(warnings)
