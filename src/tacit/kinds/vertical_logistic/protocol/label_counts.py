"""Counts of positive labels in a passive's groups of rows, for weight of evidence; one function a role.

    ask(channel, groupings, context)                    a passive: its groups, merged where they are sparse, with counts
    requested(channel)                                  the active: for how much a passive asks
    give(channel, passive, labels, make_key, context)   the active: lets one passive have them, if its file allows it

Between the active and one passive, over the training rows, after alignment and before training:

    1   the passive says for how many groups of how many columns it asks
    2   the active refuses, or sends its public key with a certificate. In one training it answers one request of a
        passive; the same one again after a restart, and a few in all if trainings begin anew in its run
    3   the active sends Enc(y_i) of every training row, in pieces
    4   the passive multiplies them to Enc(c_g), g being a group. `sparsity` tells it which groups have fewer than 5
        rows of a class. It merges those and tests again, until there are none. Every test is over as many groups as
        were asked for, so that the active does not see how many are left
    5   the passive packs the counts of the final groups, adds masks uniform modulo n and re-randomises; the active
        decrypts with a proof; the passive takes the masks off

Guarantee: the passive learns which groups were sparse in each test, and the counts of the final groups, each with 5
    rows of either class or more. The active learns how many columns and groups were asked for and how many tests there
    were, and nothing about the rows in them, whatever it encrypted as labels: all that it decrypts is uniform modulo n.
Assumes: a passive that follows the protocol. One that cheats can have other sums of labels decrypted, single labels
    too, as in the training itself. The active is held to its ciphertexts by the proof and to labels of 0 and 1 by the
    checks on counts (5 ≤ c_g ≤ n_g - 5, every column with the same total); it may still choose its labels, as in the
    training. Decisional composite residuosity; see `sparsity` and `decryption_proof` for the rest.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar, cast

import numpy as np
from gmpy2 import mpz
from numpy.random import Generator

from tacit.channel import Channel, recv_first, sentence
from tacit.crypto.byte_strings import frame
from tacit.crypto.curve import POINT_BYTES
from tacit.crypto.paillier import Ciphertexts, PrivateKey, PublicKey, Workers
from tacit.errors import PeerError
from tacit.events import Noted, Nowhere, Sink
from tacit.fixedpoint import Ints
from tacit.kinds.vertical_logistic.protocol import decryption_proof, sparsity
from tacit.kinds.vertical_logistic.protocol.journal import InMemory, Records
from tacit.kinds.vertical_logistic.protocol.label_count_messages import (
    Asked,
    CountRequest,
    CountsBegin,
    EncryptedLabels,
    HiddenCounts,
    MaskedCounts,
    Matches,
)
from tacit.kinds.vertical_logistic.protocol.label_count_terms import ASKED, LEAST, Terms, kept, once, refusal
from tacit.kinds.vertical_logistic.protocol.messages import HEAD, Decrypted
from tacit.kinds.vertical_logistic.protocol.sparsity import FEWEST, NUMBERS
from tacit.randomness import secure_rng
from tacit.wire import encode

TESTS = 10  # of sparsity; columns that still have sparse groups then become one group
_PIECE = 1 << 20  # bytes of labels in a message


class Grouped(Protocol):
    """A column's groups of rows, as `tacit.tables.evidence` has them."""

    @property
    def numbers(self) -> Ints:
        """The group of each training row, from 0."""

    @property
    def count(self) -> int:
        """How many groups there are."""

    def merge(self, sparse: Sequence[bool]) -> Self:
        """Fewer groups: each that is sparse, together with another. No group is divided."""


Grouping = TypeVar("Grouping", bound=Grouped)


@dataclass(frozen=True)
class Counting:
    """What either side is given in addition to its data.

    Args:
        bits: of the active's key.
        session: the number of the training, if the parties agreed on one.
        records: where it is kept what was asked for.
        rng: of scalars and shuffles; the operating system by default. Masks and keys are always the latter's.
        proof: whether the passive asks for the proof of decryption.
    """

    bits: int
    workers: Workers = field(default_factory=Workers)
    session: bytes = b""
    records: Records = field(default_factory=InMemory)
    sink: Sink = field(default_factory=Nowhere)
    rng: Generator | None = None
    proof: bool = True


def ask(
    channel: Channel, groupings: Mapping[str, Grouping], context: Counting, *, least: int = LEAST
) -> dict[str, tuple[Grouping, Ints]]:
    """A passive: each column's final groups, with the number of positive labels in each.

    Without any column it tells the active so. `least` is the number of rows that every group has, at least.
    """
    if not groupings:
        channel.send(CountRequest(0, 0, 0, 0, b""))
        return {}
    columns = list(groupings.values())
    request = _request(groupings, least, context)
    channel.send(request)
    key = _certified(channel, context)
    sums = _sums(channel, key, columns, request.rows, context)
    columns, sums = _merged(channel, key, columns, sums, request, context)
    counts = _opened(channel, key, sums, request, context)
    parts = np.split(np.array(counts, dtype=np.int64), np.cumsum([column.count for column in columns])[:-1])
    _check_counts(columns, parts)
    return dict(zip(groupings, zip(columns, parts, strict=True), strict=True))


def requested(channel: Channel) -> CountRequest:
    """The active: for how much a passive asks."""
    return recv_first(channel, CountRequest, HEAD)


def give(
    channel: Channel,
    passive: str,
    labels: Sequence[int] | Ints,
    make_key: Callable[[], PrivateKey],
    context: Counting,
    terms: Terms,
    request: CountRequest | None = None,
) -> None:
    """The active: lets `passive` have counts of these labels of the training rows, if it asks and the terms allow it.

    What it refuses is a PeerError here and, in words that tell nothing about the labels, at the passive. `request`:
    what `requested` gave, if that was called before.
    """
    request = requested(channel) if request is None else request
    if request.groups == 0:
        return
    y = np.asarray(labels)
    refused = refusal(request, passive, y, terms) or once(request, passive, context.session, context.records, terms)
    if refused is not None:
        told, own, error = refused
        channel.send(CountsBegin(told, b"", b""))
        raise error(own)
    key = make_key()
    channel.send(CountsBegin("", key.public.to_bytes(), decryption_proof.certify(key)))
    size = _piece(key.public)
    for start in range(0, len(y), size):
        piece = context.workers.encrypt(key, y[start : start + size].tolist())
        channel.send(EncryptedLabels(piece.to_bytes()))
        _tell(context, "labels encrypted", min(start + size, len(y)), len(y), size)
    packed = -(-request.groups // key.public.slots(slot_bits(len(y))))
    _answer(channel, key, request, packed, context)


def _answer(channel: Channel, key: PrivateKey, request: CountRequest, packed: int, context: Counting) -> None:
    """4 and 5 at the active: as many tests as the passive needs, and one opening."""
    rng, groups, width = context.rng or secure_rng(), request.groups, key.public.ciphertext_bytes
    limit = HEAD + groups * (width + NUMBERS * POINT_BYTES)
    either = cast(Any, HiddenCounts | MaskedCounts)
    for test in range(TESTS + 1):
        message = channel.recv(either, limit)
        if isinstance(message, MaskedCounts):
            masked = Ciphertexts.from_bytes(key.public, message.ciphertexts, packed)
            values = context.workers.decrypt_unsigned(key, masked)
            channel.send(decryption_proof.opened(key, masked, values))
            return
        if test < TESTS:
            channel.send(sparsity.compare(key, message, groups, _label(request, test), context.workers, rng))
    raise PeerError(f"the passive tests its groups more than {TESTS} times: there is no need to")


def _request(groupings: Mapping[str, Grouped], least: int, context: Counting) -> CountRequest:
    """1: for how much it asks, with a digest of all groups. The digest is salted: nobody can test guesses with it."""
    rows = {len(column.numbers) for column in groupings.values()}
    if len(rows) != 1:
        raise ValueError(f"all columns must be grouped over the same rows, got {sorted(rows)} rows")
    for name, column in groupings.items():
        sizes = _sizes(column)
        if len(sizes) != column.count or sizes.min() < max(least, NUMBERS):
            raise ValueError(
                f"column {name}: the smallest of {column.count} groups has {sizes.min()} training rows, "
                f"counts of labels need {max(least, NUMBERS)} in each: take fewer bins, or a larger least"
            )
    asked = kept(context.records, context.session, ASKED, Asked)
    if asked is None:
        asked = Asked(context.session, secrets.token_bytes(32))
        context.records.write(ASKED, encode(asked))
    parts = [(name.encode(), column.numbers.astype("<i8").tobytes()) for name, column in groupings.items()]
    digest = hashlib.sha256(frame(b"tacit label count groups", asked.salt, *(part for pair in parts for part in pair)))
    groups = sum(column.count for column in groupings.values())
    return CountRequest(groups, len(groupings), rows.pop(), least, digest.digest())


def _certified(channel: Channel, context: Counting) -> PublicKey:
    """2: the active's key, if it is what it should be."""
    begin = channel.recv(CountsBegin, HEAD + 1200 + context.bits * (1 + decryption_proof.CHALLENGES) // 8)
    if begin.refused:
        raise PeerError(f"the active refused: {sentence(begin.refused)}")
    if len(begin.key) * 8 != context.bits:
        raise PeerError(f"the active's key has {len(begin.key) * 8} bits, paillier.bits says {context.bits}")
    key = PublicKey.from_bytes(begin.key, insecure_bits=context.bits < 2048)
    decryption_proof.check_certificate(key, begin.certificate)
    return key


def _sums(channel: Channel, key: PublicKey, columns: Sequence[Grouped], rows: int, context: Counting) -> Ciphertexts:
    """3 and 4: Enc(c_g) of all groups, those of the first column first. The labels are not kept."""
    starts = np.cumsum([0, *(column.count for column in columns)])
    size, total = _piece(key), _zeros(key, int(starts[-1]))
    for start in range(0, rows, size):
        end = min(start + size, rows)
        message = channel.recv(EncryptedLabels, HEAD + (end - start) * key.ciphertext_bytes)
        piece = Ciphertexts.from_bytes(key, message.ciphertexts, end - start)
        groups = np.stack([c.numbers[start:end] + first for c, first in zip(columns, starts, strict=False)])
        total = key.add(total, context.workers.sums(key, groups.astype(np.int64), len(total), piece))
        _tell(context, "labels received", end, rows, size)
    return total


def _merged(
    channel: Channel,
    key: PublicKey,
    columns: list[Grouping],
    sums: Ciphertexts,
    request: CountRequest,
    context: Counting,
) -> tuple[list[Grouping], Ciphertexts]:
    """4: the columns without sparse groups, and the sums of these."""
    for test in range(TESTS):
        sizes = np.concatenate([_sizes(column) for column in columns]).tolist()
        spare = request.groups - len(sums)
        blinding, message = sparsity.hide(
            key,
            sums + _zeros(key, spare),
            [*sizes, *[request.rows] * spare],
            _label(request, test),
            context.workers,
            context.rng,
        )
        channel.send(message)
        found = sparsity.sparse(blinding, channel.recv(Matches, HEAD + (1 + NUMBERS) * request.groups * POINT_BYTES))
        flags = np.split(np.array(found[: len(sums)]), np.cumsum([column.count for column in columns])[:-1])
        if not any(flag.any() for flag in flags):
            return columns, sums
        before, columns = columns, []
        for column, flag in zip(before, flags, strict=True):
            columns.append(coarser(column, flag.tolist(), to_one=test == TESTS - 1) if flag.any() else column)
        sums = _joined(key, before, columns, sums, context)
    return columns, sums


def coarser(column: Grouping, sparse: list[bool], *, to_one: bool) -> Grouping:
    """The column with its sparse groups merged, or all groups if it was tested often enough."""
    if column.count == 1:
        raise PeerError(
            f"the active says that all rows together have fewer than {FEWEST} of a class, and gives counts for them"
        )
    merged = column.merge(sparse)
    while to_one and merged.count > 1:
        fewer = merged.merge([True] * merged.count)
        if fewer.count >= merged.count:
            break
        merged = fewer
    if not 1 <= merged.count < column.count or (to_one and merged.count > 1):
        raise ValueError(f"merging {sum(sparse)} of {column.count} groups left {merged.count}")
    return merged


def _joined(
    key: PublicKey, before: Sequence[Grouped], after: Sequence[Grouped], sums: Ciphertexts, context: Counting
) -> Ciphertexts:
    """The sums of merged groups, from those of the groups before: labels are not needed again."""
    places, first = [], 0
    for old, new in zip(before, after, strict=True):
        into = np.zeros(old.count, dtype=np.int64)
        into[old.numbers] = new.numbers
        if not np.array_equal(into[old.numbers], new.numbers):
            raise ValueError("merging divided a group: groups may only be taken together")
        places.append(into + first)
        first += new.count
    return context.workers.sums(key, np.concatenate(places)[None, :], first, sums)


def _opened(channel: Channel, key: PublicKey, sums: Ciphertexts, request: CountRequest, context: Counting) -> list[int]:
    """5: the counts. As many ciphertexts are sent as all groups would fill that were asked for."""
    bits = slot_bits(request.rows)
    packed = key.pack(sums + _zeros(key, request.groups - len(sums)), bits)
    masks = key.uniform(len(packed))
    sent = context.workers.rerandomize(key, key.add_plain(packed, masks))
    channel.send(MaskedCounts(sent.to_bytes()))
    answer = channel.recv(Decrypted, HEAD + 2 * len(sent) * key.bits // 8)
    try:
        values = decryption_proof.verify(key, sent, answer, proof=context.proof)
        bare = [(value - mask) % key.n for value, mask in zip(values, masks, strict=True)]
        counts = key.unpack(bare, bits, request.groups)
    except PeerError as error:
        raise PeerError(
            "the active answered with numbers that are not the counts of what it encrypted; they are not used"
        ) from error
    return counts[: len(sums)]


def _check_counts(columns: Sequence[Grouped], counts: Sequence[Ints]) -> None:
    """5: every group has a few of either class, and every column the same total."""
    for column, positives in zip(columns, counts, strict=True):
        sizes = _sizes(column)
        if (positives < FEWEST).any() or (positives > sizes - FEWEST).any():
            raise PeerError(
                f"a count of labels leaves fewer than {FEWEST} of one class: the active encrypted other numbers than "
                "labels, or gave a wrong answer about sparse groups; the counts are not used"
            )
    totals = {int(positives.sum()) for positives in counts}
    if len(totals) > 1:
        raise PeerError(
            f"the columns count {len(totals)} different numbers of positives over the same rows: the active encrypted "
            "other numbers than labels; the counts are not used"
        )


def _sizes(column: Grouped) -> Ints:
    return np.bincount(column.numbers, minlength=column.count)


def _zeros(key: PublicKey, count: int) -> Ciphertexts:
    """Ciphertexts of 0 without randomness: they hide nothing until they are re-randomised."""
    return Ciphertexts(key, (mpz(1),) * count)


def slot_bits(rows: int) -> int:
    """For a count of up to so many rows, with its sign."""
    return rows.bit_length() + 2


def _piece(key: PublicKey) -> int:
    """Labels in a message."""
    return max(1, _PIECE // key.ciphertext_bytes)


def _label(request: CountRequest, test: int) -> bytes:
    """What both sides call a test of sparsity: the digest is salted, so that no other request has it."""
    return frame(request.binning, test.to_bytes(8, "big"))


def _tell(context: Counting, what: str, done: int, whole: int, size: int) -> None:
    """A line for each quarter of the rows, if they do not fit one message."""
    if whole > size and 4 * done // whole > 4 * max(0, done - size) // whole:
        context.sink.emit(Noted(f"counts of labels: {done:,} of {whole:,} {what}"))
