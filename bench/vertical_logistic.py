"""One step of vertical logistic regression against the same step written with phe, and what a step sends.

A step: the active encrypts the residues of a batch, the passive computes the encrypted gradient of its features, masks
it and sends it back, the active decrypts it and the passive takes the mask off. Both sides check their gradient.

phe's loop encrypts value by value and multiplies by numpy's product of object arrays; its masks are uniform over [0, 1)
as in the code it stands for. phe has gmpy2 underneath too. Both sides work on one core; ours then on two processes.

Then what the journal costs: a step of both parties as they train, with its records on disk, against memory; and how
long one record waits for the disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.measure import CPU, WALL, Budget, Clock, Options, Row, Side, interleave, time_row
from tacit.channel import run_parties
from tacit.crypto import paillier
from tacit.fixedpoint import Grid
from tacit.kinds.vertical_logistic.protocol import logistic_masked
from tacit.kinds.vertical_logistic.protocol.journal import InMemory, Records
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.store.journal_files import RecordFiles

Floats = NDArray[np.float64]

RESIDUES = Grid(30)
FEATURES = Grid(16)
LARGEST_FEATURE = 16.0
PRODUCTS = Grid(RESIDUES.fraction_bits + FEATURES.fraction_bits)
FLOORS = {2048: 13.0, 3072: 16.0}
BATCH = 512


class Ours:
    """Both parties of a step, and the bytes they sent in the last one."""

    def __init__(self, bits: int, workers: int) -> None:
        self.key = paillier.generate(bits)
        self.public = paillier.PublicKey.from_bytes(self.key.public.to_bytes())
        self.workers = paillier.Workers(workers)
        self.sent = 0

    def step(self, features: Floats, residues: Floats) -> Floats:
        encrypted = self.workers.encrypt(self.key, RESIDUES.encode(residues).tolist()).to_bytes()
        # The passive's part. The slots are sized by what is agreed, not by the data.
        received = paillier.Ciphertexts.from_bytes(self.public, encrypted, len(residues))
        matrix = FEATURES.encode(features.T)
        slot_bits = int(len(residues) * LARGEST_FEATURE * 2**PRODUCTS.fraction_bits).bit_length() + 1
        gradient = self.workers.multiply(self.public, matrix, received, bound=2**RESIDUES.fraction_bits)
        packed = self.public.pack(gradient, slot_bits)
        masks = self.public.uniform(len(packed))
        masked = self.public.rerandomize(self.public.add_plain(packed, masks)).to_bytes()
        # The active's part.
        returned = paillier.Ciphertexts.from_bytes(self.key.public, masked, len(packed))
        opened = self.key.decrypt_unsigned(returned)
        # The passive's part.
        values = [value - mask for value, mask in zip(opened, masks, strict=True)]
        self.sent = len(encrypted) + len(masked) + len(opened) * self.public.bits // 8
        return PRODUCTS.decode_wide(self.public.unpack(values, slot_bits, len(matrix)))


class Phe:
    """The same with phe."""

    def __init__(self, bits: int) -> None:
        from phe import paillier as phe
        from phe.util import HAVE_GMP

        if not HAVE_GMP:
            raise RuntimeError("phe does not find gmpy2: without it the comparison would flatter Tacit")
        self.public, self.private = phe.generate_paillier_keypair(n_length=bits)
        self.sent = 0

    def encrypt_vector(self, vector: Floats) -> NDArray[Any]:
        return np.array([self.public.encrypt(value) for value in vector.tolist()])

    def step(self, features: Floats, residues: Floats) -> Floats:
        encrypted = self.encrypt_vector(residues)
        gradient = features.T @ encrypted
        mask = np.random.default_rng().random(len(gradient))
        masked = gradient + self.encrypt_vector(mask)
        opened = np.array([self.private.decrypt(value) for value in masked])
        self.sent = (len(encrypted) + len(masked)) * self.public.nsquare.bit_length() // 8 + 8 * len(opened)
        return opened - mask


def checked(step: Callable[[Floats, Floats], Floats], features: Floats, residues: Floats) -> Callable[[], None]:
    expected = features.T @ residues

    def call() -> None:
        error = np.abs(step(features, residues) - expected).max()
        if error > 1e-3:
            raise RuntimeError(f"the gradient is off by {error:.3g}")

    return call


def data(rows: int, columns: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(7)
    return rng.normal(size=(rows, columns)).clip(-LARGEST_FEATURE, LARGEST_FEATURE), rng.uniform(-1, 1, rows)


def run(options: Options) -> list[Row]:
    sizes = (2048,) if options.quick else (2048, 3072)
    rows: list[Row] = []
    for place, bits in enumerate(sizes):
        rows += _step(bits, options, 2 * (len(sizes) - place) + 2)
    rows.append(_journal(options.budget.share(3), options.quick))
    rows.append(_record(options.budget.share(3)))
    rows.append(_epoch(sizes[-1], 1, CPU, options.budget.share(2), options.quick))
    if not options.quick:
        rows.append(_epoch(sizes[-1], 2, WALL, options.budget.share(1), options.quick))
    return rows


def _step(bits: int, options: Options, left: int) -> list[Row]:
    batch, columns = (32, 10) if options.quick else (BATCH, 30)
    features, residues = data(batch, columns)
    one, two, peer = Ours(bits, 1), Ours(bits, 2), Phe(bits)
    title = f"{batch} x {columns}, {bits} bits"
    alone = checked(one.step, features, residues)
    shared = checked(two.step, features, residues)
    with two.workers:
        for _ in range(2):  # tables, and processes
            alone()
            shared()
        against_phe = interleave(
            Side(alone),
            Side(checked(peer.step, features, residues)),
            options.budget.share(left),
            rounds=1 if options.quick else 3,
            warm_up=0,
            clock=CPU,
        )
        # The fastest round: whatever else runs on the machine takes from two processes more than from one.
        rounds = 3 if options.quick else 15
        workers = interleave(
            Side(shared), Side(alone), options.budget.share(left - 1), rounds=rounds, clock=WALL, summary=min
        )
    judged = not options.quick  # a small batch is not what the floors are for
    return [
        time_row(
            f"step against phe, CPU, {title}",
            against_phe,
            floor=FLOORS[bits] if judged else None,
            target=20.0 if judged else None,
        ),
        time_row(
            f"two workers against one, wall, {title}",
            workers,
            floor=1.6 if judged else None,
        ),
        Row(f"sent in a step, {title}", one.sent, peer.sent, "B", "lower"),
    ]


def _journal(budget: Budget, quick: bool) -> Row:
    steps, batch, columns = (2, 32, 10) if quick else (4, BATCH, 30)
    features, _ = data(steps * batch, 2 * columns)
    labels = (features.sum(axis=1) > 0).astype(int)
    key = paillier.generate(2048)
    settings = Settings.model_validate(
        {
            "protocol": "masked",
            "parties": {"active": {"role": "active"}, "passive": {"role": "passive"}},
            "train": {"epochs": 1, "batch": batch, "test": 0.0},
            "paillier": {"bits": 2048},
            "checks": {"row_uses": 2},
        }
    )

    def train(records: Callable[[str], Records]) -> None:
        own = {name: PaillierContext(records=records(name), key=key) for name in settings.parties}
        run_parties(
            {
                "active": lambda c: logistic_masked.active(c, features[:, :columns], labels, settings, own["active"]),
                "passive": lambda c: logistic_masked.passive(
                    c, features[:, columns:], settings, "passive", own["passive"]
                ),
            }
        )

    def on_disk() -> None:
        with tempfile.TemporaryDirectory(dir=".") as folder:

            def records(name: str) -> RecordFiles:
                (Path(folder) / name).mkdir()
                return RecordFiles(Path(folder) / name)

            train(records)

    memory = Side(lambda: train(lambda name: InMemory()), steps)
    pair = interleave(Side(on_disk, steps), memory, budget, rounds=3 if quick else 7, clock=CPU)
    title = f"step with its journal on disk against memory, CPU, {batch} x {columns}, 2048 bits"
    return time_row(title, pair, floor=None if quick else 0.95)


def _record(budget: Budget) -> Row:
    """One of the three records of a step, synced: what it waits for the disk."""
    size = BATCH * 2048 // 4
    with tempfile.TemporaryDirectory(dir=".") as folder:
        records = RecordFiles(Path(folder))
        body = bytes(size)
        pair = interleave(Side(lambda: records.write("step-0", body)), None, budget, rounds=15, summary=min)
    return time_row(f"a record of {size} bytes, synced, wall, fastest of 15", pair)


def _epoch(bits: int, workers: int, clock: Clock, budget: Budget, quick: bool) -> Row:
    rows, columns = (BATCH, 20) if quick else (10_000, 50)
    features, residues = data(rows, columns)
    ours = Ours(bits, workers)

    def epoch() -> None:
        for start in range(0, rows, BATCH):
            batch = slice(start, start + BATCH)
            checked(ours.step, features[batch], residues[batch])()

    with ours.workers:
        ours.step(features[:BATCH], residues[:BATCH])  # tables, and processes
        pair = interleave(Side(epoch), None, budget, rounds=1 if quick else 3, warm_up=0, clock=clock)
    how = "CPU" if clock is CPU else f"{workers} workers, wall"
    return time_row(f"epoch of {rows} x {columns}, batch {BATCH}, {bits} bits, {how}", pair)
