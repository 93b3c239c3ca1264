"""Oblivious transfer and what is made of it: processor time of both parties together, in one thread.

- Base transfers, random transfers, punctured trees of 32 leaves with their set-up, words of their leaves, and lookups
  of one of 256 entries.
- The products of one step of a regression on 512 rows and 30 columns, 15 at each party: shares of X·v and of Xᵀ·r for
  either party's columns. Ours is one word per digit from punctured trees. The peer is Paillier at 2048 bits, with the
  owner's columns encrypted and packed beforehand, so that a step has only the other party's exponents (62 bits), its
  masks, and the owner's decryptions. It needs far less traffic: both are shown.
"""

from __future__ import annotations

import itertools
import secrets

import numpy as np

from bench.measure import CPU, Options, Row, Side, interleave, rate_row, time_row
from tacit.crypto import ot, paillier, punctured
from tacit.crypto.fixed_key import Blocks
from tacit.crypto.ot import one_of_many
from tacit.crypto.ot.words import Bits, total
from tacit.kinds.vertical_logistic.two_party.products import Layout, digits_of, give, take

DEPTH = 5
ROWS, COLUMNS = 512, 15  # of one party
SLOT = 124  # bits: 12 of a feature, 62 of a factor, 9 of a sum, 40 of a mask and one to spare
PACKED = 16  # slots in a plaintext of 2048 bits


def run(options: Options) -> list[Row]:
    sender, receiver = _session()
    rows = [
        time_row("128 base transfers", interleave(Side(_session), None, options.budget.share(8), clock=CPU)),
        _transfers(sender, receiver, options),
        *_trees(sender, receiver, options),
        _lookups(sender, receiver, options),
    ]
    return rows + _products(sender, receiver, options)


def _session() -> tuple[ot.Sender, ot.Receiver]:
    invitation = ot.invite()
    reply, sender = ot.join(invitation.message)
    return sender, invitation.receiver(reply)


def _transfers(sender: ot.Sender, receiver: ot.Receiver, options: Options) -> Row:
    choices = np.random.default_rng(0).integers(0, 2, 1 << 16)

    def extend() -> None:
        message, _ = receiver.extend(choices)
        sender.extend(message, len(choices))

    pair = interleave(Side(extend, work=len(choices)), None, options.budget.share(8), clock=CPU)
    return rate_row("random transfers", pair, unit="transfers", floor=4e6, judged="ours")


def _made(sender: ot.Sender, receiver: ot.Receiver, holes: punctured.Holes, depth: int) -> tuple[Blocks, Blocks, int]:
    """Both parties' leaves, and the bytes that it took."""
    made, held, sent = [], [], 0
    for start in range(0, len(holes), punctured.block(depth)):
        part = holes[start : start + punctured.block(depth)]
        asked, chosen = punctured.request(receiver, part, depth)
        _, leaves, reply = punctured.answer(sender, asked, len(part), depth)
        made.append(leaves)
        held.append(punctured.finish(receiver.session, part, depth, chosen, reply)[1])
        sent += len(asked) + len(reply)
    return np.concatenate(made, axis=1), np.concatenate(held, axis=1), sent


def _trees(sender: ot.Sender, receiver: ot.Receiver, options: Options) -> list[Row]:
    holes = np.random.default_rng(0).integers(0, 1 << DEPTH, 1 << 14)
    made, held, sent = _made(sender, receiver, holes, DEPTH)

    def words() -> None:
        punctured.words(sender.session, made, 1)
        punctured.punctured_words(receiver.session, held, holes, 1)

    def make() -> None:
        _made(sender, receiver, holes, DEPTH)

    setup = interleave(Side(make, work=len(holes)), None, options.budget.share(7), clock=CPU)
    use = interleave(Side(words, work=len(holes)), None, options.budget.share(6), clock=CPU)
    leaves = 1 << DEPTH
    return [
        rate_row(f"punctured trees of {leaves} leaves", setup, unit="trees", floor=2e5, judged="ours"),
        Row(f"bytes of a tree of {leaves} leaves", sent / len(holes), None, "B", "lower"),
        rate_row(f"words of all {leaves} leaves", use, unit="trees"),
    ]


def _lookups(sender: ot.Sender, receiver: ot.Receiver, options: Options) -> Row:
    draw = np.random.default_rng(0)
    indices, entries = draw.integers(0, 256, ROWS), draw.integers(0, 2**64, (ROWS, 256), dtype=np.uint64)

    def look_up() -> None:
        message, chosen = receiver.extend(one_of_many.index_bits(indices, 8))
        zeros, ones = (blocks.reshape(ROWS, 8, 2) for blocks in sender.extend(message, ROWS * 8))
        hidden = one_of_many.hide_tables(sender.session, zeros, ones, entries, 7)
        one_of_many.open_entries(receiver.session, indices, chosen.reshape(ROWS, 8, 2), hidden, 7)

    pair = interleave(Side(look_up), None, options.budget.share(5), clock=CPU)
    return time_row(f"{ROWS} lookups in tables of 256 entries", pair)


def _products(sender: ot.Sender, receiver: ot.Receiver, options: Options) -> list[Row]:
    features = np.random.default_rng(0).integers(-2048, 2048, (ROWS, COLUMNS))
    encrypted = _Encrypted(features)
    rows: list[Row] = []
    widths: list[Bits] = [128] if options.quick else [128, 64]
    for left, bits in zip(range(len(widths), 0, -1), widths, strict=True):
        trees = _FromTrees(sender, receiver, features, bits)
        pair = interleave(Side(trees.step), Side(encrypted.step), options.budget.share(left), clock=CPU)
        title = f"products of a step, {ROWS}×{2 * COLUMNS}, {bits} bits / Paillier"
        rows += [
            time_row(title, pair, floor=10),
            Row(f"{title}: bytes", trees.step_bytes, encrypted.step_bytes, "B", "lower"),
            Row(f"{title}: set-up of a cell, bytes", trees.cell_bytes, encrypted.cell_bytes, "B", "lower"),
        ]
    return rows


class _FromTrees:
    """One owner's columns as punctured trees; a step does the work for two such owners."""

    def __init__(self, sender: ot.Sender, receiver: ot.Receiver, features: np.ndarray, bits: Bits) -> None:
        self.layout = Layout(ROWS, COLUMNS, bits=bits)
        self.session = sender.session
        self.holes = digits_of(features, self.layout)
        self.made, self.held, setup = _made(sender, receiver, self.holes, self.layout.digit_bits)
        self.factors = np.random.default_rng(1).integers(0, 2**64, self.layout.shape, dtype=np.uint64)
        self.tweaks = itertools.count()
        self.step_bytes = 4 * self.layout.message_bytes
        self.cell_bytes = setup / features.size

    def step(self) -> None:
        for axis in (1, 0) * 2:  # X·v and Xᵀ·r
            tweak = next(self.tweaks)
            message, mine = give(self.session, self.made, tweak, self.factors, self.layout)
            theirs = take(self.session, self.held, self.holes, tweak, message, self.layout)
            for shares in (mine, theirs):
                total(shares, self.layout.bits, axis)


class _Encrypted:
    """One owner's columns under its key, packed by rows and by columns; a step does the work for two such owners."""

    def __init__(self, features: np.ndarray) -> None:
        self.key = paillier.generate(2048)
        blocks = [features[start : start + PACKED] for start in range(0, ROWS, PACKED)]
        self.by_rows = [self.key.encrypt([_packed(column) for column in block.T]) for block in blocks]
        self.by_columns = [self.key.encrypt([_packed(row) for row in features])]
        draw = np.random.default_rng(1)
        self.weights, self.residues = (draw.integers(-(2**61), 2**61, count) for count in (COLUMNS, ROWS))
        width = self.key.public.ciphertext_bytes
        self.step_bytes = 2 * (len(self.by_rows) + 1) * width
        self.cell_bytes = (len(self.by_rows) * COLUMNS + ROWS) * width / features.size

    def step(self) -> None:
        for _ in range(2):
            for vectors, factors in ((self.by_rows, self.weights), (self.by_columns, self.residues)):
                for vector in vectors:
                    self._product(vector, factors)

    def _product(self, vector: paillier.Ciphertexts, factors: np.ndarray) -> None:
        public = self.key.public
        found = public.multiply(factors[None], vector, bound=1 << (SLOT * (PACKED - 1) + 12))
        mask = sum(secrets.randbits(SLOT - 2) << (SLOT * slot) for slot in range(PACKED))
        self.key.decrypt_unsigned(public.rerandomize(public.add_plain(found, [public.signed(mask % public.modulus)])))


def _packed(values: np.ndarray) -> int:
    return sum(int(value) << (SLOT * slot) for slot, value in enumerate(values))
