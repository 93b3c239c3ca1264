"""What it costs to store a model so that damage shows and a crash loses nothing, against writing the same bytes.

Ours is what a coordinator does after a round: `Store.save` of the model, a small state and the ledger, each with its
checksum and synchronised. The peer writes the bytes of the model's file to a new one, synchronises it,
and puts it in the place of the last. Both on the disk of
the temporary folder (TMPDIR).
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import numpy as np

from bench.measure import Options, Row, Side, interleave, time_row
from tacit.store.party_folder import Store


def run(options: Options) -> list[Row]:
    size = 25_000_000  # floats: 100 MB
    model = {"weights": np.random.default_rng(0).normal(size=size).astype(np.float32)}
    rounds = itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        store, plain = Store(Path(folder)), Path(folder) / "plain"
        fresh = Path(folder) / "fresh"

        def save() -> None:
            store.save(model, {"round": next(rounds)}, {"version": 1, "ledgers": []})

        save()
        data = (Path(folder) / "model.safetensors").read_bytes()

        def write() -> None:
            with fresh.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(plain)

        pair = interleave(Side(save), Side(write), options.budget.share(1), rounds=5 if options.quick else 15)
    title = f"Store.save of a model of {4 * size // 10**6} MB / writing its bytes"
    # A guard against getting worse, on a fast disk: 0.39 to 0.54 were measured, 0.19 to 0.25 when arrays were copied.
    return [time_row(title, pair, floor=0.3)]
