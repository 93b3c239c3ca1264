"""A step of logistic regression by SPU's semi2k in one process: started by `vertical_shared` with SPU's interpreter.

    python spu_semi2k.py ROWS COLUMNS       then each line of its input makes one step; it answers with the seconds of
                                            processor time that all its threads took so far

Two parties, ring of 64 bits, the dealer of semi2k inside (its trusted first party); the table is shared once, before.
"""

from __future__ import annotations

import sys
import time

import jax.numpy as jnp  # type: ignore[import-not-found]
import numpy as np
import spu  # type: ignore[import-not-found]
import spu.utils.simulation as simulation  # type: ignore[import-not-found]


def step(x, y, weights):  # type: ignore[no-untyped-def]
    """One step over all rows."""
    scores = jnp.dot(x, weights)
    residues = 1 / (1 + jnp.exp(-scores)) - y
    return weights - 0.5 * jnp.dot(x.T, residues) / x.shape[0]


def main() -> None:
    rows, columns = int(sys.argv[1]), int(sys.argv[2])
    simulator = simulation.Simulator.simple(2, spu.ProtocolKind.SEMI2K, spu.FieldType.FM64)
    rng = np.random.default_rng(7)
    x = rng.normal(size=(rows, columns)).clip(-16, 16)
    y = (x.sum(axis=1) > 0).astype(np.float64)
    run = simulation.sim_jax(simulator, step)
    weights = run(x, y, np.zeros(columns))  # compiles
    expected = 0.5 * x.T @ (y - 0.5) / rows
    if np.abs(weights - expected).max() > 1e-2:
        raise SystemExit(f"SPU's step is off by {np.abs(weights - expected).max():.3g}")
    print("ready", flush=True)
    for _ in sys.stdin:
        run(x, y, np.asarray(weights))
        print(time.process_time(), flush=True)


main()
