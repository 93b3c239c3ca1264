"""The release boundary: everything that leaves a client of a horizontal federation, and how it is protected.

releases(settings)      what leaves a client, field by field; a test compares it with the messages of runs
sentences(settings)     the same for people: who sees what
unprotected(settings)   what stays open by nature
covered(settings)       which figures of a run an epsilon covers: others are left out of what is shared
"""

from __future__ import annotations

from tacit.boundary import CLEAR, Boundary, Release
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
    Release("Reveal", "ids", "whose shares these are; whose is left out was no good", CLEAR),
    Release("Reveal", "shares", "shares that open the masks left in the sum", CLEAR),
    Release("Abort", "reason", "why a client leaves", "in the clear; no private values"),
)


def releases(settings: Settings) -> tuple[Release, ...]:
    """Everything that leaves a client, field by field."""
    return _training(settings) + _evaluation(settings)


def _training(settings: Settings) -> tuple[Release, ...]:
    encrypt = settings.encrypt
    match encrypt.encrypt_type:
        case "NOT_ENCRYPT":
            return (
                *_UPDATE,
                Release("Update", "vector", "the trained model", CLEAR),
                Release("Update", "samples", "the number of samples", CLEAR),
                Release("Update", "loss", "the training loss", CLEAR),
            )
        case "DP_ENCRYPT":
            how = (
                f"clipped to norm {encrypt.dp_encrypt.dp_norm_clip:g}, with Gaussian noise: "
                f"epsilon {encrypt.dp_encrypt.dp_eps:g} at delta {settings.delta:.3g} for each upload"
            )
            return (*_UPDATE, Release("Update", "vector", "the update", how))
        case "PW_ENCRYPT":
            how = "masked: the coordinator learns only the sum over the survivors; what the sum tells is not hidden"
            what = "the update times the number of samples, and that number"
            return (Release("Masked", "words", what, how), *_MASKS)
        case "DDP_ENCRYPT":
            distributed = encrypt.ddp_encrypt
            epsilon, delta = settings.central
            how = (
                f"clipped to norm {distributed.ddp_norm_clip:g}, with a share of Skellam noise, masked: the coordinator"
                f" learns only the noisy sum over {settings.fewest} or more survivors, epsilon {epsilon:g} at delta "
                f"{delta:.3g} for the run"
            )
            return (Release("Masked", "words", "the update", how), *_MASKS)


def _evaluation(settings: Settings) -> tuple[Release, ...]:
    if settings.unsupervised is None:
        return ()
    count = settings.unsupervised.vectors
    what = f"inference results on {count} of its samples, a vector of probabilities each"
    how = CLEAR
    if settings.encrypt.laplace_eval is not None and settings.encrypt.privacy_eval_type == "LAPLACE":
        how = f"with Laplace noise: epsilon {settings.encrypt.laplace_eval.laplace_eval_eps:g} for each vector"
    return (*_INFERENCE, Release("Inference", "vectors", what, how))


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
    found.append("The coordinator sees who takes part in which round, who leaves, and when messages arrive.")
    found.append("Clients are sent the model of each round, and with it whatever the model tells about all clients.")
    found.append(
        "Other clients see a client's number, its public keys and signatures, the shares that it sealed for them and "
        "hashes of these, and whether it stayed; nothing of its update."
        if settings.masked
        else "Other clients see nothing of a client's messages."
    )
    return found


def _colluders(settings: Settings) -> str:
    """Against whom the masks hold, and the epsilon of sums."""
    what = "Masks and epsilon hold" if settings.encrypt.encrypt_type == "DDP_ENCRYPT" else "Masks hold"
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
    found = []
    match settings.encrypt.encrypt_type:
        case "NOT_ENCRYPT":
            found.append("Updates are in the clear: the coordinator can reconstruct training samples from them.")
        case "DP_ENCRYPT":
            found.append(
                "Each client's total epsilon grows with every answer; a coordinator that breaks the protocol can ask "
                f"each client up to {settings.answers} times, which only a budget forbids."
            )
        case "PW_ENCRYPT":
            found.append(
                "No epsilon: what the sum of all updates, and so the model, tells about a client is not bounded."
            )
            found += _differences(settings)
    if settings.masked:
        found.append(_colluders(settings))
    if settings.encrypt.privacy_eval_type == "LAPLACE" and settings.encrypt.encrypt_type != "DP_ENCRYPT":
        found.append(f"A coordinator that does not follow the protocol can ask for vectors {settings.answers} times.")
    if settings.unsupervised is not None and settings.encrypt.privacy_eval_type == "NOT_ENCRYPT":
        found.append("Inference results are in the clear: they tell what each client's samples look like to the model.")
    found.append("Who takes part, when and for how long is not hidden.")
    found.append("A client that lies about its update can spoil the model: none of this stops it.")
    if settings.simulation.insecure_noise_seed is not None:
        found.append("insecure_noise_seed: noise and keys can be computed by anybody: every epsilon is infinite.")
    return found


def _differences(settings: Settings) -> list[str]:
    """What sums over nearly the same clients tell a coordinator that chooses whom it leaves out."""
    again = settings.round.repeats
    found = [
        "Two sums over nearly the same clients differ by the updates and sample counts of the few that are in one of "
        f"them alone. A client uploads for a model that it has uploaded for before at most {again} times in a run "
        "(round.repeats): each repeat may cost one such difference.",
        "A coordinator that moves the model a little each round still learns from differences: two rounds may tell it "
        "the update of one client, nearly exactly. Only noise (DDP_ENCRYPT) answers that.",
    ]
    least = settings.round.least_difference
    if least is not None:
        found.append(
            f"Clients that do not work with the coordinator refuse to open two sums whose survivors differ by 1 to "
            f"{least - 1} clients (round.least_difference: {least}). Several sums that differ by more can still be "
            "solved for one client."
        )
    return found


def covered(settings: Settings) -> frozenset[str]:
    """The figures of a run that an epsilon covers, by the name of the event's field: the rest is not for sharing.

    The model is a function of the protected updates where these have an epsilon, and so is what the coordinator
    measures of it on its own data. How many came, how long it took and how many bytes it was is nobody's epsilon.
    """
    if settings.simulation.insecure_noise_seed is not None:
        return frozenset()
    found = set()
    if settings.encrypt.encrypt_type in ("DP_ENCRYPT", "DDP_ENCRYPT"):
        found |= {"metrics", "update_norm"}
    if settings.encrypt.privacy_eval_type == "LAPLACE" and "metrics" in found:
        found.add("score")
    return frozenset(found)


def of(settings: Settings) -> Boundary:
    """All of it."""
    return Boundary(
        tuple(releases(settings)), tuple(sentences(settings)), tuple(unprotected(settings)), covered(settings)
    )
