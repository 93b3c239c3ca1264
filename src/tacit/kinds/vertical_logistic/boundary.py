"""The release boundary: everything that leaves a party of a vertical logistic regression, and how it is protected.

releases(settings)      what leaves a party, field by field; a test compares it with the messages of runs
sentences(settings)     the same for people: who sees what
unprotected(settings)   what stays open by nature

It covers training and prediction, and alignment where the file asks for it.
Of the protocol on shares: `shared_boundary`.
"""

from __future__ import annotations

from tacit.align.intersection import ALIGN_RELEASES
from tacit.boundary import CLEAR, Boundary, Release, session_releases
from tacit.kinds.vertical_logistic import release
from tacit.kinds.vertical_logistic.label_counts_words import (
    label_count_releases,
    label_count_sentences,
    label_counts_open,
)
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared_boundary import shared_releases, shared_sentences, shared_unprotected

_A, _P = "active", "passive"
_PAILLIER = "encrypted with Paillier: only the active could decrypt"
_UNIFORM = "under a mask that is uniform modulo n, encrypted and re-randomised"


def releases(settings: Settings) -> tuple[Release, ...]:
    """Everything that leaves a party, field by field."""
    if settings.shared:
        return shared_releases(settings)
    found = [*session_releases(_A, _P)]
    for sender, receiver in ((_A, _P), (_P, _A)):
        found += [
            Release("Hello", "rows", "the number of common rows", CLEAR, sender, receiver),
            Release("Hello", "features", "how many features it has", CLEAR, sender, receiver),
            Release("Hello", "outputs", "how many outputs the model has: 1, or its classes", CLEAR, sender, receiver),
            Release("Hello", "positions", "the steps that it can resume at", CLEAR, sender, receiver),
            Release("Hello", "agreed", "a digest of the shared settings", CLEAR, sender, receiver),
            Release("Hello", "session", "the random number of a training that is resumed", CLEAR, sender, receiver),
        ]
    found += [
        Release("Begin", "session", "a random number", CLEAR, _A, _P),
        Release("Begin", "position", "the step that the training begins at", CLEAR, _A, _P),
        Release("Begin", "key", "a public Paillier key", CLEAR, _A, _P),
        Release("Begin", "certificate", "a proof that the key is sound", CLEAR, _A, _P),
        Release("Begin", "columns", "how many features all parties have together", CLEAR, _A, _P),
        Release("Residues", "ciphertexts", "the residues of a batch", _PAILLIER, _A, _P),
        Release(
            "Decrypted",
            "values",
            "a passive's gradient, to that passive",
            "under a mask that only that one knows",
            _A,
            _P,
        ),
        Release("Decrypted", "roots", "the randomness of that passive's ciphertext, as proof", CLEAR, _A, _P),
        Release("EpochOver", "best", "whether the loss was the lowest so far", CLEAR, _A, _P),
        Release("EpochOver", "last", "whether the training ends early", CLEAR, _A, _P),
        Release("Scores", "words", "the scores w·x of each row and output, in each epoch", _scores(settings), _P, _A),
        Release("MaskedGradient", "ciphertexts", "the gradient of a batch", _UNIFORM, _P, _A),
    ]
    if settings.summed:
        found.append(Release("MaskKey", "public", "a public key, fresh for each run", CLEAR, _P, _P))
    found += label_count_releases(asked=bool(settings.counted))
    unique = tuple(dict.fromkeys(found))  # a decryption answers gradients and counts alike
    return (*ALIGN_RELEASES, *unique) if settings.align else unique


def _scores(settings: Settings) -> str:
    if settings.summed:
        return f"under zero-sum masks: the active learns the sum over the {len(settings.passives)} passives only"
    return f"{CLEAR}: there is no other passive to hide among"


def sentences(settings: Settings) -> list[str]:
    """Who sees what, in words."""
    if settings.shared:
        return shared_sentences(settings)
    active, passives = settings.active, settings.passives
    if settings.summed:
        scores = f"{active} sees the sum of the scores w·x of {', '.join(passives)} for every row in every epoch"
    else:
        scores = f"{active} sees the score w·x of {passives[0]} for every row in every epoch, in the clear"
    found = [
        f"{scores}, and for every row that is predicted.",
        f"{active} decrypts each passive's gradient under a mask that is uniform modulo n: it sees a random number.",
        f"Each of {', '.join(passives)} sees its own gradients and, encrypted, the residues of {active}."
        if settings.summed
        else f"{passives[0]} sees its own gradients and, encrypted, the residues of {active}.",
        "Each party sees how many rows they have in common and how many features all have together, and the active how "
        "many each passive has.",
        f"The passives see after each epoch whether {active} continues, and whether its loss was the lowest so far."
        if settings.train.patience is not None
        else f"{active} tells nobody its loss.",
        "Nobody sees another's rows, weights or scaler; labels stay with the active.",
    ]
    if settings.model == "logistic":
        found.insert(-1, f"The passives see how many classes {active} has, if there are more than two.")
    if settings.align:
        found.insert(0, "Alignment shows the parties the ids that they have in common, and how many each has.")
    return found + label_count_sentences(active, settings.counted) + release.sentences(settings)


def unprotected(settings: Settings) -> list[str]:
    """What stays open."""
    if settings.shared:
        return shared_unprotected(settings)
    active = settings.active
    found = []
    if settings.summed:
        found.append(
            f"The sum of the scores is linear in the passives' features: over as many epochs as all of them have, "
            f"{active} learns the features of one passive if it knows as many of its rows from elsewhere. With all but "
            "one of the passives it sees the scores of the one that is left."
        )
    else:
        found.append(
            f"Scores are linear in the features of {settings.passives[0]}: over as many epochs as it has features "
            f"{active} learns them up to an unknown linear map, and fully if it knows as many rows from elsewhere."
        )
    found += [
        *_labels_open(settings),
        f"A passive that cheats can have {active} decrypt residues instead of a gradient, and so read labels; or send "
        "scores so large that residues are labels.",
        f"The checks of a passive stop residues that single out rows or reach beyond -1 to 1; if {active} cheats "
        "within these bounds it chooses which sums of rows enter the weights.",
        "A party that lies about its features can spoil the model: none of this stops it.",
    ]
    found += label_counts_open(active, settings.counted)
    found += settings.notes()[-1:] if any("checks that are off" in note for note in settings.notes()) else []
    return found


def _labels_open(settings: Settings) -> list[str]:
    """What honest gradients and scores tell."""
    active, spread = settings.active, settings.secret_spread
    if settings.model == "linear":
        named = (
            "If labels take few different values, lattice reduction names every label of a small batch from one "
            "gradient: take protocol: shared."
        )
    elif spread:
        named = (
            f"{active} adds a secret number of spread {spread:g} to the score of each training row, so that a gradient "
            "does not determine labels: by a count of possibilities, not by a proof, and anew in each training."
        )
    else:
        named = (
            "Nothing hides them (train.secret_spread: 0): lattice reduction names every label of a small batch from "
            "one gradient."
        )
    counted = "to within a few" if spread else "exactly"
    return [
        f"A passive's gradients tell about the labels: it can rank them better than by chance, rare ones best. {named}",
        f"A passive with columns of categories learns {counted} how many rows of each have a label, from one gradient, "
        f"whatever the batch; and equal scores show {active} which people are alike. If labels or categories must stay "
        "hidden, take protocol: shared.",
    ]


def of(settings: Settings) -> Boundary:
    """All of it. Nothing in such a run has an epsilon, so that no figure of it is for sharing."""
    return Boundary(
        tuple(releases(settings)), tuple(sentences(settings)), tuple(unprotected(settings)), covered=frozenset()
    )
