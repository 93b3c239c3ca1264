"""Attacks on vertical regression: what the active learns of a passive's rows, and a passive of the labels.

With K outputs, residues are those of one row after those of another, and gradients those of one output after another.

An active that cheats:
    forged(channels, forge)             the honest `active` behind channels that change what it sends; `forge` is one of
    one_hot, scaled, positional         residues that single out a row, are too large, or carry rows digit by digit
    steered                             answers that set the passive's weights, whatever it decrypted
    columns_from_steering               the passive's columns, from the scores that follow
    row_from_unit_mask                  a mask in [0, 1), as much code has it, undone
An active that only looks:
    confirms_guess                      whether a ciphertext betrays that a guess of the rows was right
    rows_from_scores                    rows of a single passive, by linear algebra on its scores
A passive that only looks:
    gradients_seen, infer_labels        labels by least squares on its gradients
A passive that cheats:
    oracle_passive                      has residues decrypted instead of its gradient
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.channel import LIMIT, Channel
from tacit.crypto.paillier import Ciphertexts, PrivateKey, PublicKey
from tacit.fixedpoint import Floats
from tacit.kinds.vertical_logistic.protocol import batches, encoding, greeting
from tacit.kinds.vertical_logistic.protocol.masks import Hidden, agree_masks
from tacit.kinds.vertical_logistic.protocol.messages import (
    Begin,
    Decrypted,
    EpochOver,
    Hello,
    MaskedGradient,
    Residues,
    Scores,
)
from tacit.kinds.vertical_logistic.protocol.model import Scaler
from tacit.kinds.vertical_logistic.protocol.objective import Objective
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.wire import Message

T = TypeVar("T")
Forge = Callable[[Message], Message]


class Forging:
    """A channel that changes messages on their way out."""

    def __init__(self, channel: Channel, forge: Forge) -> None:
        self._channel = channel
        self._forge = forge

    def send(self, message: Message) -> None:
        self._channel.send(self._forge(message))

    def recv(self, kind: type[T], limit: int = LIMIT) -> T:
        return self._channel.recv(kind, limit)

    def close(self) -> None:
        self._channel.close()


def forged(channels: Mapping[str, Channel], forge: Forge) -> dict[str, Channel]:
    """The channels of a party that cheats by `forge`."""
    return {name: Forging(channel, forge) for name, channel in channels.items()}


def _residues(key: PrivateKey, choose: Callable[[list[int]], Sequence[int]]) -> Forge:
    """Replace the residues of every batch by others; `choose` is given the honest ones as integers."""

    def forge(message: Message) -> Message:
        if not isinstance(message, Residues):
            return message
        count = len(message.ciphertexts) // key.public.ciphertext_bytes
        honest = key.decrypt(Ciphertexts.from_bytes(key.public, message.ciphertexts, count))
        chosen = [key.public.signed(value) for value in choose(honest)]
        return Residues(key.encrypt(chosen).to_bytes())

    return forge


def one_hot(key: PrivateKey, rows: Sequence[int] = (0,), outputs: int = 1) -> Forge:
    """The plain attack: all residues are 0 but that of one row, or of a few, in the first output."""
    one, places = 1 << encoding.RESIDUE_BITS, {row * outputs for row in rows}
    return _residues(key, lambda honest: [one if place in places else 0 for place in range(len(honest))])


def scaled(key: PrivateKey, factor: int) -> Forge:
    """Honest residues, so many times too large: the weights jump, and scores tell more."""
    return _residues(key, lambda honest: [factor * residue for residue in honest])


def positional(key: PrivateKey, bits: int = 40) -> Forge:
    """r_i = 2^(bits·i): each row at a place of its own in the sum."""
    return _residues(key, lambda honest: [1 << bits * row for row in range(len(honest))])


def hidden_one_hot(key: PrivateKey, row: int, spread: float) -> Forge:
    """One residue of 1 among honest ones made small: what the check on few rows cannot see above its tolerance."""
    one = 1 << encoding.RESIDUE_BITS
    return _residues(
        key, lambda honest: [one if place == row else round(spread * value) for place, value in enumerate(honest)]
    )


def steered(key: PrivateKey, gradients: Callable[[int], Sequence[int]], slot_bits: int) -> Forge:
    """Zero residues, and in step t an answer off by gradients(t): what the passive then takes for its gradient."""
    zero = _residues(key, lambda honest: [0] * len(honest))
    step = 0

    def forge(message: Message) -> Message:
        nonlocal step
        if not isinstance(message, Decrypted):
            return zero(message)
        size, n = key.public.bits // 8, key.public.n
        slots = key.public.slots(slot_bits)
        wanted = list(gradients(step))
        step += 1
        values = [int.from_bytes(message.values[at : at + size], "big") for at in range(0, len(message.values), size)]
        moved = [
            (value + sum(number << slot_bits * place for place, number in enumerate(wanted[i * slots :][:slots]))) % n
            for i, value in enumerate(values)
        ]
        return Decrypted(b"".join(value.to_bytes(size, "big") for value in moved), message.roots)

    return forge


def columns_from_steering(scores: Sequence[Floats], weights: Sequence[float]) -> list[Floats]:
    """A passive's columns, up to their unit: scores were taken with weights that are zero but for one."""
    return [score / weight for score, weight in zip(scores, weights, strict=True)]


def row_from_unit_mask(masked: Floats, residue: float) -> Floats:
    """The row behind a one-hot gradient under a mask in [0, 1), to within 1 / (2·residue)."""
    return (masked - 0.5) / residue


def confirms_guess(residues: Ciphertexts, guess: NDArray[np.int64], slot_bits: int, masked: Ciphertexts) -> bool:
    """Whether the randomness of a masked gradient is that of these residues, multiplied by `guess` (features × rows).

    It is, for the right guess, where a passive masks the plaintext and does not re-randomise the ciphertext.
    """
    key = residues.key
    made = key.pack(key.multiply(guess, residues), slot_bits)
    return all(int(c) * pow(int(d), -1, key.n) % key.n == 1 for c, d in zip(masked.values, made.values, strict=True))


def rows_from_scores(scores: Floats, known: Sequence[int], rows: Floats, columns: int | None = None) -> Floats:
    """All rows of a passive, from scores (rows × outputs of all epochs, all rows of an epoch with the same weights) and
    some rows of it that the active knows from elsewhere: the rows lie in the space that the scores span.

    `columns`: of all passives together, where the scores are their sums.
    """
    u, s, _ = np.linalg.svd(scores, full_matrices=False)
    most = min(columns or rows.shape[1], len(known))
    rank = min(most, int(np.sum(s > 1e-7 * s[0])))  # below that there is fixed-point rounding only
    solution, *_ = np.linalg.lstsq(u[list(known), :rank], rows, rcond=None)
    return np.asarray(u[:, :rank] @ solution)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a passive sees of one step: the batch and its own gradient. The residues are there to judge a guess."""

    batch: batches.Rows
    gradient: Floats  # (columns, K)
    residues: Floats  # (rows of the batch, K)


def gradients_seen(
    own: Floats,
    others: Floats,
    labels: NDArray[Any],
    settings: Settings,
    classes: tuple[str, ...] = (),
    offsets: Floats | None = None,
) -> list[Step]:
    """Every gradient that a passive with the features `own` sees in an honest run, from plaintext training, to which
    the protocol is equal. `offsets`: the active's secret ones, if it has any."""
    x = np.hstack([Scaler.fit(own).apply(own), Scaler.fit(others).apply(others)]) if settings.scale else None
    x = np.hstack([own, others]) if x is None else x
    found: list[Step] = []

    def look(batch: NDArray[np.int64], gradient: Floats, residues: Floats) -> None:
        found.append(Step(batch, gradient[: own.shape[1]], residues))

    plain_training(x, labels, settings, look, classes, offsets)
    return found


def plain_training(
    x: Floats,
    labels: NDArray[Any],
    settings: Settings,
    look: Callable[[NDArray[np.int64], Floats, Floats], None] = lambda batch, gradient, residues: None,
    classes: tuple[str, ...] = (),
    offsets: Floats | None = None,
) -> tuple[Floats, Floats]:
    """The same regression with all features in one place, on all of these rows: weights and intercept. `look` is shown
    each step. `offsets` (rows, K) are added to the scores in each."""
    objective = Objective.of(labels, np.arange(len(x)), settings, classes=classes)
    weights, intercept = np.zeros((x.shape[1], objective.outputs)), np.zeros(objective.outputs)
    added = np.zeros((len(x), objective.outputs)) if offsets is None else offsets
    schedule = batches.schedule(len(x), settings)
    for epoch in range(settings.train.epochs):
        rate = settings.train.rate(epoch)
        for batch in schedule.batches(epoch):
            residues = objective.residues(x[batch] @ weights + intercept + added[batch], batch)
            gradient = x[batch].T @ residues
            look(batch, gradient, residues)
            weights = weights - rate * (gradient / len(batch) + settings.train.l2 * weights)
            intercept = intercept - rate * residues.mean(axis=0)
    return weights, intercept


def infer_labels(own: Floats, steps: Sequence[Step]) -> Floats:
    """For each row and output a score for its class, or for a larger number, (rows, K): the shortest residues that
    explain the gradients, taken together.

    One epoch gives each row one equation for each feature and batch. Residues change little between epochs, so that
    those of several are solved as if they were the same.
    """
    rows = len(own)
    equations = np.zeros((len(steps) * own.shape[1], rows))
    values = np.concatenate([step.gradient for step in steps])
    for number, step in enumerate(steps):
        equations[number * own.shape[1] : (number + 1) * own.shape[1], step.batch] = own[step.batch].T
    residues, *_ = np.linalg.lstsq(equations, values, rcond=1e-6)
    return -np.asarray(residues)


def oracle_passive(
    channels: Mapping[str, Channel], features: Any, settings: Settings, me: str
) -> dict[int, list[float]]:
    """A passive that sends no gradient: in each step of an epoch it has as many residues decrypted as fit, by row those
    of its outputs, or of the first of them.

    The active cannot tell: what it decrypts is uniform, as always.
    """
    table = np.asarray(features, dtype=np.float64)
    training, held_out = batches.hold_out(len(table), settings.train.test, settings.seed)
    hello = Hello(len(table), table.shape[1], 0, (0,), settings.agreed())
    outputs = greeting.greet_active(channels[settings.active], hello, me, settings).outputs
    largest = batches.largest(len(training), settings.train.batch)
    packed = encoding.ciphertexts(table.shape[1], largest, settings.paillier.bits, outputs)
    active = channels[settings.active]
    begin = active.recv(Begin)
    key = PublicKey.from_bytes(begin.key, insecure_bits=settings.paillier.bits < 2048)
    others = [name for name in settings.passives if name != me]
    hidden = Hidden(agree_masks(channels, me, others, begin.session), len(settings.passives))
    slot_bits = encoding.RESIDUE_BITS + 2
    found: dict[int, list[float]] = {}
    plan = [training[rows] for rows in batches.schedule(len(training), settings).batches(0)]
    for batch in plan:
        active.send(Scores(hidden.hide(np.zeros((len(batch), outputs)))))
        residues = Ciphertexts.from_bytes(key, active.recv(Residues).ciphertexts, len(batch) * outputs)
        count = min(len(residues), packed * key.slots(slot_bits))
        places = key.pack(residues[:count], slot_bits)
        masks = key.uniform(packed)
        padded = places + key.encrypt([0] * (packed - len(places)))
        active.send(MaskedGradient(key.rerandomize(key.add_plain(padded, masks)).to_bytes()))
        size, answer = key.bits // 8, active.recv(Decrypted).values
        values = [int.from_bytes(answer[at : at + size], "big") for at in range(0, len(answer), size)]
        bare = [(value - mask) % key.n for value, mask in zip(values, masks, strict=True)][: len(places)]
        integers = key.unpack(bare, slot_bits, count)
        for place, value in enumerate(integers):
            found.setdefault(int(batch[place // outputs]), []).append(value / 2**encoding.RESIDUE_BITS)
    if len(held_out):
        active.send(Scores(hidden.hide(np.zeros((len(held_out), outputs)))))
    active.recv(EpochOver)
    return found
