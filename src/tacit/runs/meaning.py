"""What an epsilon means, in words that claim no more than it does."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.dp.accounting import reading
from tacit.runs.record import Record
from tacit.runs.words import percent, short

# Scales of Laplace noise, beside probabilities between 0 and 1, up to which a score keeps its meaning. The silhouette
# of 600 softmax vectors of 10 classes is within 5% of the clean one up to 0.01, about half of it at 0.1, and that of
# pure noise from 0.5.
_FOLLOWS, _BLURRED, _FADES = 0.01, 0.1, 0.5

_HIDES_NOTHING = 10.0  # above this epsilon; e^10 is 22,026


@dataclass(frozen=True, slots=True)
class Promise:
    """An (epsilon, delta) that holds for something that clients release."""

    what: str  # "updates", "inference vectors" or both
    epsilon: float
    delta: float
    central: bool  # of the sums, not of each message


def promises(record: Record) -> list[Promise]:
    """What holds for updates and for inference vectors, and for both together where one ledger covers both."""
    encrypt = record.settings.encrypt
    broken = record.settings.simulation.insecure_noise_seed is not None
    central = encrypt.encrypt_type == "DDP_ENCRYPT"
    last = record.rounds[-1] if record.rounds else None
    booked = {account.covers: account for account in record.ledgers}
    found = []
    if encrypt.encrypt_type in ("DP_ENCRYPT", "DDP_ENCRYPT"):
        if account := booked.get(("updates",)):
            found.append(Promise("updates", account.epsilon, account.delta, central))
        elif last is not None:
            found.append(Promise("updates", _or_infinite(last.epsilon), last.delta or 0.0, central))
    if encrypt.privacy_eval_type == "LAPLACE":
        if account := booked.get(("inference vectors",)):
            found.append(Promise("inference vectors", account.epsilon, account.delta, False))
        elif last is not None and (last.evaluation_epsilon is not None or broken):
            found.append(Promise("inference vectors", _or_infinite(last.evaluation_epsilon), 0.0, False))
    for covers, account in booked.items():
        if len(covers) > 1:
            found.append(Promise(" and ".join(covers), account.epsilon, account.delta, account.view == "central"))
    return [Promise(each.what, math.inf, each.delta, each.central) if broken else each for each in found]


def hollow(record: Record) -> frozenset[str]:
    """The figures, by the names of events' fields, that an epsilon covers without hiding anything."""
    found: set[str] = set()
    for promise in promises(record):
        if promise.epsilon > _HIDES_NOTHING:
            found |= {"score"} if promise.what == "inference vectors" else {"metrics", "update_norm", "score"}
    return frozenset(found)


def strength(epsilon: float) -> str:
    """In a word or two."""
    if epsilon <= 1:
        return "a strong promise"
    if epsilon <= 3:
        return "a fair promise"
    if epsilon <= _HIDES_NOTHING:
        return "a weak promise"
    return "promises nothing" if math.isinf(epsilon) else "hides nothing"


def against(promise: Promise) -> str:
    """For whom an epsilon holds, and against whom."""
    if promise.central:
        return "for each client, against whoever sees the noisy sums: the coordinator, and everybody who has the model"
    if promise.what == "inference vectors":
        return "for each client, against the coordinator, which sees its noisy vectors one by one"
    return (
        "for each client, against the coordinator, which sees its noisy messages one by one; it is that of the client "
        "with the most uploads, and holds for all"
    )


def explained(promise: Promise) -> str:
    """What an attacker may achieve against a promise."""
    if math.isinf(promise.epsilon):
        return "it promises nothing, and does not rule out that an attacker is certain of what a client sent."
    read = reading(promise.epsilon, min(promise.delta, 1 - 1e-12))
    question = (
        "whether a client's update is in the sums"
        if promise.central
        else f"which of two equally likely sets of {promise.what} is a client's"
    )
    certain = (
        "It allows an attacker to be all but certain of what a client sent. "
        if promise.epsilon > _HIDES_NOTHING
        else ""
    )
    return (
        f"{certain}Asked {question}, an attacker is right at most {percent(read.accuracy)} of the time (50% is "
        f"guessing); with 1% false alarms he finds at most {percent(read.true_positives_at_1_percent)} of the true "
        "cases (1% is guessing)."
    )


def laplace(epsilon: float) -> str:
    """What a score of vectors with Laplace noise says about the model. `epsilon` is that of each vector."""
    scale = 2 / epsilon
    noise = (
        f"Each vector has ε = {short(epsilon)}, so each of its probabilities gets Laplace noise of scale 2/ε = "
        f"{short(scale, 3)}. "
    )
    if scale <= _FOLLOWS:
        return noise + (
            "Beside probabilities between 0 and 1 that is next to nothing: the score follows the one without "
            "protection, and for the same reason the noise hides nothing of a vector."
        )
    if scale <= _BLURRED:
        return noise + (
            "Beside probabilities between 0 and 1 that is visible: the score is pulled towards that of noise, so "
            "compare it with other rounds of this run and not with runs of another ε."
        )
    if scale < _FADES:
        return noise + (
            "That is a large part of a probability's whole range, from 0 to 1: noise often decides to which cluster a "
            "vector counts, and the score follows the model only faintly."
        )
    size = "larger than" if scale > 1 else "comparable to"
    return noise + (
        f"That is {size} the whole range of a probability, from 0 to 1: the score is one of noise and says nothing "
        "about the model."
    )


def _or_infinite(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon
