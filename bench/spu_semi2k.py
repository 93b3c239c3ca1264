"""Steps of logistic regression by SPU's semi2k in one process: started by `vertical_shared` with SPU's interpreter.

    python spu_semi2k.py ROWS COLUMNS       then each line of its input makes `STEPS` steps; it answers with the seconds
                                            of processor time that all its threads took so far

Two parties, ring of 64 bits, the dealer of semi2k inside (its trusted first party). A call shares the table once, and
then makes all its steps on shares.
"""

from __future__ import annotations

import sys
import time

import jax  # type: ignore[import-not-found]
import jax.numpy as jnp  # type: ignore[import-not-found]
import numpy as np
import spu  # type: ignore[import-not-found]
import spu.utils.simulation as simulation  # type: ignore[import-not-found]

STEPS = 10


def steps(x, y, weights):  # type: ignore[no-untyped-def]
    """So many steps over all rows."""
    for _ in range(STEPS):
        residues = jax.nn.sigmoid(jnp.dot(x, weights)) - y
        weights = weights - 0.5 * jnp.dot(x.T, residues) / x.shape[0]
    return weights


def main() -> None:
    rows, columns = int(sys.argv[1]), int(sys.argv[2])
    simulator = simulation.Simulator.simple(2, spu.ProtocolKind.SEMI2K, spu.FieldType.FM64)
    rng = np.random.default_rng(7)
    x = rng.normal(size=(rows, columns)).clip(-16, 16)
    y = (x.sum(axis=1) > 0).astype(np.float64)
    run = simulation.sim_jax(simulator, steps)
    weights = run(x, y, np.zeros(columns))  # compiles
    expected = np.zeros(columns)
    for _ in range(STEPS):
        expected -= 0.5 * x.T @ (1 / (1 + np.exp(-(x @ expected))) - y) / rows
    if np.abs(weights - expected).max() > 2e-2:
        raise SystemExit(f"SPU's step is off by {np.abs(weights - expected).max():.3g}")
    print("ready", flush=True)
    for _ in sys.stdin:
        run(x, y, np.asarray(weights))
        print(time.process_time(), flush=True)


main()
