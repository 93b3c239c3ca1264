"""The release boundary of split learning: everything that leaves the leader or a follower, and how it is protected.

releases(settings)      field by field, with who sends and who receives; a test compares it with the messages of runs
sentences(settings)     the same for people: who sees what
unprotected(settings)   what stays open
"""

from __future__ import annotations

from tacit.boundary import CLEAR, Boundary, Release, session_releases
from tacit.kinds.split.settings import Settings

_ALL = ("follower", "leader")
_OFFER = {
    "purpose": "whether it trains or predicts",
    "topology": "how the network is cut",
    "records": "the number of its records",
    "test_records": "the number of its test records",
    "batch": "the size of a batch",
    "steps": "the number of batches",
    "total_steps": "the number of steps",
    "cut": "the dimensions of the cut",
    "back_cut": "the dimensions of the cut on the way back",
    "dtype": "the type of the activations",
    "eps": "the eps of EmbeddingDP",
    "quantized": "whether activations cross as bits",
    "reached": "the steps at which it has saved its part",
}
_START = {
    "step": "the step that the training begins at",
    "records": "the number of records",
    "test_records": "the number of test records",
}
_TENSOR = {"step": "the number of the step", "shape": "its dimensions", "dtype": "its type"}


def releases(settings: Settings) -> tuple[Release, ...]:
    """Everything that leaves a party, field by field."""
    found = [_release("Offer", key, what, CLEAR, sender) for key, what in _OFFER.items() for sender in _ALL]
    found += [_release("Start", key, what, CLEAR, "leader") for key, what in _START.items()]
    found += [_release("Reached", "step", "that it has come so far", CLEAR, sender) for sender in _ALL]
    found += [_release("Failed", "reason", "why it cannot continue", CLEAR + "; no private values", s) for s in _ALL]
    activations = ("follower",) if settings.topology == "V" else ("leader", "follower")
    gradients = ("leader",) if settings.topology == "V" else ("leader", "follower")
    for message, senders in (("Activations", activations), ("Gradient", gradients)):
        found += [_release(message, key, what, CLEAR, sender) for key, what in _TENSOR.items() for sender in senders]
    if settings.align:
        found += session_releases("leader", "follower")
    return (*found, *_bodies(settings))


def _bodies(settings: Settings) -> tuple[Release, ...]:
    if settings.topology == "V":
        return (
            _release(
                "Activations",
                "body",
                "activations of each follower's features",
                embedding_protection(settings),
                "follower",
            ),
            *_gradients("the gradient of the loss at the cut, which depends on labels", settings),
        )
    own = "activations of the leader's own records, after the trunk"
    back = "the gradient at the first cut, of the leader's own records"
    clear = "in the clear; of the receiver's own records, and of the trunk"
    return (
        _release(
            "Activations", "body", "activations of the leader's records", embedding_protection(settings), "leader"
        ),
        _release("Activations", "body", own, clear, "follower"),
        *_gradients("the gradient of the loss at the second cut, which depends on records and labels", settings),
        _release("Gradient", "body", back, clear, "follower"),
        _release("Gradient", "scales", "the largest of each record's gradients", clear, "follower"),
    )


def _gradients(what: str, settings: Settings) -> tuple[Release, ...]:
    how = gradient_protection(settings)
    return (
        _release("Gradient", "body", what, how, "leader"),
        _release("Gradient", "scales", "the largest of each record's gradients (8 bits)", how, "leader"),
    )


def embedding_protection(settings: Settings) -> str:
    """What happens to activations of private records before they cross."""
    embedding = settings.embedding
    if embedding is None:
        return CLEAR
    if embedding.eps is None:
        return "as sign bits, without noise: no epsilon"
    each = f"eps {embedding.eps:g} a one-hot vector" if embedding.domain else f"eps/2 = {embedding.eps / 2:g} a bit"
    return f"as sign bits under randomized response (EmbeddingDP): {each}, each time that a record is visited"


def gradient_protection(settings: Settings) -> str:
    given = settings.gradients
    if given.protection == "none":
        labels = "; labels were randomized before (LabelDP)" if settings.label_dp is not None else ""
        return f"{CLEAR}: epsilon none{labels}"
    level = f"epsilon {given.epsilon:g} at delta {given.delta:.3g} for the training" if given.epsilon else ""
    level = level or f"noise of {given.noise_multiplier:g} times the sensitivity {2 * given.clip:g}"
    return f"clipped to norm {given.clip:g} and noised for each record: {level}"


def _release(message: str, field: str, what: str, protection: str, sender: str) -> Release:
    return Release(message, field, what, protection, sender, "leader" if sender == "follower" else "follower")


def sentences(settings: Settings) -> list[str]:
    """Who sees what, in words."""
    found = []
    for release in _bodies(settings):
        if release.field == "body":
            receivers = (settings.leader,) if release.receiver == "leader" else settings.followers
            verb = "is" if len(receivers) == 1 else "are each"
            found.append(f"{' and '.join(receivers)} {verb} sent {release.what}, {release.protection}.")
    if settings.label_dp is not None:
        found.append(
            f"Labels are randomized once, before training: eps {settings.label_dp.eps:g} for each label, whatever is "
            "computed from them."
        )
    found.append(f"{settings.leader} keeps labels, loss and metrics to itself; nobody sends its part of the network.")
    found.append("All see how many records there are, how the network is cut, and when messages arrive.")
    return found


def unprotected(settings: Settings) -> list[str]:
    """What the chosen protections leave open."""
    found = []
    embedding, own = settings.embedding, settings.followers if settings.topology == "V" else (settings.leader,)
    whose = " and ".join(own)
    if embedding is None:
        found.append(f"Activations are in the clear: features of {whose} can be reconstructed from them.")
    elif embedding.eps is None:
        found.append(f"Sign bits without noise: no epsilon for the features of {whose}.")
    else:
        found.append(
            "The eps of EmbeddingDP is not that of a record: it is eps/2 for each bit and visit, which adds up"
            + ("." if embedding.domain is None else ", unless vectors are one-hot as declared: then eps for each.")
        )
        found.append(
            "A record's epsilon covers its own bits. What the network before the cut learnt from it shows in the bits "
            "of other records later on, and is not covered."
        )
    if settings.gradients.protection == "none" and settings.label_dp is None:
        found.append(f"Gradients cross back in float, epsilon none: labels of {settings.leader} can be read from them.")
    if settings.gradients.protection == "none" and settings.topology == "U" and embedding is not None:
        found.append(
            f"EmbeddingDP does not cover the gradients of {settings.leader}, which depend on the same records: the "
            "records have no epsilon as a whole."
        )
    if settings.gradients.protection == "noised":
        found.append(
            "The epsilon of gradients covers a record's own gradients, not what the leader's network learnt from it."
        )
    if settings.spends:
        found.append(
            "Layers that are known to mix records, or to keep statistics of them, are refused. A network that mixes "
            "records by code of its own is not noticed, and its epsilon is then too small."
        )
    found.append("A party that does not follow the protocol can choose gradients or activations to learn more.")
    found.append("The trained parts remember records; anyone who is given a part can attack it.")
    if settings.simulation.insecure_noise_seed is not None:
        found.append("insecure_noise_seed: anyone can compute the noise: every epsilon is infinite.")
    return found


def of(settings: Settings) -> Boundary:
    """All of it. An epsilon covers no figure of a run: loss and metrics are of private records and stay local."""
    return Boundary(
        tuple(releases(settings)), tuple(sentences(settings)), tuple(unprotected(settings)), covered=frozenset()
    )
