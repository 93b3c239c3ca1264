"""Tokens recovered: what the cloud learns of a text whose embedding and head are elsewhere (topology U).

    audit_tokens(settings)      each attack without and with EmbeddingDP, at the file's level or at several

The follower sees floats or bits of each token, each time that a record is visited, and the gradient at the second cut.
    nearest code, first embedding       the initial table, if that is known
    nearest code, known text            a code for each token by majority over its visits in text that is known
    gradients that cross back           the next token, by the direction of its gradient; EmbeddingDP is no part of it
A token that the known text does not have cannot be recovered by the last two, and counts as missed. A guess
without any information is the most frequent token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.audit.finding import Cost, Finding, Score
from tacit.audit.intervals import mean_score
from tacit.dp.claim import Claim
from tacit.kinds.split.attacks.embeddings import LEVELS, Make
from tacit.kinds.split.attacks.recording import Indices, Recording, at_most, record_cut
from tacit.kinds.split.forecast import Sizes, forecast
from tacit.kinds.split.settings import EmbeddingProtection, Gradients, Settings
from tacit.kinds.split.task import Ends
from tacit.kinds.split.tasks.load import make_part

Floats = NDArray[np.float32]
QUICK, FULL = 300, None  # records of the training
_KNOWN = 0.5  # of the records: text that the attacker knows
_DRIFT = 0.02  # bits that differ from the code because the embedding learns on
_SPREAD = 0.1  # of floats around their code, for the same reason, in deviations of the table
_WORTH = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # of a cosine, relative to the logarithm of a frequency
_CHUNK = 4096  # tokens compared together


@dataclass(frozen=True, slots=True, eq=False)
class Listened:
    """What the follower saw, [visit, record, place, ...], the text, and how much of it is known."""

    recording: Recording
    activations: Floats
    gradients: Floats
    first_codes: Floats  # [token, number]: the embedding before the training
    text: Indices  # [record, place]
    following: Indices  # the next token at each place

    @property
    def known(self) -> int:
        return int(_KNOWN * len(self.text))

    @property
    def tokens(self) -> int:
        return len(self.first_codes)

    @property
    def flip(self) -> float | None:
        embedding = self.recording.settings.embedding
        return None if embedding is None else embedding.flip_probability

    def prior(self, text: Indices) -> NDArray[np.float64]:
        """The logarithm of how often each token is in the known text."""
        counts = np.bincount(text[: self.known].reshape(-1), minlength=self.tokens) + 0.1
        return np.asarray(np.log(counts / counts.sum()))


def listen(settings: Settings, protection: EmbeddingProtection | None, records: int | None, make: Make) -> Listened:
    """Train under this protection and keep what the follower sees."""
    settings = settings.model_copy(update={"embedding_dp": protection, "budget": None})
    parts = {name: make(settings, name) for name in settings.parties}
    ends, first = parts[settings.leader], make(settings, settings.leader)
    if not isinstance(ends, Ends) or not isinstance(first, Ends) or ends.train.features is None:
        raise ValueError(f"{settings.leader} has no text to attack")
    if ends.train.features.dtype.kind != "i" or ends.train.features.ndim != 2:
        raise ValueError("records are not sequences of tokens: use a task with whole numbers")
    recording = record_cut(settings, at_most(parts, records))
    view = recording.view(settings.followers[0], settings.leader)
    text, following = ends.train.features[:records], ends.train.labels
    assert following is not None  # noqa: S101
    size = int(max(text.max(), following.max())) + 1
    with torch.no_grad():
        codes = first.embedding(torch.arange(max(size, ends.classes or 0))[:, None]).numpy()[:, 0]
    return Listened(recording, view.activations(), view.gradients(), codes, text, following[:records])


def with_first_embedding(heard: Listened) -> NDArray[np.bool_]:
    """The most probable token at each place, by the codes that the training began with."""
    codes = heard.first_codes
    if heard.flip is not None:
        wrong = heard.flip + _DRIFT - 2 * heard.flip * _DRIFT
        codes = np.where(codes > 0, 1 - 2 * wrong, 2 * wrong - 1)
    found = _most_probable(heard, [codes] * len(heard.activations))
    return np.asarray(found == heard.text[heard.known :])


def with_known_text(heard: Listened) -> NDArray[np.bool_]:
    """The same by codes that are learnt from known text, anew for each epoch."""
    unsure = 0.0 if heard.flip is None else 1.0
    codes = [_means(visit[: heard.known], heard, heard.text, unsure) for visit in heard.activations]
    return np.asarray(_most_probable(heard, codes) == heard.text[heard.known :])


def by_gradients(heard: Listened) -> NDArray[np.bool_]:
    """The next token at each place, as the gradient of its loss points away from its row of the head.

    Source: after Li, Sun, Yang et al. 2022, section 3.2 (cosine attack), with a direction for each token.
    """
    unit = heard.gradients / np.maximum(np.linalg.norm(heard.gradients, axis=-1, keepdims=True), 1e-30)
    fitted = heard.known * 4 // 5  # the rest of the known text says how much the directions are worth
    angles = np.sum([_cosines(visit, heard, fitted) for visit in unit], axis=0)
    prior, wanted = heard.prior(heard.following), heard.following[fitted : heard.known]
    checked = angles[: len(wanted)]
    worth = max(_WORTH, key=lambda weight: float((np.argmax(weight * checked + prior, axis=-1) == wanted).mean()))
    found = np.argmax(worth * angles[len(wanted) :] + prior, axis=-1)
    return np.asarray(found == heard.following[heard.known :])


def _cosines(visit: Floats, heard: Listened, fitted: int) -> NDArray[np.float32]:
    """Of each gradient beyond the first `fitted` records with the mean of each token in these."""
    means = _means(visit[:fitted], heard, heard.following)
    means /= np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-30)
    return np.asarray(visit[fitted:] @ means.T)


def _means(values: Floats, heard: Listened, text: Indices, unsure: float = 0.0) -> Floats:
    """The mean of each token's values in the known text, with so many zeros added; 0 for a token that is not in it."""
    ids = text[: len(values)].reshape(-1)
    sums = np.zeros((heard.tokens, values.shape[-1]), dtype=np.float64)
    np.add.at(sums, ids, values.reshape(len(ids), -1))
    counts = np.bincount(ids, minlength=heard.tokens) + unsure
    return np.asarray(sums / np.maximum(counts, 1)[:, None], dtype=np.float32)


def _most_probable(heard: Listened, codes: Sequence[Floats]) -> Indices:
    """By the likelihood of all visits, and how frequent a token is."""
    prior = heard.prior(heard.text)
    targets = heard.activations[:, heard.known :]
    visits, records, places, _ = targets.shape
    flat = targets.reshape(visits, records * places, -1)
    found = np.empty(records * places, dtype=np.int64)
    for start in range(0, len(found), _CHUNK):
        chosen = slice(start, start + _CHUNK)
        likely = (_likelihood(rows[chosen], table, heard.flip) for rows, table in zip(flat, codes, strict=True))
        score = sum(likely, start=prior)
        found[chosen] = np.argmax(score, axis=1)
    return found.reshape(records, places)


def _likelihood(rows: Floats, codes: Floats, flip: float | None) -> NDArray[np.float64]:
    """Of each row under each code, up to a number that does not depend on the code."""
    if flip is None:
        spread = _SPREAD * max(float(codes.std()), 1e-6)
        squares = np.square(codes).sum(axis=1) - 2 * (rows @ codes.T).astype(np.float64)
        return np.asarray(-squares / (2 * spread**2))
    ones, zeros = np.log((1 + codes) / 2), np.log((1 - codes) / 2)
    return np.asarray(rows @ ((ones - zeros) / 2).T + ((ones + zeros) / 2).sum(axis=1), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    knows: str
    run: Callable[[Listened], NDArray[np.bool_]]  # whether each token of the unknown records was recovered


ATTACKS = (
    Attack(
        "nearest code, first embedding",
        "how frequent each token is, and the embedding as it began: built-in tasks draw it from the file's seed",
        with_first_embedding,
    ),
    Attack("nearest code, known text", "the text of half of the records", with_known_text),
    Attack("gradients that cross back", "the text of half of the records", by_gradients),
)
_NOT_TESTED = (
    "a language model, which fills in what is unsure from what is around it",
    "a follower that sends activations of its own making",
    "larger vocabularies: a token that is rare in the known text is rarely recovered",
)


def audit_tokens(
    settings: Settings,
    protections: Sequence[EmbeddingProtection] | None = None,
    *,
    attacks: Sequence[Attack] = ATTACKS,
    records: int | None = QUICK,
    make: Make = make_part,
) -> list[Finding]:
    """Attack a training without protection of activations, and the same under each protection; strongest first.

    Args:
        protections: that of the file if None; where it has none, bits alone and several eps.
        records: at most so many are trained on; None for all.
    """
    if settings.topology != "U":
        raise ValueError(f"a text is attacked in topology U, got {settings.topology}: see audit_embeddings")
    chosen = protections or ([settings.embedding_dp] if settings.embedding_dp else LEVELS)
    off = listen(settings.model_copy(update={"gradients": Gradients(), "label_dp": None}), None, records, make)
    before = [_score(attack, off) for attack in attacks]
    found = []
    for protection in chosen:
        on = listen(settings, protection, records, make)
        found += [_finding(attack, score, off, on) for attack, score in zip(attacks, before, strict=True)]
    return sorted(found, key=lambda finding: -(finding.on.value if finding.on else 0))


def _score(attack: Attack, heard: Listened) -> Score:
    """The part of tokens that are recovered, resampled by record: tokens of one record depend on each other."""
    text = heard.following if attack.run is by_gradients else heard.text
    most = int(np.bincount(text[: heard.known].reshape(-1)).argmax())
    baseline = float((text[heard.known :] == most).mean())
    return mean_score("tokens recovered", attack.run(heard).mean(axis=1), baseline)


def _finding(attack: Attack, off: Score, heard_off: Listened, on: Listened) -> Finding:
    settings = on.recording.settings
    embedding, cut = settings.embedding, on.activations.shape[-1]
    assert embedding is not None  # noqa: S101
    how = "sign bits without noise" if embedding.eps is None else f"EmbeddingDP with eps {embedding.eps:g}"
    others = "" if settings.gradients.protection == "none" else ", gradients noised"
    others += "" if settings.label_dp is None else f", LabelDP with eps {settings.label_dp.eps:g}"
    visits = len(on.activations)
    before, after = (h.recording.outcomes[settings.leader].metrics.get("loss") for h in (heard_off, on))
    return Finding(
        attack=f"tokens recovered by {attack.name}",
        adversary="follower, honest but curious",
        sees=f"what crosses for each token in {visits} visit{'s' * (visits > 1)}; knows {attack.knows}",
        protection=f"{how}, {cut} bits a token{others}",
        proved=_claim(on, attack),
        off=off,
        on=_score(attack, on),
        cost=None if before is None or after is None else Cost("loss a token", before, after),
        not_tested=_NOT_TESTED,
    )


def _claim(on: Listened, attack: Attack) -> Claim | None:
    """Of a record's activations in all visits, or of its gradients: without noise these have none."""
    settings = on.recording.settings
    if attack.run is by_gradients:
        if settings.gradients.protection == "none":
            return None
        delta = settings.gradients.delta
        epsilon = forecast(settings, Sizes.of(settings, on.recording.parts)).figures["gradient_epsilon_training"]
        return Claim(epsilon, delta, "record", "replace-one")
    embedding = settings.embedding
    if embedding is None or embedding.eps is None:
        return None
    visits, _, places, cut = on.activations.shape
    event = embedding.event(places * cut, visits, places)
    assert event is not None  # noqa: S101
    return Claim(event.epsilon, 0.0, "record", "replace-one")
