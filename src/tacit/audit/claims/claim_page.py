"""The page of an audited claim: one file, light and dark, without script or network."""

from __future__ import annotations

from tacit.audit.claims import claim_text as words
from tacit.audit.claims.verdict import ClaimAudit, Row
from tacit.report import page
from tacit.report.markup import Markup, element, join
from tacit.version import __version__

_TONES: dict[str, page.Tone] = {"refuted": "bad", "not proved": "bad", "holds": "plain", "not refuted": "plain"}


def claim_page(made: ClaimAudit) -> str:
    """The page. It holds no records: neighbours are of the audit's own making, or only their scores were kept."""
    row = made.judged
    cards = page.cards(
        page.card("Claimed ε", words.number(row.claim.epsilon), f"at δ = {row.claim.delta:.2g}, from {made.said_by}"),
        page.card("Recomputed", words.recomputed_words(row), row.recomputed.how if row.recomputed else ""),
        page.card("Measured", words.measured_words(row), f"with {made.confidence:.4g} confidence"),
        page.card("Verdict", row.verdict, "", _TONES[row.verdict]),
    )
    parts = [
        ("numbers", "Claimed, recomputed and measured", _numbers(made)),
        ("facts", "What the code does", _facts(made)),
        ("warnings", "Warnings", page.bullets(made.warnings) if made.warnings else None),
        ("untested", "What was not tested", page.bullets(made.not_tested) if made.not_tested else None),
        ("meaning", "How to read this", _meaning(made)),
    ]
    return page.page(
        f"{made.subject}: audit of a claim",
        page.header("Tacit audit of a claim", made.subject, element("p", words.sentence(made), class_="summary")),
        cards,
        *page.sections(parts),
        element("footer", f"Made by tacit {__version__}."),
        styles=("audit.css",),
    )


def _numbers(made: ClaimAudit) -> Markup:
    table = page.table(words.HEAD, [words.cells(row) for row in made.rows], label="Claimed, recomputed and measured")
    return join(table, *(_how(row) for row in made.rows))


def _how(row: Row) -> Markup:
    listed = [part for name, said in words.details(row) for part in (element("dt", name), element("dd", said))]
    return join(element("h3", f"{row.claim.unit}, {row.claim.relation}"), element("dl", *listed))


def _facts(made: ClaimAudit) -> Markup:
    return page.table(["figure", "value"], made.facts, label="What the code does")


def _meaning(made: ClaimAudit) -> Markup:
    return join(
        page.paragraph(
            "Recomputed: from the parameters that the code uses, by Tacit's accountant. Measured: the code was run on "
            "two neighbouring inputs, and a lower bound on ε follows from how well its outputs tell them apart; all "
            f"bounds of a row hold together with {made.confidence:.4g} confidence."
        ),
        page.paragraph(
            "A claim below a measured ε, or below one that is exact for its parameters, is refuted. A claim that is "
            "not refuted is not proved: other inputs, or other parts of the program, may reveal more."
        ),
    )
