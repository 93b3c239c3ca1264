"""The release boundary: everything that leaves a client of a horizontal federation, and how it is protected.

releases(settings)      what leaves a client, field by field; a test compares it with the messages of runs
sentences(settings)     the same for people: who sees what
unprotected(settings)   what stays open by nature
covered(settings)       which figures of a run an epsilon covers: others are left out of what is shared
"""

from __future__ import annotations

from dataclasses import replace

from tacit.boundary import CLEAR, Boundary, Release
from tacit.kinds.horizontal.record_privacy import RecordPrivacy
from tacit.kinds.horizontal.settings import Settings

_ROUND = "a number that the coordinator chose"
_UPDATE = (
    Release("Update", "round", _ROUND, CLEAR),
    Release("Update", "sender", "who takes part", CLEAR),
)
_INFERENCE = (
    Release("Inference", "round", _ROUND, CLEAR),
    Release("Inference", "sender", "who takes part", CLEAR),
)
_MASKS = (
    Release("Advertise", "sender", "who takes part", CLEAR),
    Release("Advertise", "sealing_key", "a public key, fresh for each round", CLEAR),
    Release("Advertise", "masking_key", "a public key, fresh for each round", CLEAR),
    Release("Advertise", "signature", "a signature on the keys", CLEAR),
    Release("Shares", "session", "a digest that all parties know", CLEAR),
    Release("Shares", "sender", "who takes part", CLEAR),
    Release("Shares", "commitment", "a hash of a random seed", CLEAR),
    Release("Shares", "hashes", "hashes of the round's shares, of which none can be guessed", CLEAR),
    Release("Shares", "signature", "a signature on commitment, hashes and sealed shares", CLEAR),
    Release("Shares", "sealed", "shares of the round's secrets", "sealed for other clients (AES-GCM)"),
    Release("Masked", "session", "a digest that all parties know", CLEAR),
    Release("Masked", "sender", "who takes part", CLEAR),
    Release("Agreed", "session", "a digest that all parties know", CLEAR),
    Release("Agreed", "sender", "who takes part", CLEAR),
    Release("Agreed", "signature", "a signature on the list of survivors", CLEAR),
    Release("Reveal", "session", "a digest that all parties know", CLEAR),
    Release("Reveal", "sender", "who takes part", CLEAR),
    Release("Reveal", "ids", "whose shares these are; clients with invalid shares are left out", CLEAR),
    Release("Reveal", "shares", "shares that open the masks left in the sum", CLEAR),
    Release("Abort", "reason", "why a client leaves", "in the clear; no private values"),
)


def releases(settings: Settings) -> tuple[Release, ...]:
    """Everything that leaves a client, field by field: what its protections say, and the rest of their messages."""
    updates, vectors = settings.updates.releases(settings), settings.vectors.releases(settings)
    if settings.train.privacy is not None:
        updates = tuple(_trained_privately(each, settings.train.privacy) for each in updates)
    carried = (*updates, *_MASKS) if settings.masked else (*_UPDATE, *updates)
    return (*carried, *(_INFERENCE if vectors else ()), *vectors)


def _trained_privately(release: Release, privacy: RecordPrivacy) -> Release:
    if (release.message, release.field) not in {("Update", "vector"), ("Masked", "words")}:
        return release
    how = (
        f"trained by private SGD: epsilon {privacy.epsilon:g} at delta {privacy.delta:.3g} for each {privacy.unit} "
        f"over all rounds; {release.protection}"
    )
    return replace(release, protection=how)


def sentences(settings: Settings) -> list[str]:
    """Who sees what, in words."""
    found = []
    for release in releases(settings):
        if (release.message, release.field) in _OF_INTEREST:
            found.append(f"The coordinator is sent {release.what} of each client, {release.protection}.")
    if settings.masked:
        found.append(
            "The coordinator also relays keys and sealed shares between the clients: a share can be opened by the "
            "client for which it is sealed."
        )
    privacy = settings.train.privacy
    if privacy is not None:
        whom = "a single record" if privacy.unit == "record" else "a single owner, with all its records,"
        found.append(
            f"Anyone who sees all uploads of a client, as the coordinator does, learns about {whom} no more than "
            f"epsilon {privacy.epsilon:g} at delta {privacy.delta:.3g} allows, over all rounds together (add-remove). "
            "How many records a client has and its loss do not leave it: all clients weigh the same."
        )
    found.append("The coordinator sees who takes part in which round, who leaves, and when messages arrive.")
    found.append("Clients are sent the model of each round, and with it all that the model reveals about the clients.")
    found.append(
        "Other clients see a client's number, its public keys and signatures, the shares that it sealed for them and "
        "hashes of these, and whether it stayed; nothing of its update."
        if settings.masked
        else "Other clients see nothing of a client's messages."
    )
    return found


def _colluders(settings: Settings) -> str:
    """Against whom the masks hold, and the epsilon of sums."""
    what = "Masks and epsilon hold" if settings.updates.promises else "Masks hold"
    who = f"at most {settings.colluders} of the {settings.clients} clients that work with it (pw_encrypt.colluders)"
    if settings.mode == "active":
        return f"{what} against a coordinator that breaks the protocol and {who}; more may open single updates with it."
    return (
        f"The coordinator is trusted to follow the protocol (mode: semi_honest). {what} against it and {who}; nothing "
        "is promised if there are more."
    )


_OF_INTEREST = {
    ("Update", "vector"),
    ("Update", "samples"),
    ("Update", "loss"),
    ("Masked", "words"),
    ("Inference", "vectors"),
}


def unprotected(settings: Settings) -> list[str]:
    """What the chosen protection leaves open."""
    updates, vectors = settings.updates, settings.vectors
    found = [*updates.unprotected(settings)]
    if updates.masked:
        found.append(_colluders(settings))
    alone = updates.promises and not updates.masked  # then the sentence about updates holds for vectors too
    if vectors.promises and not alone:
        found.append(f"A coordinator that does not follow the protocol can ask for vectors {settings.answers} times.")
    found += vectors.unprotected(settings)
    if settings.train.privacy is not None:
        found.append(
            "train.privacy takes the number of records of a client for public, though it is not sent: steps and noise "
            "are chosen by it. How long a client trains, whether it has records at all and whether its training fails "
            "are covered by no epsilon."
        )
    found.append("Who takes part, when and for how long is not hidden.")
    found.append("A client that lies about its update can spoil the model: none of this stops it.")
    if settings.simulation.insecure_noise_seed is not None:
        found.append("insecure_noise_seed: anyone can compute noise and keys: every epsilon is infinite.")
    return found


def covered(settings: Settings) -> frozenset[str]:
    """The figures of a run that an epsilon covers, by the name of the event's field: the rest is not for sharing.

    The model is a function of the protected updates where these have an epsilon, and so is what the coordinator
    measures of it on its own data. How many came, how long it took and how many bytes it was is nobody's epsilon.
    """
    if settings.simulation.insecure_noise_seed is not None:
        return frozenset()
    found = set()
    if settings.updates.promises or settings.train.privacy is not None:
        found |= {"metrics", "update_norm"}
    if settings.vectors.promises and "metrics" in found:
        found.add("score")
    return frozenset(found)


def of(settings: Settings) -> Boundary:
    """All of it."""
    return Boundary(
        tuple(releases(settings)), tuple(sentences(settings)), tuple(unprotected(settings)), covered(settings)
    )
