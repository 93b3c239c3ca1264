"""The page of an audit: one file, light and dark, without script or network."""

from __future__ import annotations

import math

from tacit.audit import drawings, summary
from tacit.audit import text as words
from tacit.audit.finding import Finding, Score
from tacit.audit.result import Audit
from tacit.config.load import resolved
from tacit.report import page
from tacit.report import page_sections as sections
from tacit.report.chart import Chart, inline
from tacit.report.markup import Markup, element, join
from tacit.report.promises import Promise, against, explained
from tacit.version import __version__


def whole_page(made: Audit) -> str:
    """`audit.html`. It may show records of the file's own task: for readers who may see those."""
    parts = [
        ("proved", "What is proved", _proved(made)),
        ("audited", "Proved and audited", _audited(made) if made.audited else None),
        ("attacks", "What attacks recover", _attacks(made)),
        ("each", "Attack by attack", join(*(_attack(each) for each in made.attacks)) if made.attacks else None),
        ("costs", "Cost in utility", _costs(made)),
        ("untested", "What was not tested", page.bullets(made.not_tested)),
        ("boundary", "Who sees what", sections.boundary(made.boundary)),
        ("settings", "Settings", _settings(made)),
        ("glossary", "Glossary", _glossary()),
    ]
    return page.page(
        f"{made.settings.name}: audit",
        _headline(made),
        *(_false(each) for each in made.false_claims),
        *page.sections(parts),
        element("footer", f"Made by tacit {__version__}."),
        styles=("audit.css",),
        images=True,
    )


def _headline(made: Audit) -> Markup:
    manner = "quick" if made.scope.quick else "full"
    lines = [
        element("p", summary.sentence(made), class_="summary"),
        element("p", made.protection),
        element("p", f"{made.settings.kind} · {manner} · seed {made.scope.seed}"),
    ]
    return join(page.header("Tacit audit", made.settings.name, *lines), page.cards(*_cards(made)))


def _cards(made: Audit) -> list[Markup]:
    found = []
    for proved in made.promises:
        promise = proved.promise
        at = f"at δ = {promise.delta:.2g}, " if promise.delta else ""
        note = f"{at}each {promise.unit}, {proved.relation}"
        found.append(page.card(f"Proved ε of the {promise.what}", words.epsilon_words(promise.epsilon), note))
    if not made.promises:
        found.append(page.card("Proved ε", words.NOTHING_PROVED, "nothing here has an ε"))
    if made.attacks:
        strongest = made.attacks[0]
        score = strongest.on or strongest.off
        if score is not None:
            what = "with the protection" if strongest.on else "nothing protects"
            note = f"{score.metric}, {what}; {words.baseline_words(score)} without information"
            found.append(page.card("Strongest attack", f"{score.value:.3g}", note))
    found.append(page.card("Attacks", str(len(made.attacks)), f"and {len(made.audited)} tests of claims"))
    found.append(page.card("False claims", str(len(made.false_claims)), "refuted by an attack"))
    return found


def _false(finding: Finding) -> Markup:
    return page.notice("bad", f"A claim is false: {finding.protection}", words.false_claim(finding) + ".")


def _proved(made: Audit) -> Markup:
    if not made.promises:
        return page.paragraph("Nothing in this file has an ε: what it tells is not bounded by any proof.")
    told = [_promised(each.promise) for each in made.promises]
    return join(*told, _charts([drawings.promise_curve(each, number) for number, each in enumerate(made.promises)]))


def _promised(promise: Promise) -> Markup:
    """A promise with what it allows an attacker, and no word on whether that is good."""
    epsilon, delta = words.epsilon_words(promise.epsilon), f"{promise.delta:.3g}"
    lead = element("strong", f"ε of the {promise.what}: {epsilon} at δ = {delta}. ")
    holds = "" if math.isinf(promise.epsilon) else f"It holds {against(promise)}. "
    return page.paragraph(lead, holds, explained(promise))


def _charts(charts: list[Chart]) -> Markup:
    found = [
        element(
            "figure",
            element("div", element("h3", chart.title), class_="figure-head"),
            inline(chart),
            element("figcaption", chart.caption),
        )
        for chart in charts
    ]
    return element("div", *found, class_="figures")


def _audited(made: Audit) -> Markup:
    rows = []
    for each in made.audited:
        bound = each.audited
        rows.append(
            (
                f"{each.attack} ({words.subject_words(each)})",
                f"{each.adversary}: {each.sees}",
                words.unit_words(each.proved),
                words.claim_words(each.proved),
                words.bound_words(bound),
                words.curve_words(each),
                words.confidence_of(each),
                f"{bound.method}, {bound.samples:,} samples" if bound else "",
            )
        )
    head = ["claim", "adversary, and what it sees", "unit, relation", "proved", "audited", "trade-off curve"]
    head += ["confidence", "method of the bound"]
    curves = [drawings.audited_curve(each, number) for number, each in enumerate(made.audited)]
    return join(
        page.paragraph(words.confidence_words(made)),
        page.table(head, rows, label="Proved and audited"),
        _charts([chart for chart in curves if chart is not None]),
    )


def _attacks(made: Audit) -> Markup:
    if not made.attacks:
        return page.paragraph("No attack of this audit has a score.")
    head = ["attack", "adversary", "measured", "off", "on", "no information"]
    rows = []
    for each in made.attacks:
        score = each.on or each.off
        baseline, metric = words.baseline_words(score), score.metric if score else ""
        shown = words.score_words(each.off), words.score_words(each.on)
        rows.append((each.attack, each.adversary, metric, *shown, baseline))
    return join(
        page.paragraph(
            "Strongest first. Off: without the protection; on: with it; the interval in brackets. The last column is "
            "the score of a guess without any information."
        ),
        element(
            "figure",
            drawings.reach(made.attacks),
            element("figcaption", "Each attack, with its interval."),
        ),
        page.table(head, rows, label="What attacks recover"),
    )


def _attack(found: Finding) -> Markup:
    """One attack: who, from what, against what, with every metric, and pictures."""
    about = [("adversary", found.adversary), ("sees", found.sees), ("protection", found.protection)]
    about.append(("proved", str(found.proved) if found.proved else words.NOTHING_PROVED))
    if found.audited is not None:
        about.append(("audited", str(found.audited)))
    if found.curve is not None:
        about.append(("trade-off curve", str(found.curve)))
    listed = [part for name, value in about for part in (element("dt", name), element("dd", value))]
    pairs: list[tuple[Score | None, Score | None]] = [(found.off, found.on), *found.also]
    rows = []
    for off, on in pairs:
        score = on or off
        if score is not None:
            rows.append((score.metric, words.score_words(off), words.score_words(on), words.baseline_words(score)))
    return element(
        "figure",
        element("h3", found.attack),
        element("dl", *listed),
        page.table(["measured", "off", "on", "no information"], rows, numbers=True, stacked=True, label=found.attack),
        drawings.strips(found.pictures) if found.pictures is not None else None,
        class_="attack",
    )


def _costs(made: Audit) -> Markup:
    costs = [words.cost_words(cost) for cost in made.costs]
    if not costs:
        return page.paragraph("Not measured: there is no protection to leave out, or nothing to measure it by.")
    head = ["figure", "without the protection", "with it"]
    return page.table(head, costs, numbers=True, stacked=True, label="Cost in utility")


def _glossary() -> Markup:
    listed = [part for term, said in summary.GLOSSARY.items() for part in (element("dt", term), element("dd", said))]
    return element("dl", *listed, class_="glossary")


def _settings(made: Audit) -> Markup:
    manner = "--quick" if made.scope.quick else "--full"
    return join(
        page.paragraph(
            "The same audit again, of a file with these settings or of the run. Tests whose noise the operating system "
            "draws, as in a real run, differ in the last digits:"
        ),
        page.code(f"tacit audit FILE|RUN {manner} --seed {made.scope.seed}"),
        page.folded("The settings, with every default filled in", page.code(resolved(made.settings))),
    )
