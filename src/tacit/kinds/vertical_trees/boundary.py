"""The release boundary: everything that leaves a party of boosted trees between companies, and how it is protected.

releases(settings)      what leaves a party, field by field; a test compares it with the messages of runs
sentences(settings)     the same for people: who sees what
unprotected(settings)   what stays open by nature

It covers training and prediction, and alignment if the file asks for it. What attacks make of it: docs/trees-leaks.md.
"""

from __future__ import annotations

from tacit.align.intersection import ALIGN_RELEASES
from tacit.boundary import CLEAR, Boundary, Release, session_releases
from tacit.kinds.vertical_trees.settings import Settings

_A, _P = "active", "passive"
_NO_DATA = "depends on no data"
_PSEUDO = "under masks that are used once, from the leaf of a random tree that the passive lacks: pseudo-random"
_SHARE = "the passive's share only: with its own the active opens the sums of its words in each bin"
_ORDER = f"{CLEAR}; edges, categories and names stay with the passive"


def releases(settings: Settings) -> tuple[Release, ...]:
    """Everything that leaves a party, field by field."""
    found = [*session_releases(_A, _P), *_described(), *_set_up(), *_grown(settings)]
    return (*ALIGN_RELEASES, *found) if settings.align else tuple(found)


def _described() -> list[Release]:
    """What the active is told of a passive's features before any tree, and of rows to predict."""
    return [
        Release("Described", "rows", "the number of common rows, or of rows to predict", CLEAR, _P, _A),
        Release("Described", "bins", "how many bins each of its features has", CLEAR, _P, _A),
        Release("Described", "ordered", "of each feature whether it is numbers or categories", CLEAR, _P, _A),
        Release("Described", "signs", "of each feature its monotone constraint", CLEAR, _P, _A),
        Release("Described", "session", "the random number of trees of cells, or of a training", CLEAR, _P, _A),
        Release("Prepared", "session", "the random number of trees of cells that both hold", CLEAR, _A, _P),
    ]


def _set_up() -> list[Release]:
    """Once for all cells of a passive's table."""
    found = [
        Release("Offer", "points", "points of base transfers", _NO_DATA, _P, _A),
        Release("Answer", "points", "points of base transfers, for random bits", _NO_DATA, _A, _P),
        Release("Columns", "rows", "the bin of every cell, as choices of transfers", "hidden by streams", _P, _A),
        Release("Sums", "blocks", "nodes of random trees", _NO_DATA, _A, _P),
    ]
    for sender, receiver in ((_A, _P), (_P, _A)):
        found.append(Release("Tweak", "number", "how many words of each cell it has used", CLEAR, sender, receiver))
    return found


def _grown(settings: Settings) -> list[Release]:
    """In each tree, and in a prediction."""
    bits, least = settings.privacy.bits, settings.privacy.least
    rows = "nothing: rows of nodes are hidden" if settings.hidden else "the rows of a tree"
    nodes = "nothing: rows of nodes are hidden" if settings.hidden else "the rows of each node that a split divides"
    sides = "which rows go to that side: all rows" if settings.hidden else "which rows of the node go to that side"
    found = [
        Release("Begun", "tweak", "the number of the words that come next", CLEAR, _A, _P),
        Release("Begun", "meeting", "a random number, drawn each time the parties meet", _NO_DATA, _A, _P),
        Release("Begun", "used", "which of its features the tree may use", CLEAR, _A, _P),
        Release("Begun", "rows", rows, CLEAR, _A, _P),
        Release("Corrections", "words", f"gradient and hessian of each row, at {bits} bits", _PSEUDO, _A, _P),
        Release(
            "ShareSums", "words", f"sums of gradients and hessians by bin, of {least} rows or more", _SHARE, _P, _A
        ),
        Release("Divide", "features", "which of its features won", CLEAR, _A, _P),
        Release("Divide", "left", "which of its bins go to one side, that of the first bin", CLEAR, _A, _P),
        Release("Divide", "nodes", nodes, CLEAR, _A, _P),
        Release("Sides", "flags", f"{sides}, for each split that won and each row to predict", _ORDER, _P, _A),
        Release("Rounds", "done", "how many rounds of trees are done", CLEAR, _A, _P),
        Release("Rounds", "trees", "how many trees a round has: 1, or one for each class", CLEAR, _A, _P),
        Release("RoundsKept", "done", "how many rounds it has stored", CLEAR, _P, _A),
    ]
    if not settings.hidden:
        found.append(Release("Open", "nodes", "the rows of each node whose sums are due", CLEAR, _A, _P))
    return found


# --- in words


def sentences(settings: Settings) -> list[str]:
    """Who sees what, in words."""
    active, passives, privacy = settings.active, settings.passives, settings.privacy
    who = f"Each of {', '.join(passives)}" if len(passives) > 1 else passives[0]
    found = [
        f"{active} sees, for each feature of each passive, the sums of gradients and hessians (at {privacy.bits} bits) "
        f"by bin in every opened node, which has {privacy.least} rows or more; and the sides of rows at splits that "
        "won. Features and bins are numbers to it.",
        f"{active} sees how many features each passive has, how many bins each of them has, which are categories, and "
        "which have a monotone constraint.",
        *_passive_sees(settings, who),
        "Edges of bins, names of columns and categories, and values within a bin stay with their owner. "
        f"{active} sends no label, no gradient that a passive can read, and no value of a leaf. Passives see nothing "
        "of each other but common ids.",
        f"In a prediction {active} sees the side of each new row at the splits that its trees ask for, and gets the "
        "predictions; "
        + (
            "passives see which of their splits are in the trees, and no rows."
            if settings.hidden
            else "passives see which rows reach each of their splits."
        ),
    ]
    if settings.align:
        found.insert(0, "Alignment shows the parties the ids that they have in common, and how many each has.")
    return found


def _passive_sees(settings: Settings, who: str) -> list[str]:
    rounds = "how many rounds are done, how many trees a round has, how many nodes are opened"
    won = "which of its features each tree may use, and which of them, at which bins, won a split"
    words = "Of gradients it receives pseudo-random words only."
    if settings.hidden:
        drawn = ""
        if settings.train.rows < 1:
            drawn = ", but which rows each tree is grown from, as they follow from the seed, which all parties know"
        return [f"{who} sees {rounds}, {won}; not the rows of nodes{drawn}. {words}"]
    return [f"{who} sees {rounds}, {won}; and the rows of each tree, of opened nodes and of nodes it divides. {words}"]


def unprotected(settings: Settings) -> list[str]:
    """What stays open."""
    active, privacy = settings.active, settings.privacy
    values = settings.train.bins - 1
    found = [
        f"Assume that {active} learns the bin of every cell: the sums of all nodes of all trees are equations that "
        f"determine whole columns, and bits and least do not stop that. A cell is then known up to its group, one of "
        f"{values} of its column, or missing. Fewer train.bins make groups larger; a value or category of few rows may "
        "still be a group of few. Another training on these rows has other bins, and both together smaller groups.",
        f"Answers to splits tell {active} the order of the rows in columns that trees split by"
        + (", also of rows outside of a node, since they are answered for all rows." if settings.hidden else "."),
    ]
    if settings.hidden:
        found.append(
            f"Rows of nodes are hidden from passives, so that they cannot check privacy.least: they trust {active} to "
            f"open no node below {privacy.least} rows."
        )
    else:
        found.append(
            "A passive can rank the rows by label nearly as well as the model does: trees set the rows of the less "
            "frequent class apart, in nodes whose rows it sees. partition: hidden tells it less."
        )
    found += [
        "A passive is told which of its splits won, and they tell it which of its columns and bins go with the labels: "
        "it ranks the rows by label better than by its columns alone, without any known label.",
        f"All parties must follow the protocol. If {active} chooses its words, a few trees tell it the bin of every "
        "cell, and no check of a passive finds that.",
        "Each row that is predicted tells more of the passives' columns. predict.budget limits how many are answered.",
        "A party that lies about its features can spoil the model: none of this stops it.",
    ]
    return found


def of(settings: Settings) -> Boundary:
    """All of it. Nothing in such a run has an epsilon, so that no figure of it is for sharing."""
    return Boundary(
        tuple(releases(settings)), tuple(sentences(settings)), tuple(unprotected(settings)), covered=frozenset()
    )
