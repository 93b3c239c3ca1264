"""Attacks on a split training: what crosses the cut tells of records, and of labels. Needs torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tacit.audit.attacks.mechanisms import Effort, Rows, audit_bits, audit_gaussian, audit_labels
from tacit.audit.finding import Finding
from tacit.audit.scope import Scope
from tacit.audit.steps import Attacks, Proved, Step, bare, named
from tacit.dp.accounting import Ledger
from tacit.dp.claim import Claim
from tacit.dp.gaussian import gaussian_epsilon
from tacit.kinds.split.common_terms import bits_of, schedule_of
from tacit.kinds.split.costs import gradient_noise
from tacit.kinds.split.embedding_dp import EmbeddingDP
from tacit.kinds.split.forecast import Sizes
from tacit.kinds.split.label_dp import LabelDP
from tacit.kinds.split.settings import EmbeddingProtection, Settings, Simulation
from tacit.kinds.split.task import Part, Top
from tacit.kinds.split.tasks.load import make_part
from tacit.lockstep.schedule import Schedule

_WIDTH = 4  # bits, or numbers, in a vector whose randomization is audited
_MOST_CLASSES = 10  # that are audited: more change nothing but the time
_RECORDS = 400  # that a quick audit trains on
_TAPPED = 16  # records of a step over the network


def attacks(settings: Settings, scope: Scope) -> Attacks:
    """What the receiver of activations makes of them, and the receiver of gradients; the noise on both."""
    parts = {name: make_part(settings, name) for name in settings.parties}
    sizes = Sizes.of(settings, parts)
    schedule = schedule_of(settings, sizes.records or 0)
    seeded = settings.model_copy(
        update={"simulation": Simulation(insecure_noise_seed=scope.number("noise")), "budget": None}
    )
    not_tested = ["several parties that put together what they see", "the alignment of ids"]
    if schedule.total < schedule.steps:
        seeded = seeded.model_copy(update={"train": seeded.train.model_copy(update={"steps": None, "epochs": 1})})
        not_tested.append(f"the file's {schedule.total} steps, which do not reach all records: an epoch was attacked")
    steps = _steps_of_cut(seeded, settings, scope)
    steps += [Step("the wire", lambda: [_wire(seeded)]), *_mechanisms(settings, schedule, parts, scope)]
    if settings.topology == "V" and len(settings.parties) > 2:
        not_tested.append("what a follower learns of another's features from the gradients that come back to it")
    return Attacks(_words(settings), steps, _promises(settings, sizes, schedule), not_tested)


def _words(settings: Settings) -> str:
    found = []
    if settings.embedding is not None:
        eps = settings.embedding.eps
        found.append("sign bits without noise" if eps is None else f"EmbeddingDP with eps {eps:g}")
    if settings.label is not None:
        found.append(f"LabelDP with eps {settings.label.eps:g}")
    if settings.gradients.protection == "noised":
        found.append("gradients clipped and noised")
    return ", ".join(found) or "none"


# --- what is proved


def _promises(settings: Settings, sizes: Sizes, schedule: Schedule) -> list[Proved]:
    found = []
    embedding = settings.embedding
    if embedding is not None and embedding.eps is not None:
        for name, cut in sizes.cuts.items():
            bits, vectors = bits_of(cut)
            event = embedding.event(bits, schedule.visits, vectors)
            owner = name if settings.topology == "V" else settings.leader
            if event is not None:
                ledger = Ledger("record", "replace-one")
                ledger.spend(event)
                against = f"for each record of {owner}, against the party that its activations go to"
                found.append(_proved(f"activations of {owner}", settings, ledger, 0.0, against))
    if settings.label is not None:
        ledger = Ledger("label", "replace-one")
        ledger.spend(settings.label.event)
        against = "for each label, against any party that sees results computed from it"
        found.append(_proved("labels", settings, ledger, 0.0, against))
    noise = gradient_noise(settings, schedule)
    if noise is not None:
        ledger = Ledger("record", "replace-one")
        for cut in sizes.cuts.values() if sizes.back_cut is None else [sizes.back_cut]:
            ledger.spend(noise.event(bits_of(cut)[0]), schedule.visits)
        against = "for each record, against the party that the gradients go back to"
        found.append(_proved("gradients", settings, ledger, settings.gradients.delta, against))
    return found


def _proved(what: str, settings: Settings, ledger: Ledger, delta: float, against: str) -> Proved:
    epsilon = ledger.epsilon(delta) if delta else ledger.pure_epsilon()
    return Proved.of(what, ledger, math.inf if settings.insecure else epsilon, delta, against=against)


# --- the attacks at the cut


def _steps_of_cut(seeded: Settings, settings: Settings, scope: Scope) -> list[Step]:
    if settings.topology == "U":
        return [Step("tokens at the cut", lambda: _tokens(seeded, scope))]
    return [
        Step("activations inverted", lambda: _embeddings(seeded, scope)),
        Step("labels from gradients", lambda: _labels(seeded, scope)),
    ]


def _embeddings(settings: Settings, scope: Scope) -> Sequence[Finding]:
    from tacit.audit.attacks.decoders import FULL, QUICK
    from tacit.kinds.split.attacks.embeddings import audit_embeddings

    effort = replace(scope.pick(replace(QUICK, records=_RECORDS), FULL), seed=scope.number("decoders") % 2**31)
    if settings.embedding_dp is not None:
        return audit_embeddings(settings, effort=effort)
    return [bare(each) for each in audit_embeddings(settings, [EmbeddingProtection()], effort=effort)]


def _labels(settings: Settings, scope: Scope) -> Sequence[Finding]:
    from tacit.kinds.split.attacks.labels import Guard
    from tacit.kinds.split.attacks.labels import audit_labels as audit_gradients

    records = scope.pick(_RECORDS, None)
    if settings.label_dp is not None or settings.gradients.protection == "noised":
        return audit_gradients(settings, records=records, confidence=scope.confidence(_tests(settings)))
    return [bare(each) for each in audit_gradients(settings, [Guard()], records=records)]


def _wire(settings: Settings) -> Finding:
    """Two steps over loopback, tapped."""
    from tacit.audit.attacks import wire as network
    from tacit.kinds.split import messages
    from tacit.kinds.split.attacks import recording as cut

    train = settings.train.model_copy(update={"batch": _TAPPED, "epochs": 1, "steps": None})
    short = settings.model_copy(update={"train": train})
    tapped = []
    for secure in (False, True):
        made = {name: make_part(short, name) for name in short.parties}
        parts = cut.without_test(cut.at_most(made, 2 * _TAPPED))
        tapped.append(network.tap_parties(short.hub, cut.parties_of(short, parts), secure=secure))
    return network.audit_reading(tapped[0], tapped[1], network.union_of(messages))


def _tokens(settings: Settings, scope: Scope) -> Sequence[Finding]:
    from tacit.kinds.split.attacks.tokens import QUICK, audit_tokens

    records = scope.pick(QUICK, None)
    if settings.embedding_dp is not None:
        return audit_tokens(settings, records=records)
    return [bare(each) for each in audit_tokens(settings, [EmbeddingProtection()], records=records)]


# --- the noise


def _mechanisms(settings: Settings, schedule: Schedule, parts: Mapping[str, Part], scope: Scope) -> list[Step]:
    embedding, label = settings.embedding, settings.label
    bits = embedding is not None and embedding.eps is not None
    noised = settings.gradients.protection == "noised"
    effort = Effort(scope.pick(1_000_000, 4_000_000), scope.confidence(_tests(settings)))
    found = []
    if bits and embedding is not None:
        found.append(Step("randomized bits", lambda: [_bits(embedding, scope, effort)]))
    if label is not None:
        lead = parts[settings.leader]
        classes = _classes(lead) if isinstance(lead, Top) else _MOST_CLASSES
        found.append(Step("randomized labels", lambda: [_randomized(label, classes, scope, effort)]))
    if noised:
        found.append(Step("noise of gradients", lambda: [_noise(settings, schedule, scope, effort)]))
        found.append(Step("canaries at the cut", lambda: [_canaries(settings, schedule, scope, effort)]))
    return found


def _tests(settings: Settings) -> int:
    """Of claims, in a whole audit: bits, labels, noise by itself and at the cut, and labels inferred from gradients."""
    bits = settings.embedding is not None and settings.embedding.eps is not None
    labels, noised = settings.label is not None, settings.gradients.protection == "noised"
    return bits + labels + 2 * noised + (labels or noised)


def _bits(embedding: EmbeddingDP, scope: Scope, effort: Effort) -> Finding:
    rng = scope.rng("randomized bits")
    event = embedding.event(_WIDTH)
    assert event is not None  # noqa: S101  # there is an eps
    one_hot = embedding.domain == "one_hot"
    claim = Claim(event.epsilon, 0.0, "vector", "replace-one")

    def mechanism(rows: Rows) -> Rows:
        return embedding.bits(rows, rng)

    found = audit_bits(mechanism, claim, width=_WIDTH, inputs="one-hot" if one_hot else "free", effort=effort)
    kind = "a one-hot vector" if one_hot else f"{_WIDTH} free bits"
    words = f"eps {embedding.eps:g}, which is {event.epsilon:g} for {kind}, one visit"
    return named(found, "EmbeddingDP", words, "who receives activations")


def _classes(top: Top) -> int:
    labels = top.train.labels
    return 2 if labels is None or labels.ndim != 1 else max(2, min(_MOST_CLASSES, len(np.unique(labels))))


def _randomized(label: LabelDP, classes: int, scope: Scope, effort: Effort) -> Finding:
    rng = scope.rng("randomized labels")

    def mechanism(labels: Rows) -> Rows:
        return np.asarray(label(labels, classes, rng))

    found = audit_labels(mechanism, Claim(label.eps, 0.0, "label", "replace-one"), classes=classes, effort=effort)
    return named(found, "LabelDP", f"eps {label.eps:g}, {classes} classes", "who sees what labels lead to")


def _noise(settings: Settings, schedule: Schedule, scope: Scope, effort: Effort) -> Finding:
    noise = gradient_noise(settings, schedule)
    assert noise is not None  # noqa: S101
    rng, given = scope.rng("noise of gradients"), settings.gradients
    longest = np.eye(1, _WIDTH, dtype=np.float32)[0] * 100 * given.clip

    def mechanism(rows: Rows) -> Rows:
        return np.concatenate([noise.protect(row[None].astype(np.float32), rng) for row in rows])

    epsilon = gaussian_epsilon(noise.noise_multiplier, given.delta)
    claim = Claim(epsilon, given.delta, "record", "replace-one")
    brief = replace(effort, samples=scope.pick(16_000, 200_000))
    found = audit_gaussian(mechanism, -longest, longest, claim, effort=brief)
    words = f"clipped to {given.clip:g}, noise of {noise.noise_multiplier:.4g} times twice that, one visit"
    return named(found, "Noise of gradients", words, "who receives gradients")


def _canaries(settings: Settings, schedule: Schedule, scope: Scope, effort: Effort) -> Finding:
    from tacit.kinds.split.attacks.gradient_canaries import audit_gradients

    noise = gradient_noise(settings, schedule)
    assert noise is not None  # noqa: S101
    parts = {name: make_part(settings, name) for name in settings.parties}
    brief = replace(effort, samples=scope.pick(2_000, 40_000))
    found = audit_gradients(settings, parts, noise, scope.rng("canaries at the cut"), brief)
    words = f"a training of the file's own networks, clipped to {settings.gradients.clip:g}, noise of one visit"
    return named(found, "Gradients at the cut", words, "the party that receives gradients")
