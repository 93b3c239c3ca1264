"""An audit in words: for a terminal, and as plain data."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from tacit.audit import summary
from tacit.audit.finding import Cost, Finding, LowerBound, Score, rounded_down
from tacit.audit.result import Audit
from tacit.audit.steps import Proved
from tacit.audit.tradeoff import CurveTest
from tacit.dp.claim import Claim
from tacit.report.numbers import percent

NOTHING_PROVED = "none"


def claim_words(claim: Claim | None) -> str:
    """A proved (epsilon, delta), or that there is none."""
    if claim is None:
        return NOTHING_PROVED
    return f"ε {epsilon_words(claim.epsilon)}" + (f", δ {claim.delta:.2g}" if claim.delta else "")


def unit_words(claim: Claim | None) -> str:
    return "" if claim is None else f"{claim.unit}, {claim.relation}"


def bound_words(bound: LowerBound | None) -> str:
    return "" if bound is None else f"ε ≥ {rounded_down(bound.epsilon, 3):g}"


def curve_words(found: Finding) -> str:
    """What the attack missed and what the claim needs, or how often a rule was watched."""
    if found.curve is not None:
        return error_words(found.curve)
    if found.broken:
        return "rule broken"
    return f"rule kept, {found.watched} times" if found.watched else ""


def error_words(test: CurveTest) -> str:
    """False negatives of the attack and those that the claim needs: below them the claim is false."""
    compared, verdict = ("<", "refuted") if test.refuted else (">", "consistent")
    return f"FN {test.false_negatives:.3f} {compared} {test.needed:.3f}, {verdict}"


def confidence_of(found: Finding) -> str:
    """Of a finding's tests together."""
    return f"{1 - found.failure:.5g}" if found.audited or found.curve else ""


def score_words(score: Score | None) -> str:
    """The value and its interval."""
    return "—" if score is None else f"{score.value:.3g} ({score.low:.3g} to {score.high:.3g})"


def baseline_words(score: Score | None) -> str:
    """The score of a guess without any information."""
    return "" if score is None else f"{round(score.baseline, 3) + 0.0:.3g}"


def subject_words(found: Finding) -> str:
    """What was audited; without the mechanism's name where the attack has it already."""
    name = found.attack.partition(":")[0]
    return found.protection.removeprefix(f"{name}: ")


def cost_words(cost: Cost) -> tuple[str, str, str]:
    shown = percent if "accuracy" in cost.metric else _short
    return cost.metric, shown(cost.off), shown(cost.on)


def false_claim(finding: Finding) -> str:
    """Which claim is false, and by how much."""
    seen = []
    test, bound = finding.curve, finding.audited
    if test is not None and test.refuted:
        seen.append(
            f"an attack misses at most {test.false_negatives:.3g} of the true cases at {test.false_positives:.3g} "
            f"false positives, and the claim needs {test.needed:.3g} ({test.confidence:.5g} confidence)"
        )
    if bound is not None and finding.proved is not None and bound.epsilon > finding.proved.epsilon:
        found = rounded_down(bound.epsilon, 4)
        seen.append(f"epsilon at least {found:g} with {bound.confidence:.5g} confidence ({bound.method})")
    seen += finding.broken
    claimed = f"Claimed {finding.proved}; found " if finding.proved is not None else "Found: "
    return f"FALSE CLAIM: {finding.protection}. {claimed}{'; '.join(seen)}"


def proved_words(proved: Proved) -> str:
    """A promise of the whole run, in a sentence or two."""
    promise = proved.promise
    at = f" at delta {promise.delta:.3g}" if promise.delta else ""
    held = f"{promise.what}: epsilon {epsilon_words(promise.epsilon)}{at}, {promise.against} ({proved.relation})"
    return held if math.isinf(promise.epsilon) else f"{held}. That is: {promise.reading}"


def headline(made: Audit) -> str:
    settings, scope = made.settings, made.scope
    manner = "quick" if scope.quick else "full"
    return f"audit of {settings.name} ({settings.kind}), {manner}, seed {scope.seed}; protection: {made.protection}"


def confidence_words(made: Audit) -> str:
    """Of all tests together: what each may fail by adds up."""
    return (
        f"All tests together hold with {1 - made.failure:.2%} confidence. FN is the part of the true cases that the "
        "attack missed at most, compared with the least that the claim allows at the same false positives. A claim "
        "that is not refuted is not proved: a better attack may find more."
    )


def print_table(made: Audit, width: int) -> str:
    """The audit as text."""
    from rich.console import Console

    console = Console(width=width, force_terminal=False, color_system=None, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(summary.sentence(made), "", headline(made), "", soft_wrap=False, sep="\n")
        console.print("What is proved of the whole run")
        for proved in made.promises:
            console.print(f"  {proved_words(proved)}")
        if not made.promises:
            console.print("  none: nothing here has an epsilon")
        if made.audited:
            console.print("", _claims(made, width), confidence_words(made), sep="\n")
        console.print("", _attacks(made, width), sep="\n")
        if made.costs:
            console.print("", _costs(made, width), sep="\n")
        console.print("", "What was not tested", sep="\n")
        for sentence in made.not_tested:
            console.print(f"  - {sentence}")
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _table(title: str, width: int, first: str, **columns: int) -> Any:
    """A table whose first column takes what the others leave; they are named with their widths, `_` for a space."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, width=width - sum(columns.values()) - 2 * len(columns) - 4)
    for name, wide in columns.items():
        table.add_column(name.replace("_", " "), width=wide)
    return table


def _claims(made: Audit, width: int) -> Any:
    table = _table("Proved and audited", width, "claim", unit=12, proved=14, audited=10, curve=17, confidence=10)
    for each in made.audited:
        claim = f"{each.attack}\n  {subject_words(each)}"
        tested = bound_words(each.audited), curve_words(each), confidence_of(each)
        table.add_row(claim, unit_words(each.proved), claim_words(each.proved), *tested)
    return table


def _attacks(made: Audit, width: int) -> Any:
    """By whom and from what stands below each attack."""
    title = "Attacks, the strongest first: off without the protection, on with it, none without any information"
    table = _table(title, width, "attack", proved=12, measured=16, off=15, on=15, none=7)
    for each in made.attacks:
        score = each.on or each.off
        table.add_row(
            f"{each.attack}\n  {each.adversary}\n  sees {each.sees}",
            f"{unit_words(each.proved)}\n{claim_words(each.proved)}".strip(),
            score.metric if score else "",
            score_words(each.off),
            score_words(each.on),
            baseline_words(score),
        )
    return table


def _costs(made: Audit, width: int) -> Any:
    table = _table("Cost in utility", width, "figure", off=10, on=10)
    for cost in made.costs:
        table.add_row(*cost_words(cost))
    return table


def plain(made: Audit) -> dict[str, Any]:
    """The audit for `json.dumps`; what is infinite stands as text, and pictures are only counted."""
    promises = [
        {
            "what": each.promise.what,
            "epsilon": each.promise.epsilon,
            "delta": each.promise.delta,
            "unit": each.promise.unit,
            "relation": each.relation,
            "against": each.promise.against,
            "accuracy_at_most": each.promise.reading.accuracy,
            "true_positives_at_1_percent_at_most": each.promise.reading.true_positives_at_1_percent,
        }
        for each in made.promises
    ]
    data = {
        "summary": summary.sentence(made),
        "name": made.settings.name,
        "kind": made.settings.kind,
        "quick": made.scope.quick,
        "seed": made.scope.seed,
        "protection": made.protection,
        "proved": promises,
        "confidence": 1 - made.failure,
        "findings": [_finding(each) for each in made.findings],
        "costs": [asdict(cost) for cost in made.costs],
        "not_tested": list(made.not_tested),
        "false_claims": [false_claim(each) for each in made.false_claims],
    }
    cleaned: dict[str, Any] = finite(data)
    return cleaned


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "attack": found.attack,
        "adversary": found.adversary,
        "sees": found.sees,
        "protection": found.protection,
        "proved": asdict(found.proved) if found.proved else None,
        "audited": asdict(found.audited) if found.audited else None,
        "curve": _curve(found.curve) if found.curve else None,
        "watched": found.watched,
        "broken": list(found.broken),
        "refuted": found.refuted,
        "off": asdict(found.off) if found.off else None,
        "on": asdict(found.on) if found.on else None,
        "also": [[asdict(off) if off else None, asdict(on)] for off, on in found.also],
        "cost": asdict(found.cost) if found.cost else None,
        "pictures": 0 if found.pictures is None else len(found.pictures.originals),
        "not_tested": list(found.not_tested),
    }


def _curve(test: CurveTest) -> dict[str, Any]:
    return {
        "false_positives": test.false_positives,
        "false_negatives": test.false_negatives,
        "needed": test.needed,
        "confidence": test.confidence,
        "samples": test.samples,
        "refuted": test.refuted,
    }


def finite(value: Any) -> Any:
    """For JSON: what is infinite stands as text."""
    match value:
        case float() if not math.isfinite(value):
            return "infinite" if value > 0 else str(value)
        case dict():
            return {key: finite(item) for key, item in value.items()}
        case list() | tuple():
            return [finite(item) for item in value]
        case _:
            return value


def epsilon_words(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}" if epsilon < 1e4 else f"{epsilon:.0f}"


def _short(value: float) -> str:
    return f"{value:.4g}"
