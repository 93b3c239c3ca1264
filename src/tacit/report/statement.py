"""The page of a pack that people sign: a run's facts as answers to what auditors ask.

It answers what follows from the file, the ledgers and the boundary. What only the operator knows has an empty line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.boundary import Boundary
from tacit.dp.accounting import reading, strength
from tacit.report import page
from tacit.report.markup import Markup, element, join
from tacit.report.numbers import short
from tacit.sections import Settings

_BLANK = element("span", "to be filled in by the operator:", class_="blank")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the page is made of: all of it is in the pack too."""

    settings: Settings
    boundary: Boundary
    party: str
    ledgers: Sequence[Mapping[str, Any]]
    audit: Mapping[str, Any] | None
    packages: Mapping[str, Any]
    made: str


def statement(facts: Facts) -> str:
    """The whole page."""
    parts = [
        ("limits", "What this pack proves, and what it does not", _limits()),
        ("nist", "Questions of NIST SP 800-226", _nist(facts)),
        ("gdpr", "GDPR, Article 35(7)", _gdpr(facts)),
        ("act", "EU AI Act, technical documentation (Annex IV)", _act(facts)),
        ("signature", "Signature", _signature(facts)),
    ]
    return page.page(
        f"{facts.settings.name}: statement",
        page.header("Tacit evidence", facts.settings.name, element("p", f"{facts.settings.kind} · {facts.party}")),
        *page.sections(parts),
        element("footer", f"Made on {facts.made}."),
        styles=("statement.css",),
    )


def _limits() -> Markup:
    return join(
        page.paragraph(
            "tacit verify shows who signed this pack, that nothing in it was changed since, and that its figures "
            "follow from the events that it lists. It needs the signer's public key, or the authority's certificate, "
            "from another source than this pack."
        ),
        page.notice(
            "fair",
            "Not proved",
            "That the run happened as it is told here (honest execution), and that nothing else was released "
            "(completeness). A signer who lies can write another log, with figures that follow from it.",
        ),
    )


def _table(rows: Sequence[tuple[str, Markup | str]]) -> Markup:
    lines = [element("tr", element("th", question, scope="row"), element("td", answer)) for question, answer in rows]
    return element("table", element("tbody", *lines), class_="answers")


def _nist(facts: Facts) -> Markup:
    """The questions of NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees."""
    if not facts.ledgers:
        promises: Markup | str = "No epsilon: nothing in this run is differentially private."
        units = relations = "none"
    else:
        promises = page.bullets([_promise(each) for each in facts.ledgers])
        units = ", ".join(sorted({str(each["unit"]) for each in facts.ledgers}))
        relations = ", ".join(sorted({str(each["relation"]) for each in facts.ledgers}))
    versions = facts.packages.get("packages") or {}
    return _table(
        [
            ("Unit of privacy", units),
            ("Neighbouring relation", relations),
            ("Parameters, and what they allow an attacker", promises),
            ("Mechanisms", _mechanisms(facts)),
            ("Trust model: who sees what", page.bullets(facts.boundary.sees)),
            ("What no epsilon covers", page.bullets(facts.boundary.unprotected)),
            ("Audit", _audit(facts)),
            (
                "Implementation",
                "Noise is drawn from keyed generators (ChaCha20, AES) whose keys come from the operating system. "
                "Discrete Laplace, discrete Gaussian and Skellam noise is exact or within a stated distance, which is "
                "part of delta; the fast tier of private training draws floating-point noise, whose last bits are not "
                "covered. Side channels of timing and memory are not covered.",
            ),
            ("Software", f"Tacit {facts.packages['installed']['tacit']}" + _listed(versions)),
            ("Source of the installed package, SHA-256", element("code", str(facts.packages["installed"]["sha256"]))),
            ("Collection of the data, consent, retention, access", _BLANK),
            ("Other releases about the same people", _BLANK),
        ]
    )


def _listed(versions: Mapping[str, Any]) -> str:
    return "".join(f", {name} {version}" for name, version in versions.items() if name != "tacit")


def _promise(ledger: Mapping[str, Any]) -> str:
    covers = " and ".join(map(str, ledger["covers"]))
    if ledger["epsilon"] == "infinite" or math.isinf(float(ledger["epsilon"])):
        return f"{covers}: epsilon is infinite, which promises nothing."
    epsilon, delta = float(ledger["epsilon"]), float(ledger["delta"])
    whom = f" It holds {ledger['against']}." if ledger.get("against") else ""
    allows = reading(epsilon, delta)
    return (
        f"{covers}: epsilon {short(epsilon)} at delta {short(delta, 3)} for each {ledger['unit']} under "
        f"{ledger['relation']}, {strength(epsilon)}.{whom} That is: {allows}."
    )


def _mechanisms(facts: Facts) -> Markup | str:
    found = []
    for ledger in facts.ledgers:
        for line in ledger.get("lines", ()):
            others = ", ".join(f"{key} {value}" for key, value in line.items() if key not in ("kind", "count"))
            found.append(f"{line.get('kind')}, {line.get('count')} times ({others})")
    return page.bullets(dict.fromkeys(found)) if found else "none"


def _audit(facts: Facts) -> Markup | str:
    if facts.audit is None:
        return "Not audited: tacit audit RUN attacks the claims, and its findings then are part of the pack."
    tested, false = len(facts.audit["findings"]), facts.audit["false_claims"]
    length = "quick" if facts.audit["quick"] else "full"
    verdict = f"{false} of the claims were found false." if false else "None of the claims was found false."
    return f"A {length} audit tested {tested} claims or rules. {verdict}"


def _gdpr(facts: Facts) -> Markup:
    sent = sorted({f"{each.message}.{each.field}: {each.protection}" for each in facts.boundary.releases})
    measures = [_measure(each) for each in facts.ledgers] or ["see what is sent"]
    return _table(
        [
            ("(a) Description of the processing", _processing(facts, sent)),
            ("(a) Purposes, and legitimate interest", _BLANK),
            ("(b) Necessity and proportionality", _BLANK),
            ("(c) Risks: what stays open", page.bullets(facts.boundary.unprotected)),
            ("(c) Risks to the people concerned, as the operator judges them", _BLANK),
            ("(d) Measures", page.bullets(measures)),
            ("Advice of the data protection officer; views of the people concerned (Art. 35(2), (9))", _BLANK),
        ]
    )


def _measure(ledger: Mapping[str, Any]) -> str:
    epsilon = "infinite" if ledger["epsilon"] == "infinite" else short(float(ledger["epsilon"]))
    return f"{' and '.join(map(str, ledger['covers']))}: epsilon {epsilon} at delta {short(float(ledger['delta']), 3)}"


def _processing(facts: Facts, sent: Sequence[str]) -> Markup:
    kind = facts.settings.kind.replace("_", " ")
    return join(
        page.paragraph(
            f"A training of the kind {kind}. Records stay with the party that holds them. What leaves a party:"
        ),
        page.bullets(sent) if sent else page.paragraph("Nothing: there is one party."),
    )


def _act(facts: Facts) -> Markup:
    return _table(
        [
            ("1. Intended purpose, persons who developed it", _BLANK),
            ("1. Versions of software", f"Tacit {facts.packages['installed']['tacit']}"),
            (
                "2(a). Methods of development",
                f"{facts.settings.kind.replace('_', ' ')}; all settings are in config.yaml",
            ),
            ("2(d). Data: where it comes from, how it was selected and labelled", _BLANK),
            (
                "2(g). Validation and testing: metrics",
                "In events.jsonl, if an epsilon covers them; otherwise not in this pack.",
            ),
            ("2(h). Cybersecurity", page.bullets(facts.boundary.sees)),
            ("3. Limitations, foreseeable risks", page.bullets(facts.boundary.unprotected)),
            ("5. Risk management (Article 9)", _BLANK),
            ("9. Post-market monitoring (Article 72)", _BLANK),
        ]
    )


def _signature(facts: Facts) -> Markup:
    rows: list[tuple[str, Markup | str]] = [
        (what, _BLANK) for what in ("Name and function", "Place and date", "Signature")
    ]
    return join(
        page.paragraph(
            "The signature by key is in manifest.sig. A person who takes responsibility for the answers above signs "
            "here."
        ),
        _table(rows),
    )
