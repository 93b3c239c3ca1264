"""What few bits save in bytes, and cost in accuracy and time: masked updates of 8 bits, and downloads of 8 bits.

The digits of scikit-learn, and MNIST by writer if `--data` names the folder of `mnist_by_writer.npz`: 100 clients,
all of them in each round. Judged are the bytes of a masked upload for each parameter, the points of accuracy that are
lost, and the time to pack a vector of a million words over the time of the masks that a client of a hundred adds to it.

Distributed differential privacy in a ring of 8 bits and log2 of the clients, against one of 32 bits at the same
epsilon: bytes, noise, and on MNIST accuracy. Noise moves the accuracy of a run, so that it is the mean of several.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import CPU, Budget, Options, Row, Side, interleave
from tacit.crypto.prg import add_masks
from tacit.events import Kept, RoundFinished
from tacit.fixedpoint import word_type
from tacit.kinds.horizontal.forecast import plan
from tacit.kinds.horizontal.protections.distributed_dp import skellam_encoding
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.packed_words import pack, unpack

CLIENTS = 100
DIGITS: dict[str, Any] = {
    "rounds": 15,
    "train": {"epochs": 2, "batch": 8, "learning_rate": 0.1},
    "masks": {"clip": 0.2, "largest_weight": 20},
}
MNIST: dict[str, Any] = {
    "rounds": 10,
    "train": {"epochs": 2, "batch": 16, "learning_rate": 0.1},
    "masks": {"clip": 0.1, "largest_weight": 150},
}
NEIGHBOURS = 12  # of a client of a hundred, on the sparse graph
WORDS = 1_000_000
NOISY: dict[str, Any] = {"ddp_eps": 8.0, "ddp_delta": 1e-5, "ddp_norm_clip": 0.5, "n_min": 80}
NOISY_RUNS = 5


def run(options: Options) -> list[Row]:
    digits = tasks.make("digits", CLIENTS, 3, {})
    rows = _accuracy("digits", digits, DIGITS, options)
    rows += _noisy("digits", digits, DIGITS, 0)
    if options.data is not None and not options.quick:
        mnist = _mnist(options.data)
        rows += _accuracy("MNIST by writer", mnist, MNIST, options)
        rows += _noisy("MNIST by writer", mnist, MNIST, NOISY_RUNS)
    return rows + _packing(options)


def _mnist(data: Path) -> Task:
    return tasks.make("mnist_by_writer", CLIENTS, 3, {"path": str(data / "mnist_by_writer.npz")})


def _accuracy(name: str, task: Task, keys: dict[str, Any], options: Options) -> list[Row]:
    few = keys["masks"] | {"bits": 8}
    cases: dict[str, tuple[dict[str, Any], int | None]] = {
        "a ring of 64 bits": ({}, None),
        "8 bits": (few, None),
        "8 bits, downloads of 8 bits": (few, 8),
    }
    rows, first = [], 0.0
    for case, (masks, down) in cases.items():
        encrypt = {"encrypt_type": "PW_ENCRYPT", "pw_encrypt": masks}
        rounds = 3 if options.quick else keys["rounds"]
        settings = Settings(
            task="bench", rounds=rounds, clients=CLIENTS, encrypt=encrypt, train=keys["train"], round={"down": down}
        )
        layout = Layout.of(task.model())
        traffic = plan(settings, layout, None).traffic
        accuracy = 100 * _last(settings, task).metrics["accuracy"]
        first = first or accuracy
        judged: dict[str, Any] = {"floor": 2.1, "target": 2.0, "judged": "ours"} if masks else {}
        up, sent = traffic.up["Masked"] / layout.size, traffic.down["Work"] / layout.size
        rows.append(Row(f"{name}, {case}: bytes up a parameter", up, None, "", "lower", **judged))
        rows.append(Row(f"{name}, {case}: bytes down a parameter", sent, None, "", "lower"))
        rows.append(Row(f"{name}, {case}: accuracy", accuracy, None, "%", "higher"))
        if masks:
            lost = first - accuracy
            rows.append(Row(f"{name}, {case}: points lost", lost, None, "", "lower", 0.5, 0.2, "ours"))
    return rows


def _noisy(name: str, task: Task, keys: dict[str, Any], runs: int) -> list[Row]:
    """Distributed differential privacy at one epsilon for the run, in rings of 32 bits and of few."""
    rows, layout = [], Layout.of(task.model())
    noise: dict[int | None, float] = {}
    accuracy: dict[int | None, float] = {}
    for bits in (None, 8):
        encrypt = {
            "encrypt_type": "DDP_ENCRYPT",
            "ddp_encrypt": NOISY,
            "pw_encrypt": {"drop": 0.05, "colluders": 5, "bits": bits},
        }
        settings = Settings(task="bench", rounds=keys["rounds"], clients=CLIENTS, encrypt=encrypt, train=keys["train"])
        case = f"{name}, noise at epsilon {NOISY['ddp_eps']:g}, {f'{bits} bits' if bits else 'a ring of 32 bits'}"
        encoding = skellam_encoding(settings, layout.size)
        noise[bits] = math.sqrt(encoding.share_variance) / encoding.scale
        up = plan(settings, layout, None).traffic.up["Masked"] / layout.size
        judged: dict[str, Any] = {"floor": 2.1, "target": 2.0, "judged": "ours"} if bits else {}
        rows.append(Row(f"{case}: bytes up a parameter", up, None, "", "lower", **judged))
        if runs:
            found = [100 * _last(settings, task).metrics["accuracy"] for _ in range(runs)]
            accuracy[bits] = sum(found) / runs
            rows.append(Row(f"{case}: accuracy, mean of {runs} runs", accuracy[bits], None, "%", "higher"))
    more = noise[8] / noise[None]
    rows.append(Row(f"{case}: noise over that of 32 bits", more, None, "x", "lower", 1.05, 1.01, "ours"))
    if runs:
        lost = accuracy[None] - accuracy[8]
        rows.append(Row(f"{case}: points lost", lost, None, "", "lower", 0.5, 0.2, "ours"))
    return rows


def _last(settings: Settings, task: Task) -> RoundFinished:
    kept = Kept()
    MemoryEngine(settings, task, kept).run()
    return [event for event in kept.events if isinstance(event, RoundFinished)][-1]


def _packing(options: Options) -> list[Row]:
    keys = [(bytes([number]) * 16, 1) for number in range(NEIGHBOURS + 1)]
    return [
        _over_masks(what, bits, keys, options.budget.share(6)) for bits in (15, 25, 53) for what in ("pack", "unpack")
    ]


def _over_masks(what: str, bits: int, keys: list[tuple[bytes, int]], budget: Budget) -> Row:
    words = np.zeros(WORDS, dtype=word_type(bits))
    packed = pack(words, bits)
    call = (lambda: pack(words, bits)) if what == "pack" else (lambda: unpack(packed, WORDS, bits))
    pair = interleave(Side(call), Side(lambda: add_masks(words, keys)), budget, rounds=5, clock=CPU)
    part = pair.ours / pair.peer if pair.peer else math.nan
    name = f"{what} a million words of {bits} bits / the masks of a client of {CLIENTS}"
    return Row(name, part, None, "x", "lower", 1.0, 0.5, "ours")
