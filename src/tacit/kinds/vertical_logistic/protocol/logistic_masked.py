"""Regression of parties with different features of the same rows, under Paillier; one function a role.

The steps are numbered as in docs/vertical.md, which says what is hardened and why. `active` has the labels, the key
and the intercept. A `passive` has features only. The model has K outputs: see `model` for their shapes, and `objective`
for what logistic and linear regression make of the labels.

Guarantee: a passive's rows, weights and gradients do not leave it. The active sees the sum of the passives' scores w·x
    for each row and output in each epoch, and of a gradient a number that is uniform modulo n whatever the gradient
    was. A passive sees its own gradients, and of residues only ciphertexts.
Assumes: parties that follow the protocol; `checks` says which deviations are noticed. With one passive the sum is that
    party's own score. Decisional composite residuosity; AES-128 and X25519 for the masks on scores.
Source: the two-party VFL-LR with Paillier, after Hardy et al. 2017. What stays open is measured in
    `tacit.kinds.vertical_logistic.attacks.residues` and written down in docs/vertical.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Channel
from tacit.crypto.paillier import Ciphertexts, PrivateKey, PublicKey, Workers, generate
from tacit.events import Noted, TrainingStarted
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.protocol import batches, checks, decryption_proof, encoding, greeting, secret_offsets
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.protocol.journal import Course, InMemory, Journal, Point, Records, digest_of
from tacit.kinds.vertical_logistic.protocol.masks import Hidden, agree_masks, decoded, total
from tacit.kinds.vertical_logistic.protocol.messages import (
    HEAD,
    Begin,
    Decrypted,
    EpochOver,
    Hello,
    MaskedGradient,
    Residues,
    Scores,
)
from tacit.kinds.vertical_logistic.protocol.metrics import Labels
from tacit.kinds.vertical_logistic.protocol.model import Model, Saved, Scaler, as_features
from tacit.kinds.vertical_logistic.protocol.objective import Objective, check_labels
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.context import Context
from tacit.lockstep.progress import Progress
from tacit.lockstep.traffic import Metered

PROTECTION = "Paillier, gradients under uniform masks"
_BETWEEN = 1.0  # seconds between two lines


def _unjudged(scores: Floats, labels: Labels, held_out: bool) -> None:
    pass


@dataclass(frozen=True)
class PaillierContext(Context[Saved]):
    """What a party of this protocol is given in addition to its data. It draws the keys behind the masks on scores,
    and the active's secret offsets.

    Args:
        records: where the journal of its last steps is kept.
        session: the number of the training, if the parties agreed on one before.
        workers: the pool for Paillier.
        key: the active's, or a new one.
        order: a digest of the rows' ids in their order; where passives' differ, their masks do not cancel.
        classes: the active's names of the labels' codes, which then count from 0; by default the values themselves.
        judged: is given, once at the end, at the active: the raw scores (rows, K) of the weights that are kept, the
            labels of those rows, and whether they were held out. Without rows held out these are the training rows,
            each with the score that it had in its last step: before the weights moved on.
    """

    records: Records = field(default_factory=InMemory)
    session: bytes = b""
    workers: Workers = field(default_factory=Workers)
    key: PrivateKey | None = None
    order: bytes = b""
    classes: tuple[str, ...] = ()
    judged: Callable[[Floats, Labels, bool], None] = _unjudged


@dataclass(frozen=True, slots=True, eq=False)
class _Active:
    """What the active has during a training."""

    settings: Settings
    context: PaillierContext
    progress: Progress
    journal: Journal
    peers: Mapping[str, Metered]  # the passives
    packed: Mapping[str, int]  # ciphertexts of each one's gradient
    key: PrivateKey
    features: Floats
    objective: Objective
    training: Rows
    held_out: Rows
    offsets: Floats  # secret, (rows, K): the same in every step

    @property
    def judged(self) -> Rows:
        """The rows that the model is judged on."""
        return self.held_out if len(self.held_out) else self.training


@dataclass(frozen=True, slots=True, eq=False)
class _Passive:
    """What a passive has during a training."""

    settings: Settings
    context: PaillierContext
    progress: Progress
    journal: Journal
    active: Metered
    outputs: int
    packed: int
    key: PublicKey
    hidden: Hidden
    checks: checks.Gradients
    columns: encoding.Columns
    features: Floats  # as its columns hold them
    slot_bits: int
    training: Rows
    held_out: Rows


def active(
    channels: Mapping[str, Channel],
    features: Any,
    labels: Any,
    settings: Settings,
    context: PaillierContext | None = None,
) -> Model:
    """The party with the labels. Sees the sum of the passives' scores; its residues leave it encrypted."""
    context = context or PaillierContext()
    table = as_features(features)
    check_labels(labels, len(table))
    training, held_out = batches.hold_out(len(table), settings.train.test, settings.seed)
    objective, saved = _begun(table, labels, training, settings, context)
    peers = {name: Metered(channels[name]) for name in settings.passives}
    course = _course(len(training), settings)
    journal = Journal(context.records, course, saved)
    hello = _hello(table, objective.outputs, settings, journal, context)
    greetings = greeting.greet_passives(peers, hello, settings)
    journal.allowed = greeting.check_shapes(greetings, len(training), settings)
    position = greeting.common_position([hello, *greetings.values()])
    saved = saved.at(course.epoch(position))
    key = context.key or generate(settings.paillier.bits, insecure_bits=settings.paillier.bits < 2048)
    columns = sum(each.features for each in (hello, *greetings.values()))
    for peer in peers.values():
        peer.send(Begin(saved.session, position, key.public.to_bytes(), decryption_proof.certify(key), columns))

    packed = {
        name: _packed(theirs.features, len(training), saved.outputs, settings) for name, theirs in greetings.items()
    }
    progress = _progress(context, peers, course.steps)
    x = saved.scaler.apply(table)
    party = _Active(
        settings, context, progress, journal, peers, packed, key, x, objective, training, held_out, saved.offsets
    )
    _begin(party, columns, saved, course, position)
    while saved.now.epoch < settings.train.epochs and not saved.now.stopped:
        point = _active_epoch(party, journal.point(position, saved), course)
        saved, local = _judge(party, saved, point)
        progress.finished(saved.now.epoch - 1, local=local)
        context.keep(saved)
        position = course.position(saved.now.epoch)
    context.judged(saved.now.best_scores, objective.labels[party.judged], len(held_out) > 0)
    return saved.best


def _begun(
    table: Floats, labels: Any, training: Rows, settings: Settings, context: PaillierContext
) -> tuple[Objective, Saved]:
    """What the active makes of its labels, and where it begins or resumes, then with the same classes and scale."""
    kept = context.latest
    target = kept.target if kept is not None else None
    objective = Objective.of(labels, training, settings, classes=context.classes, target=target)
    if kept is None:
        session = context.session or secrets.token_bytes(16)
        scaler, outputs = _fitted(table[training], settings), objective.outputs
        offsets = secret_offsets.draw(len(table), training, outputs, settings, context.rng)
        return objective, Saved.start(session, scaler, outputs, objective.classes, objective.target, offsets)
    if kept.classes != objective.classes or kept.outputs != objective.outputs:
        raise ValueError(
            f"labels have the classes {', '.join(objective.classes) or 'of a number'}, and had "
            f"{', '.join(kept.classes) or 'those of a number'} when this training was stopped: give the table as it was"
        )
    secret_offsets.check(kept.offsets, (len(table), kept.outputs))
    return objective, kept


def _active_epoch(party: _Active, start: Point, course: Course) -> Point:
    """The rest of an epoch's batches, each once. Where the party stands then, with each row's score as last seen."""
    x, objective, train, journal = party.features, party.objective, party.settings.train, party.journal
    epoch, done = course.epoch(start.position), course.step(start.position)
    weights, intercept = start.weights, start.intercept
    scores = start.scores if len(start.scores) else np.zeros((len(x), objective.outputs))
    rate = train.rate(epoch)
    plan = batches.schedule(len(party.training), party.settings).batches(epoch)
    for step in range(done, len(plan)):
        batch = party.training[plan[step]]
        before = Point(course.position(epoch, step), weights.copy(), intercept.copy(), scores.copy())
        own = x[batch] @ weights + intercept  # 1: its own part of the score
        with party.progress.stage("waiting for scores"):
            words = _receive_scores(party.peers, own.size)
        passives = decoded(words, party.settings.passives, objective.outputs)
        scores[batch] = own + passives  # 2 and 3: the sum of the passives' parts
        residue = objective.residues(scores[batch] + party.offsets[batch], batch)  # 4: no two are alike

        def encrypted(residue: Floats = residue) -> tuple[bytes, bytes]:
            integers = encoding.encode_residues(residue).reshape(-1).tolist()  # row after row
            with party.progress.stage("encrypting residues"):
                return party.context.workers.encrypt(party.key, integers).to_bytes(), b""  # 5

        residues, _ = journal.reply(before, digest_of(before.position, batch, words.tobytes()), encrypted)
        for peer in party.peers.values():
            peer.send(Residues(residues))
        _open_gradients(party, before.position, batch)
        weights -= rate * (x[batch].T @ residue / len(batch) + train.l2 * weights)  # 11
        intercept -= rate * residue.mean(axis=0)
        loss = objective.loss(scores[batch], batch)
        party.progress.stepped(epoch * len(plan) + step + 1, len(batch), loss)
    return Point(course.position(epoch, len(plan)), weights, intercept, scores)


def _open_gradients(party: _Active, position: int, batch: Rows) -> None:
    """9: decrypt each passive's masked gradient, with a proof. What is decrypted is stored before anything is sent."""
    answers, received = {}, {}
    for name, peer in party.peers.items():  # 6 to 8 happen at the passives, all at once
        with party.progress.stage("waiting for gradients"):
            masked = _receive_gradient(peer, party.key.public, party.packed[name])
        with party.progress.stage("decrypting"):  # a uniform number, whatever the gradient
            values = party.context.workers.decrypt_unsigned(party.key, masked)
            answers[name] = decryption_proof.opened(party.key, masked, values)
        received[name] = digest_of(position, batch, masked.to_bytes())
    party.journal.open(position, received)
    for name, peer in party.peers.items():
        peer.send(answers[name])


def passive(
    channels: Mapping[str, Channel], features: Any, settings: Settings, me: str, context: PaillierContext | None = None
) -> Model:
    """A party without labels. Sees its own gradients, from which it can infer residues: see the audit."""
    context = context or PaillierContext()
    table = as_features(features)
    peers = {name: Metered(channels[name]) for name in settings.parties if name != me}
    boss = peers[settings.active]
    training, held_out = batches.hold_out(len(table), settings.train.test, settings.seed)
    kept = context.latest
    scaler = kept.scaler if kept else _fitted(table[training], settings)
    columns = encoding.Columns.encode(scaler.apply(table), training)
    course = _course(len(training), settings)
    journal = Journal(context.records, course, kept or Saved.start(b"", scaler))
    hello = _hello(table, kept.outputs if kept else 0, settings, journal, context)
    outputs = greeting.greet_active(boss, hello, me, settings).outputs
    journal.allowed = greeting.check_shapes({me: hello}, len(training), settings)
    begin = boss.recv(Begin, HEAD + settings.paillier.bits * (1 + decryption_proof.CHALLENGES) // 8)
    key = greeting.certified(begin, settings)
    position = greeting.agreed_position(begin, journal.positions, context.session)
    saved = (kept or Saved.start(begin.session, scaler, outputs)).at(course.epoch(position))
    others = [name for name in settings.passives if name != me]
    keys = agree_masks(peers, me, others, begin.session, context.rng, order=context.order, position=position)
    hidden = Hidden(keys, len(settings.passives))

    x, slot_bits = columns.values, encoding.slot_bits(batches.largest(len(training), settings.train.batch))
    guard = checks.Gradients.fit(x[training], settings)
    if guard.whitening is not None and (exposed := checks.exposure(guard.whitening)) is not None:
        context.sink.emit(Noted(f"{me}: {exposed}"))
    progress = _progress(context, peers, course.steps)
    party = _Passive(
        settings,
        context,
        progress,
        journal,
        boss,
        outputs,
        _packed(x.shape[1], len(training), outputs, settings),
        key,
        hidden,
        guard,
        columns,
        x,
        slot_bits,
        training,
        held_out,
    )
    _begin(party, begin.columns, saved, course, position)
    while saved.now.epoch < settings.train.epochs and not saved.now.stopped:
        weights = _passive_epoch(party, journal.point(position, saved), course)
        over = boss.recv(EpochOver, HEAD)
        then = saved.now.next(weights, saved.now.intercept, best=over.best, last=over.last)
        saved = saved.then(then, journal.uses)
        progress.finished(saved.now.epoch - 1)
        context.keep(saved)
        position = course.position(saved.now.epoch)
    return saved.best


def _passive_epoch(party: _Passive, start: Point, course: Course) -> Floats:
    """The rest of an epoch's batches, each once. The weights."""
    x, boss, train = party.features, party.active, party.settings.train
    weights = start.weights
    epoch, done = course.epoch(start.position), course.step(start.position)
    rate = train.rate(epoch)
    plan = batches.schedule(len(party.training), party.settings).batches(epoch)
    for step in range(done, len(plan)):
        batch = party.training[plan[step]]
        boss.send(Scores(party.hidden.hide(x[batch] @ weights)))  # 2: under masks that cancel in the sum
        before = Point(course.position(epoch, step), weights.copy(), start.intercept)
        gradient = _gradient(party, before, batch)
        weights -= rate * (gradient / len(batch) + train.l2 * weights)  # 11
        party.progress.stepped(epoch * len(plan) + step + 1, len(batch))
    if len(party.held_out):
        boss.send(Scores(party.hidden.hide(x[party.held_out] @ weights)))
    return weights


def _gradient(party: _Passive, before: Point, batch: Rows) -> Floats:
    """5 to 10: this party's gradient over a batch, (columns, K), if nothing is wrong with it."""
    key, boss, rows = party.key, party.active, party.columns.rows(batch)
    with party.progress.stage("waiting for residues"):
        residues = _receive_residues(boss, key, len(batch) * party.outputs)  # 5

    def masked() -> tuple[bytes, bytes]:
        with party.progress.stage("gradient under encryption"):
            product = _product(party, rows, residues)  # 6: Enc(Xᵀr)
            mask = key.uniform(party.packed)  # 7: over all of Z_n, where others take [0, 1)
            hidden = key.add_plain(key.pack(product, party.slot_bits), mask)
            sent = party.context.workers.rerandomize(key, hidden)
        return sent.to_bytes(), decryption_proof.joined(mask, key)

    received = digest_of(before.position, batch, key.to_bytes(), residues.to_bytes())
    answer, masks = party.journal.reply(before, received, masked)
    boss.send(MaskedGradient(answer))  # 8
    with party.progress.stage("waiting for decryption"):
        opened = boss.recv(Decrypted, HEAD + 2 * party.packed * key.bits // 8)  # 9
    with party.progress.stage("checks"):
        sent = Ciphertexts.from_bytes(key, answer, party.packed)
        values = decryption_proof.verify(key, sent, opened, proof=party.settings.checks.decryption)
        mask = decryption_proof.split(masks, party.packed, key, "the journal's mask")
        bare = [(value - hiding) % key.n for value, hiding in zip(values, mask, strict=True)]  # 10
        integers = checks.unpacked(bare, key, party.slot_bits, party.features.shape[1] * party.outputs)
        return party.checks.checked(integers, rows)  # before anything depends on it


def _product(party: _Passive, rows: encoding.Columns, residues: Ciphertexts) -> Ciphertexts:
    """Enc(Xᵀr) of one output after another."""
    matrix, multiply = np.ascontiguousarray(rows.integers.T), party.context.workers.multiply
    bound = 1 << encoding.RESIDUE_BITS
    found = [multiply(party.key, matrix, residues[k :: party.outputs], bound=bound) for k in range(party.outputs)]
    return Ciphertexts(party.key, tuple(value for each in found for value in each.values))


def _judge(party: _Active, saved: Saved, point: Point) -> tuple[Saved, dict[str, float]]:
    """Measure the epoch, and tell the passives whether it was the best and whether to continue."""
    objective, train, progress, scores = party.objective, party.settings.train, saved.now, point.scores.copy()
    words = np.empty(0, dtype=np.uint64)
    if len(party.held_out):
        own = party.features[party.held_out] @ point.weights + point.intercept
        with party.progress.stage("waiting for scores"):
            words = _receive_scores(party.peers, own.size)
        scores[party.held_out] = own + decoded(words, party.settings.passives, objective.outputs)
    judged = scores[party.judged]
    local = objective.measure(judged, party.judged)
    local["training loss"] = objective.loss(scores[party.training], party.training)
    best = train.patience is None or local["loss"] < progress.best_loss
    last = train.patience is not None and not best and progress.waited + 1 >= train.patience
    received = digest_of(point.position, party.held_out, words.tobytes())
    answer, _ = party.journal.reply(point, received, lambda: (bytes([best, last]), b""))
    best, last = map(bool, answer)
    for peer in party.peers.values():
        peer.send(EpochOver(best, last))
    if last:
        party.context.sink.emit(
            Noted(f"ended after epoch {progress.epoch + 1}: the loss was lowest {train.patience} epochs ago")
        )
    then = progress.next(point.weights, point.intercept, best=best, last=last, loss=local["loss"], scores=judged)
    return saved.then(then, party.journal.uses), local


def _fitted(training: Floats, settings: Settings) -> Scaler:
    return Scaler.fit(training) if settings.scale else Scaler.identity(training.shape[1])


def _course(rows: int, settings: Settings) -> Course:
    return Course(batches.steps(rows, settings.train.batch), lambda epoch: batches.epoch_seed(epoch, settings))


def _progress(context: PaillierContext, peers: Mapping[str, Metered], steps: int) -> Progress:
    """Tells of a step at most once a second, and at the end of each epoch."""

    def due(done: int, seconds: float) -> bool:
        return seconds >= _BETWEEN or done % steps == 0

    return Progress(context, peers.values(), steps, due, unit="rows")


def _begin(party: _Active | _Passive, columns: int, saved: Saved, course: Course, position: int) -> None:
    """Say that it begins, or resumes at a step. What is needed to resume is kept. `columns`: of all parties."""
    settings, context, steps = party.settings, party.context, course.steps
    if not context.saved:
        context.keep(saved)
    parameters = (columns + 1) * saved.outputs
    started = TrainingStarted(
        settings.name, settings.kind, len(settings.parties), settings.train.epochs, steps, PROTECTION, parameters
    )
    done = course.epoch(position) * steps + course.step(position)
    party.progress.begin(started, resumed=done if context.saved else None)


def _hello(table: Floats, outputs: int, settings: Settings, journal: Journal, context: PaillierContext) -> Hello:
    session = context.latest.session if context.latest is not None else context.session
    return Hello(len(table), table.shape[1], outputs, journal.positions, settings.agreed(), session)


def _packed(features: int, rows: int, outputs: int, settings: Settings) -> int:
    """Ciphertexts that hold a passive's gradient: both sides count them, neither is asked."""
    largest = batches.largest(rows, settings.train.batch)
    return encoding.ciphertexts(features, largest, settings.paillier.bits, outputs)


def _receive_scores(peers: Mapping[str, Metered], count: int) -> NDArray[np.uint64]:
    return total({name: peer.recv(Scores, HEAD + 8 * count).words for name, peer in peers.items()}, count)


def _receive_residues(active: Metered, key: PublicKey, count: int) -> Ciphertexts:
    message = active.recv(Residues, HEAD + count * key.ciphertext_bytes)
    return Ciphertexts.from_bytes(key, message.ciphertexts, count)


def _receive_gradient(peer: Metered, key: PublicKey, count: int) -> Ciphertexts:
    message = peer.recv(MaskedGradient, HEAD + count * key.ciphertext_bytes)
    return Ciphertexts.from_bytes(key, message.ciphertexts, count)
