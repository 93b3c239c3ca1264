"""Activations inverted: what the party that receives them makes of a follower's records (topology V).

    audit_embeddings(settings)      each attack without and with EmbeddingDP, at the file's level or at several

The leader sees what its recorder kept of the same training. Each finding says what it knows in addition. For text in
topology U see `tokens`; for what gradients reveal to a follower about labels, `labels`.

The baseline without information is the better of two guesses: the mean of the public records, and the attack's own
answers, each compared with another record than its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tacit.audit.attacks import decoders
from tacit.audit.attacks.decoders import QUICK, Effort, Floats, Records, Shape
from tacit.audit.finding import Cost, Finding, Pictures, Score
from tacit.audit.intervals import mean_score
from tacit.audit.similarity import psnr, ssim
from tacit.dp.claim import Claim
from tacit.kinds.split.attacks.recording import Recording, at_most, record_cut, withhold
from tacit.kinds.split.common_terms import EVALUATION, RECORDS, as_tensor
from tacit.kinds.split.settings import EmbeddingProtection, Settings
from tacit.kinds.split.task import Bottom, Part
from tacit.kinds.split.tasks.load import make_part
from tacit.randomness import seeded_rng

Make = Callable[[Settings, str], Part]
LEVELS = tuple(EmbeddingProtection(eps=eps) for eps in (None, 10.0, 5.0, 1.0))  # None: bits without noise
_PUBLIC = 0.3  # of the training records: withheld, and the attacker's
_KNOWN = 0.5  # of the rest: records in the training that the attacker knows
_SHOWN = 16  # pictures in a finding
_BEST_PSNR = 60.0  # dB: more is no better to the eye


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """A recorded training, and what an attacker may know of it."""

    recording: Recording
    follower: str
    first_network: nn.Module  # as it was before the training
    public: Records
    effort: Effort

    @property
    def part(self) -> Bottom:
        part = self.recording.parts[self.follower]
        assert isinstance(part, Bottom)  # noqa: S101
        return part

    @property
    def settings(self) -> Settings:
        return self.recording.settings

    @property
    def flip(self) -> float | None:
        return None if self.settings.embedding is None else self.settings.embedding.flip_probability

    @property
    def shape(self) -> Shape:
        assert self.part.train.features is not None  # noqa: S101
        return tuple(self.part.train.features.shape[1:])

    def seen(self) -> Floats:
        """All activations of the training, [record, visit, ...]."""
        return np.moveaxis(self.recording.view(self.settings.leader, self.follower).activations(), 0, 1)

    def evaluated(self) -> Floats:
        return self.recording.view(self.settings.leader, self.follower).evaluated()

    def protect(self, activations: Floats, number: int) -> Floats:
        embedding = self.settings.embedding
        if embedding is None:
            return activations
        return 2 * embedding.bits(activations, seeded_rng(number)).astype(np.float32) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Inverted:
    """Originals next to their reconstructions. `fitted`: by the best affine map of each record, as are the guesses."""

    originals: Records
    recovered: Records
    public: Records
    shape: Shape
    fitted: bool = False

    def __post_init__(self) -> None:
        if self.originals.shape != self.recovered.shape or len(self.originals) < 2:
            raise ValueError(f"need two or more records, got {self.originals.shape} and {self.recovered.shape}")

    @property
    def images(self) -> Shape | None:
        """Height and width, where a record is one image from 0 to 1."""
        *channels, height, width = (1, *self.shape) if len(self.shape) > 1 else (0, 0, 0)
        inside = self.originals.min() >= 0 and self.originals.max() <= 1
        return (height, width) if inside and channels and set(channels) == {1} and min(height, width) > 1 else None

    def scores(self) -> tuple[Score, ...]:
        """The main one first."""
        if self.images is None:
            return (self._score("part of the variance explained", self._explained),)
        return self._score("SSIM", self._alike(ssim)), self._score("PSNR in dB", self._alike(_bounded_psnr))

    def pictures(self) -> NDArray[Any] | None:
        """The first of them, as they are scored."""
        if self.images is None:
            return None
        return np.clip(self._best(self.recovered)[:_SHOWN], 0, 1).reshape(-1, *self.images)

    def _score(self, metric: str, measure: Callable[[Records], Records]) -> Score:
        mean = np.broadcast_to(self.public.mean(axis=0), self.originals.shape)
        guesses = [float(measure(self._best(guess)).mean()) for guess in (mean, np.roll(self.recovered, 1, axis=0))]
        return mean_score(metric, measure(self._best(self.recovered)), max(guesses))

    def _best(self, found: Records) -> Records:
        return _affine(found, self.originals) if self.fitted else found

    def _alike(self, measure: Callable[[Any, Any], Any]) -> Callable[[Records], Records]:
        def alike(found: Records) -> Records:
            stacks = (a.reshape(-1, *(self.images or ())) for a in (self.originals, np.clip(found, 0, 1)))
            return np.asarray(measure(*stacks))

        return alike

    def _explained(self, found: Records) -> Records:
        spread = np.square(self.originals - self.public.mean(axis=0)).mean()
        return np.asarray(1 - np.square(found - self.originals).mean(axis=1) / spread)


def decoder_of_known_records(attacked: Attacked) -> Inverted:
    records, seen = _flat(attacked.part.train.features), attacked.seen()
    known = int(_KNOWN * len(records))
    found = decoders.known_pairs(seen[:known], records[:known], seen[known:], attacked.effort)
    return Inverted(records[known:], found, attacked.public, attacked.shape)


def decoder_on_a_copy(attacked: Attacked) -> Inverted:
    activations = _through(attacked.part.network, attacked.public, attacked.shape)
    aim = attacked.evaluated()
    found = decoders.on_a_copy(activations, attacked.public, attacked.protect, aim, attacked.effort)
    return Inverted(_flat(attacked.part.test.features), found, attacked.public, attacked.shape)


def white_box_at_the_end(attacked: Attacked) -> Inverted:
    aim = attacked.evaluated()[: attacked.effort.targets]
    return _searched(attacked, attacked.part.network, aim, _flat(attacked.part.test.features))


def white_box_at_the_start(attacked: Attacked) -> Inverted:
    _, batch = next(attacked.recording.view(attacked.settings.leader, attacked.follower).schedule.from_step(0))
    batch = batch[: attacked.effort.targets]
    aim, records = attacked.seen()[batch, 0], _flat(attacked.part.train.features)[batch]
    return _searched(attacked, attacked.first_network, aim, records)


def unsplit(attacked: Attacked) -> Inverted:
    aim = attacked.evaluated()[: attacked.effort.targets]
    found = decoders.unsplit(attacked.first_network, attacked.shape, aim, attacked.flip, attacked.effort)
    return Inverted(_flat(attacked.part.test.features)[: len(aim)], found, attacked.public, attacked.shape, fitted=True)


def _searched(attacked: Attacked, network: nn.Module, aim: Floats, records: Records) -> Inverted:
    found = decoders.white_box(network, attacked.shape, attacked.public, aim, attacked.flip, attacked.effort)
    return Inverted(records[: len(aim)], found, attacked.public, attacked.shape)


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    knows: str
    run: Callable[[Attacked], Inverted]
    ledger: str  # whose records are attacked


ATTACKS = (
    Attack(
        "a decoder trained on known records, all visits",
        "half of the records of the training, planted or public",
        decoder_of_known_records,
        RECORDS,
    ),
    Attack(
        "a decoder trained on a copy, one visit",
        "public records, and the network before the cut as it is at the end",
        decoder_on_a_copy,
        EVALUATION,
    ),
    Attack(
        "search with the network known, one visit",
        "public records, and the network before the cut as it is at the end",
        white_box_at_the_end,
        EVALUATION,
    ),
    Attack(
        "search with the first network known, first batch",
        "public records, and the network before the cut as it began: built-in tasks draw it from the file's seed",
        white_box_at_the_start,
        RECORDS,
    ),
    Attack(
        "UnSplit, one visit, scored after the best affine map of each record",
        "the architecture of the network before the cut",
        unsplit,
        EVALUATION,
    ),
)
_NOT_TESTED = (
    "a leader that sends gradients of its own making to shape the network before the cut",
    "larger images and deeper networks, which make inversion harder",
    "attackers with more records, or a generative model of them, which make it easier",
)


def audit_embeddings(
    settings: Settings,
    protections: Sequence[EmbeddingProtection] | None = None,
    *,
    attacks: Sequence[Attack] = ATTACKS,
    follower: str | None = None,
    effort: Effort = QUICK,
    make: Make = make_part,
) -> list[Finding]:
    """Attack a training without protection of activations, and the same under each protection; strongest first.

    Args:
        protections: that of the file if None; where it has none, bits alone and several eps.
        follower: whose records are attacked; the first one's if None.
    """
    if settings.topology != "V":
        raise ValueError(f"records of followers are attacked in topology V, got {settings.topology}: see audit_tokens")
    name = settings.followers[0] if follower is None else follower
    if name not in settings.followers:
        raise ValueError(f"{name!r} is not a follower: use one of {', '.join(settings.followers)}")
    chosen = protections or ([settings.embedding_dp] if settings.embedding_dp else LEVELS)
    off = attacked_training(settings, None, name, effort, make)
    before = [attack.run(off) for attack in attacks]
    found = []
    for protection in chosen:
        on = attacked_training(settings, protection, name, effort, make)
        found += [_finding(a, inverted, off, on) for a, inverted in zip(attacks, before, strict=True)]
    return sorted(found, key=lambda finding: -(finding.on.value if finding.on else 0))


def attacked_training(
    settings: Settings, protection: EmbeddingProtection | None, follower: str, effort: Effort, make: Make = make_part
) -> Attacked:
    """Train under this protection and keep what the leader sees."""
    settings = settings.model_copy(update={"embedding_dp": protection, "budget": None})
    parts, public = withhold(settings, {name: make(settings, name) for name in settings.parties}, _PUBLIC)
    parts = at_most(parts, effort.records)
    first = make(settings, follower)
    if not isinstance(first, Bottom) or public[follower].features is None:
        raise ValueError(f"{follower} has no features to attack")
    recording = record_cut(settings, parts)
    first.network.eval()
    return Attacked(recording, follower, first.network, _flat(public[follower].features), effort)


def _finding(attack: Attack, before: Inverted, off: Attacked, on: Attacked) -> Finding:
    after = attack.run(on)
    (first_off, *rest_off), (first_on, *rest_on) = before.scores(), after.scores()
    shown, pictures = replace(after, recovered=after.originals, fitted=False).pictures(), after.pictures()
    return Finding(
        attack=f"activations inverted by {attack.name}",
        adversary="leader, honest but curious",
        sees=f"the activations of {on.follower}; knows {attack.knows}",
        protection=_words(on),
        proved=_claim(on, attack.ledger),
        off=first_off,
        on=first_on,
        also=tuple(zip(rest_off, rest_on, strict=True)),
        pictures=None if shown is None else Pictures(shown, before.pictures(), pictures),
        cost=cost_of(off.recording, on.recording),
        not_tested=_NOT_TESTED,
    )


def _claim(on: Attacked, ledger: str) -> Claim | None:
    """Of everything that crosses for one record: all visits of a training record, the last of a test record's."""
    embedding = on.settings.embedding
    if embedding is None or embedding.eps is None:
        return None
    return Claim(on.recording.outcomes[on.follower].ledgers[ledger].pure_epsilon(), 0.0, "record", "replace-one")


def _words(on: Attacked) -> str:
    embedding, bits = on.settings.embedding, int(np.prod(on.part.cut))
    assert embedding is not None  # noqa: S101
    how = "sign bits without noise" if embedding.eps is None else f"EmbeddingDP with eps {embedding.eps:g}"
    return f"{how}, {bits} bits a record"


def cost_of(off: Recording, on: Recording) -> Cost | None:
    """What the leader's metric was and is."""
    before, after = (run.outcomes[run.settings.leader].metrics for run in (off, on))
    name = next((name for name in ("accuracy", "auc", "loss") if name in before), None)
    return None if name is None else Cost(name, before[name], after[name])


def _flat(features: NDArray[Any] | None) -> Records:
    assert features is not None  # noqa: S101
    return np.asarray(features.reshape(len(features), -1), dtype=np.float64)


def _through(network: nn.Module, records: Records, shape: Shape) -> Floats:
    with torch.no_grad():
        found: Floats = network.eval()(as_tensor(records.astype(np.float32).reshape(-1, *shape))).numpy()
    return found


def _affine(found: Records, originals: Records) -> Records:
    """Each found record times a number plus a number, such that it comes nearest to the original."""
    centred, wanted = (a - a.mean(axis=1, keepdims=True) for a in (found, originals))
    gain = (centred * wanted).sum(1, keepdims=True) / np.maximum((centred**2).sum(1, keepdims=True), 1e-12)
    return np.asarray(originals.mean(axis=1, keepdims=True) + gain * centred)


def _bounded_psnr(one: Any, other: Any) -> Any:
    return np.minimum(psnr(one, other), _BEST_PSNR)
