"""What few bits save in bytes, and cost in accuracy and time: masked updates of 8 bits, and downloads of 8 bits.

The digits of scikit-learn, and MNIST by writer if `--data` names the folder of `mnist_by_writer.npz`: 100 clients,
all of them in each round. Judged are the bytes of a masked upload for each parameter, the points of accuracy that are
lost, and the time to pack a vector of a million words over the time of the masks that a client of a hundred adds to it.
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


def run(options: Options) -> list[Row]:
    rows = _accuracy("digits", tasks.make("digits", CLIENTS, 3, {}), DIGITS, options)
    if options.data is not None and not options.quick:
        rows += _accuracy("MNIST by writer", _mnist(options.data), MNIST, options)
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
