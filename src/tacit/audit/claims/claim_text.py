"""An audited claim in words: a sentence, a table for a terminal, and plain data."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from tacit.audit.claims.verdict import ClaimAudit, Row
from tacit.audit.finding import LowerBound, rounded_down
from tacit.audit.text import finite

_INDENT = (0, 0, 0, 2)
HEAD = ("reading of the claim", "claimed", "recomputed", "measured", "verdict")


def sentence(made: ClaimAudit) -> str:
    """The verdict on the claim, with the three numbers."""
    row = made.judged
    claim = f"The claim of {made.subject}, ε {number(row.claim.epsilon)} at δ {row.claim.delta:.2g}"
    found = f"{recomputed_words(row)} recomputed, {measured_words(row)} measured"
    match row.verdict:
        case "refuted":
            return f"{claim}, IS FALSE: {found}."
        case "not proved":
            return f"{claim}, is not proved by what the code does: {found}."
        case "holds":
            return f"{claim}, holds for its parameters, and no sample contradicts it: {found}."
        case "not refuted":
            return f"{claim}, was not refuted, and its parameters are not known: {found}."


def number(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"


def recomputed_words(row: Row) -> str:
    found = row.recomputed
    if found is None:
        return "nothing"
    if found.at_least < found.epsilon:
        return f"ε from {number(found.at_least)} to {number(found.epsilon)}"
    return f"ε {number(found.epsilon)}"


def measured_words(row: Row) -> str:
    best = max(row.measured, key=lambda bound: bound.epsilon, default=None)
    return "nothing" if best is None else f"ε ≥ {number(rounded_down(best.epsilon, 4))}"


def cells(row: Row) -> tuple[str, str, str, str, str]:
    """A row of the table, under `HEAD`."""
    claim = row.claim
    claimed = f"ε {number(claim.epsilon)}, δ {claim.delta:.2g}"
    return f"{claim.unit}, {claim.relation}", claimed, recomputed_words(row), measured_words(row), row.verdict


def details(row: Row) -> list[tuple[str, str]]:
    """How the numbers of a row came about."""
    said = [] if row.recomputed is None else [("recomputed", row.recomputed.how)]
    said += [("measured", bound_words(bound)) for bound in row.measured]
    return said + [("assumed by the claim, and not so", sentence) for sentence in row.broken]


def bound_words(bound: LowerBound) -> str:
    assumed = f", if {bound.assumes}" if bound.assumes else ", whatever the mechanism is"
    return (
        f"ε ≥ {number(rounded_down(bound.epsilon, 4))}{assumed} ({bound.method}, {bound.samples:,} samples, "
        f"{bound.confidence:.4g} confidence)"
    )


def print_claim(made: ClaimAudit, width: int) -> str:
    """The audit as text."""
    from rich import box
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    console = Console(width=width, force_terminal=False, color_system=None, highlight=False, markup=False)
    table = Table(*HEAD, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in made.rows:
        table.add_row(*cells(row))
    with console.capture() as captured:
        console.print(sentence(made), "", f"The claim is from: {made.said_by}", table, sep="\n")
        for row in made.rows:
            if len(made.rows) > 1:
                console.print(f"{row.claim.unit}, {row.claim.relation}")
            for name, words in details(row):
                console.print(Padding(f"{name}: {words}", _INDENT))
        for title, lines in _lists(made):
            console.print("", title, sep="\n")
            for line in lines:
                console.print(Padding(line, _INDENT))
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _lists(made: ClaimAudit) -> list[tuple[str, list[str]]]:
    found = [
        ("What the code does", [f"{name}: {value}" for name, value in made.facts]),
        ("Warnings", list(made.warnings)),
        ("What was not tested", list(made.not_tested)),
    ]
    return [(title, lines) for title, lines in found if lines]


def plain(made: ClaimAudit) -> dict[str, Any]:
    """The audit for `json.dumps`; what is infinite stands as text."""
    data = {
        "summary": sentence(made),
        "subject": made.subject,
        "said_by": made.said_by,
        "verdict": made.judged.verdict,
        "confidence": made.confidence,
        "rows": [asdict(row) | {"verdict": row.verdict} for row in made.rows],
        "facts": dict(made.facts),
        "warnings": made.warnings,
        "not_tested": made.not_tested,
    }
    found: dict[str, Any] = finite(data)
    return found
