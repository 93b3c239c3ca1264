"""The outcome of an audit in one sentence that needs no mathematics, and the words that the rest of it needs.

sentence(audit)     how many attacks, what the best one got compared with guessing, which claims were refuted
GLOSSARY            the terms of the page, each in a sentence or two
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.audit.finding import Finding, Score
from tacit.audit.result import Audit, advantage

_MOST_NAMED = 3  # of the claims

GLOSSARY = {
    "attack": "A computation that tries to learn what is meant to stay hidden, from what a party of the protocol sees.",
    "canary": "An invented record that is put into the data on purpose, so that it can be counted how often an attack "
    "notices it.",
    "claim": "A statement about privacy that has a mathematical proof, such as an epsilon. An audit tests whether the "
    "program keeps it.",
    "clipping": "Shortening what one record or client contributes to a fixed length, so that no single one can "
    "contribute more than the noise hides.",
    "confidence": "How often a statement of this kind is right if the test is repeated. At 99.9%, one in a thousand is "
    "wrong by chance.",
    "delta": "The small probability with which the promise of epsilon may fail. It should be far below one divided by "
    "the number of records.",
    "epsilon": "How much an attacker can learn about one record or client at most: the smaller, the less. At 0 nothing "
    "can be learned; at 1 the odds of any conclusion change by a factor of at most 2.7; above 10 hardly anything is "
    "promised.",
    "guessing": "The score of an attacker without any information. An attack that scores no better learned nothing.",
    "lower bound": "An epsilon that an attack has shown to be the least that is true. If it is above the claimed one, "
    "the claim is false; if it is below, that proves nothing.",
    "membership inference": "An attack that tells whether a given record was in the training data.",
    "noise": "Random numbers that are added so that the part of a single record cannot be told from chance.",
    "owner": "A person or other party to whom records belong: a promise for owners covers all records of one of them "
    "together.",
    "record": "The data of one person, or one row, image or text: what is protected as a whole.",
    "refuted": "Shown to be false by an attack, with the stated confidence. A claim that is not refuted is not thereby "
    "proved.",
    "secure aggregation": "A way to add up the contributions of many clients so that only the sum becomes known.",
    "trade-off curve": "For each rate of false alarms of an attacker, the part of the true cases that the attacker "
    "must miss if the claim is true.",
}


def sentence(made: Audit) -> str:
    """How many attacks were made, what the best one got, and which claims were tested and refuted."""
    count = len(made.findings)
    if not count:
        return "No attack was made and no privacy claim was tested, so this audit says nothing about privacy."
    attacks = f"{count} attack{'s were' if count > 1 else ' was'} made on {made.settings.name}"
    return f"{attacks}; {_best(made.attacks)}; {_claims(made.audited, made.false_claims)}."


def _best(attacks: Sequence[Finding]) -> str:
    scored = [(score, each) for each in attacks if (score := each.on or each.off) is not None]
    if not scored:
        return "none of them tries to recover data, each tests a claim"
    score, best = max(scored, key=lambda pair: advantage(pair[0]))
    name = f"{'the best one' if len(scored) > 1 else 'the one that tries to recover data'} ({best.attack})"
    bare = "" if best.on is not None else " without any protection"
    got = (
        f"{score.value:.3g}{bare}, compared with {round(score.baseline, 3) + 0.0:.3g} by guessing ({_measured(score)})"
    )
    return f"{name} got {got}" if score.informative else f"{name} did not clearly do better than guessing: it got {got}"


def _measured(score: Score) -> str:
    name, _, of = score.metric.partition(" of ")
    meant = f"how often the attack ranks a true case above a false one, for {of}" if name == "AUC" else score.metric
    if name.startswith("SSIM"):
        meant = f"how alike pictures are, from 0 to 1: {score.metric}"
    return f"measured: {meant}" + ("; smaller is better for the attacker" if score.smaller_is_worse else "")


def _claims(tested: Sequence[Finding], refuted: Sequence[Finding]) -> str:
    names = _names(tested)
    if not names:
        return "no privacy claim was tested"
    false = _names(refuted)
    if not false:
        those = "the one privacy claim" if len(names) == 1 else f"{len(names)} privacy claims"
        verdict = "that was tested was not refuted" if len(names) == 1 else "were tested and none was refuted"
        return f"{those} {verdict} ({_listed(names)})"
    which = "IS FALSE" if len(false) == 1 else "ARE FALSE"
    return f"of {len(names)} privacy claim{'s' * (len(names) > 1)} tested, {len(false)} {which}: {_listed(false)}"


def _names(findings: Sequence[Finding]) -> list[str]:
    """Each claim once, however many attacks test it."""
    return list(dict.fromkeys(each.protection.partition(":")[0] for each in findings))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(f"“{name}”" for name in names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
