"""The release boundary of the protocol on shares: what leaves a party or the dealer, and which openings are declared.

shared_releases(settings)       what is sent, field by field; a test compares it with the messages of runs
declared(settings)              the values that are opened, to whom; a test compares it with the openings of runs
shared_sentences(settings)      who sees what, for people
shared_unprotected(settings)    what stays open by nature
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.align.intersection import ALIGN_RELEASES
from tacit.boundary import CLEAR, Release, session_releases
from tacit.kinds.vertical_logistic import release
from tacit.kinds.vertical_logistic.label_counts_words import (
    label_count_releases,
    label_count_sentences,
    label_counts_open,
)
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared.histogram import LEAST, UNIT_BITS
from tacit.kinds.vertical_logistic.shared.messages import COUNTS, LOSS, RANKS, RELEASED, WEIGHTS

_A, _P, _D = "active", "passive", "dealer"
_NO_DATA = "depends on no data"
_PSEUDO = "pseudo-random words, from streams and trees that are used once"
_PADS = "the receiver can open one entry of each, which is the released value or under a uniform mask"
_WORDS = "uniform ring words: a share of it, under a mask that is used once"
_MARKS = ("of each of these steps a digest of words that both have seen opened", "nothing")
_SHARE = "the sender's share only: it is opened to the receiver, as declared"


@dataclass(frozen=True, slots=True)
class Declared:
    """A value that is opened: its stage in messages `Revealed`, what it is, and the name of the party that reads it."""

    stage: int
    what: str
    reader: str


def declared(settings: Settings) -> tuple[Declared, ...]:
    """Every value that training and one prediction open, and to whom; all else is opened under masks."""
    active = settings.active
    found = [
        Declared(WEIGHTS, "its own final weights" + (" and the intercept" if name == active else ""), name)
        for name in settings.owners
    ]
    if judges(settings):
        found.append(Declared(LOSS, "the sum of the losses of held-out rows", active))
        if settings.model == "logistic":
            found += [
                Declared(
                    RANKS, f"how many held-out rows score up to each grid point, to {1 << UNIT_BITS} rows", active
                ),
                Declared(COUNTS, f"held-out rows of each class in groups of more than {LEAST}", active),
            ]
    found.append(Declared(RELEASED, f"predictions: {_RELEASED[settings.release]} of each row", active))
    return tuple(found)


_RELEASED = {
    "exact": "the exact score",
    "points": "whole points",
    "decile": "the tenth, and of two classes the decision,",
    "decision": "the decision",
}


def judges(settings: Settings) -> bool:
    """Whether figures of held-out rows are opened to the active."""
    return settings.figures != "never"


def shared_releases(settings: Settings) -> tuple[Release, ...]:
    """Everything that leaves a party or the dealer, field by field."""
    pairs = [(_A, _P), (_P, _A)] + [(_P, _P)] * (len(settings.passives) > 1)
    dealer = settings.dealer is not None
    found = [*session_releases(_A, _P), *(session_releases(_A, _D) if dealer else ())]
    for receiver in (_P, _D)[: 1 + dealer]:
        found += [
            Release("Sizes", "rows", "the number of common rows, or of rows to predict", CLEAR, _A, receiver),
            Release("Sizes", "outputs", "how many outputs the model has: 1, or its classes", CLEAR, _A, receiver),
            Release("Sizes", "thresholds", _thresholds(settings), CLEAR, _A, receiver),
        ]
    for sender, receiver in [*pairs, *([(_A, _D), (_P, _D)] if dealer else [])]:
        found += [
            Release("Greeting", "agreed", "a digest of the terms", CLEAR, sender, receiver),
            Release("Greeting", "columns", "how many features it has", CLEAR, sender, receiver),
            Release("Greeting", "positions", "the steps that it can resume after", CLEAR, sender, receiver),
            Release("Greeting", "session", "the random number of a training that is resumed", CLEAR, sender, receiver),
            Release("Greeting", "marks", _MARKS[receiver == _D], CLEAR, sender, receiver),
        ]
    found += _dealt() if dealer else _transferred(settings)
    for sender, receiver in pairs:
        found += [*(_masked(sender, receiver) if dealer else ()), *_revealed(settings, sender, receiver)]
    if judges(settings):
        found += _judged(settings)
    found += label_count_releases(asked=bool(settings.counted))
    return (*ALIGN_RELEASES, *found) if settings.align else tuple(found)


def _thresholds(settings: Settings) -> str:
    if settings.release == "decile":
        return "of a prediction: the scores between tenths of the held-out rows, and that of the decision"
    return "of a prediction: the score from which the decision is the second class, if it releases decisions"


def _dealt() -> list[Release]:
    """Between the dealer and the parties that have data."""
    found = []
    for party in (_A, _P):
        found += [
            Release("Seeds", "session", "a random number", _NO_DATA, _D, party),
            Release("Seeds", "seed", "a random seed, of this party only", _NO_DATA, _D, party),
            Release("Deal", "serial", "the number of a set of correlated words", _NO_DATA, _D, party),
            Release("Deal", "purpose", "what it is for", _NO_DATA, _D, party),
            Release("Deal", "words", "the last party's shares of correlated words", _NO_DATA, _D, party),
            Release("Used", "serial", "the number of the deal that is used up", CLEAR, party, _D),
            Release("Used", "last", "whether the training ends early", CLEAR, party, _D),
        ]
    return found


def _transferred(settings: Settings) -> list[Release]:
    """Between two parties without a dealer."""
    found = []
    for sender, receiver in ((_A, _P), (_P, _A)):
        found += [
            Release("Offer", "points", "points of base transfers", _NO_DATA, sender, receiver),
            Release("Answer", "points", "points of base transfers, for random bits", _NO_DATA, sender, receiver),
            Release("Columns", "rows", "digits of its table; bits of its shares", _PSEUDO, sender, receiver),
            Release("Sums", "blocks", "nodes of random trees", _NO_DATA, sender, receiver),
            Release("Product", "words", "its shares of weights and residues, for each cell", _PSEUDO, sender, receiver),
        ]
    what = "labels and class weights, in tables at its shares of scores; carries of gradients"
    if settings.model == "linear":
        what = "carries of its shares of scores and gradients"
    found.append(Release("Hidden", "data", what, _PADS, _A, _P))
    if settings.release != "exact":
        what = next(each.what for each in declared(settings) if each.stage == RELEASED)
        found.append(Release("Hidden", "data", f"{what}, in tables at its part of the score", _PADS, _P, _A))
    return found


def _masked(sender: str, receiver: str) -> list[Release]:
    """Between two parties that have data, under a dealer's masks."""
    what = "its table, once in a meeting; shares of weights, scores, residues and gradients in each step"
    return [
        Release("Opening", "serial", "the deal whose masks hide it", CLEAR, sender, receiver),
        Release("Opening", "stage", "which opening of that deal it is", CLEAR, sender, receiver),
        Release("Opening", "words", what, _WORDS, sender, receiver),
    ]


def _revealed(settings: Settings, sender: str, receiver: str) -> list[Release]:
    """Declared openings."""
    found = [
        Release("Revealed", "serial", "the deal in use", CLEAR, sender, receiver),
        Release("Revealed", "stage", "which declared opening it is", CLEAR, sender, receiver),
    ]
    readers = {_A: (settings.active,), _P: settings.passives}[receiver]
    looked_up = settings.dealer is None and settings.release != "exact"  # not opened by a sum of shares
    said = dict.fromkeys(
        each.what
        for each in declared(settings)
        if each.reader in readers and not (looked_up and each.stage == RELEASED)
    )
    return found + [Release("Revealed", "words", what, _SHARE, sender, receiver) for what in said]


def _judged(settings: Settings) -> list[Release]:
    """What passives are told of figures."""
    found = [
        Release("Verdict", "serial", "the deal in use", CLEAR, _A, _P),
        Release("Verdict", "best", "whether the loss of held-out rows was the lowest so far", CLEAR, _A, _P),
        Release("Verdict", "last", "whether the training ends early", CLEAR, _A, _P),
    ]
    if settings.model == "logistic":
        found += [
            Release("Groups", "serial", "the deal in use", CLEAR, _A, _P),
            Release("Groups", "ends", "which ranges of scores are counted together", CLEAR, _A, _P),
        ]
    return found


# --- in words


def shared_sentences(settings: Settings) -> list[str]:
    """Who sees what, in words."""
    active, passives, dealer = settings.active, settings.passives, settings.dealer
    found = [
        "Weights, scores, residues and gradients are secret shares from the first step to the last: all that a party "
        "receives of them is uniform random words.",
        f"At the end each of {', '.join(settings.owners)} sees the weights of its own columns, and {active} the "
        "intercept.",
        _figures(settings),
        "Each party sees how many rows they have in common and how many features each has.",
        "Nobody sees another's rows, labels, weights or scaler.",
    ]
    if dealer is not None:
        found.insert(
            3,
            f"{dealer} has no data. It sees how many rows, columns and outputs there are, how many steps are done, and "
            "whether the training ends early; it sees no share and no opening.",
        )
    if judges(settings):
        more = ", and which ranges of scores are counted together" if settings.model == "logistic" else ""
        who = f"Each of {', '.join(passives)}" if len(passives) > 1 else passives[0]
        found.insert(3, f"{who} sees whether {active}'s loss was the lowest so far{more}.")
    if settings.model == "logistic":
        found.insert(-1, f"All see how many classes {active} has, if there are more than two.")
    if settings.align:
        unseen = "" if dealer is None else f"; {dealer} sees none"
        found.insert(0, f"Alignment shows the parties the ids that they have in common, and how many each has{unseen}.")
    return found + label_count_sentences(active, settings.counted) + release.sentences(settings)


def _figures(settings: Settings) -> str:
    active = settings.active
    if not judges(settings):
        return f"No figure is made of held-out rows: {active} sees no loss."
    often = "after each epoch" if settings.figures == "epoch" else "at the end"
    if settings.model == "linear":
        return f"{active} sees {often} the sum of the squared errors of the held-out rows, exactly."
    exactly = "exactly" if settings.dealer is not None else "each of a score rounded to a quarter at random"
    return (
        f"{active} sees {often} the sum of the losses of the held-out rows, {exactly}; how many of them score up to "
        f"each point of a grid, to within {1 << UNIT_BITS} rows, and exactly if no row scores near it; and how many of "
        f"each class there are in groups of more than {LEAST} rows."
    )


def shared_unprotected(settings: Settings) -> list[str]:
    """What stays open."""
    active, dealer = settings.active, settings.dealer
    found = [
        "What a party receives hides the other's table as long as AES and Diffie-Hellman on Curve25519 hold."
        if dealer is None
        else f"{dealer} together with any one of {', '.join(settings.owners)} opens everything: all tables, labels, "
        "scores and weights. Choose a dealer that colludes with none of them.",
        "All parties must follow the protocol: a share that is wrong on purpose is not noticed, and can spoil the "
        "model or choose what the declared openings show.",
        "The weights that each party ends with are a function of all tables and labels: they tell what they tell.",
    ]
    if judges(settings):
        found.append(
            f"The figures of held-out rows are exact or nearly so, without noise: {active} knows these rows' labels "
            "and its own columns, and may infer from the figures how single rows score. Figures that are made again, "
            "in each epoch or after a restart, tell more: hold out many rows, or set shares.figures: never."
        )
    if settings.release == "exact":
        found.append(
            f"Exact predictions give {active} the sum of the others' parts of every row's score: if it knows as many "
            "rows as they have columns from elsewhere, it computes their weights."
        )
    elif settings.release == "points":
        unit = 1 / abs(release.scale(settings).slope)
        found.append(
            f"Points are nearly exact: {active} learns the others' part of every row's score to within one point, "
            f"{unit:.2g} of the log odds. A larger predict.pdo shows more, a smaller one less; deciles and decisions "
            "hide most."
        )
    else:
        found.append(
            f"Predictions add up: from enough of them {active} estimates the part of a score that the others' columns "
            "make. predict.budget limits how many rows are answered."
        )
    found.append("A party that lies about its features can spoil the model: none of this stops it.")
    return found + label_counts_open(active, settings.counted)
