"""Steps of logistic regression by SPU in one process: started by `vertical_shared` with SPU's interpreter.

    python spu_peer.py PROTOCOL ROWS COLUMNS STEPS      then each line of its input makes so many steps; it answers with
                                                        the seconds of processor time that all its threads took so far

Two parties, ring of 64 bits. `semi2k` has a dealer inside (its trusted first party), `cheetah` has none: homomorphic
encryption and oblivious transfer. A call shares the table once, and then makes all its steps on shares.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial

import jax  # type: ignore[import-not-found]
import jax.numpy as jnp  # type: ignore[import-not-found]
import numpy as np
import spu  # type: ignore[import-not-found]
import spu.utils.simulation as simulation  # type: ignore[import-not-found]

PROTOCOLS = {"semi2k": spu.ProtocolKind.SEMI2K, "cheetah": spu.ProtocolKind.CHEETAH}


def steps(x, y, weights, count):  # type: ignore[no-untyped-def]
    """So many steps over all rows."""
    for _ in range(count):
        residues = jax.nn.sigmoid(jnp.dot(x, weights)) - y
        weights = weights - 0.5 * jnp.dot(x.T, residues) / x.shape[0]
    return weights


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # SPU logs on its output
    protocol, (rows, columns, count) = PROTOCOLS[sys.argv[1]], map(int, sys.argv[2:])
    simulator = simulation.Simulator.simple(2, protocol, spu.FieldType.FM64)
    rng = np.random.default_rng(7)
    x = rng.normal(size=(rows, columns)).clip(-16, 16)
    y = (x.sum(axis=1) > 0).astype(np.float64)
    run = simulation.sim_jax(simulator, partial(steps, count=count))
    weights = run(x, y, np.zeros(columns))  # compiles
    expected = np.zeros(columns)
    for _ in range(count):
        expected -= 0.5 * x.T @ (1 / (1 + np.exp(-(x @ expected))) - y) / rows
    if np.abs(weights - expected).max() > 2e-2:
        raise SystemExit(f"SPU's step is off by {np.abs(weights - expected).max():.3g}")
    print("ready", file=answers)
    for _ in sys.stdin:
        run(x, y, np.asarray(weights))
        print(time.process_time(), file=answers)


main()
