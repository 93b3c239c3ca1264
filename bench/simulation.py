"""A simulated round against Flower's simulation on Ray: many clients, a large model, training that does nothing.

What is left is what a simulator costs: handing out the model, taking in the updates, adding them up. Also how that
grows with the clients, and the memory it takes.

If `--data` names the folder of `mnist_by_writer.npz`: the CPU time of a whole run of 100 clients that train a
convolutional network, over that of the same training in a plain loop of torch.
"""

from __future__ import annotations

import math
import statistics
import time
import tracemalloc

import numpy as np

from bench.measure import CPU, Options, Row, Side, interleave
from tacit.events import Kept, RoundFinished
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork

CLIENTS = 100


class Still:
    """A task whose training returns the model as it came."""

    def __init__(self, size: int) -> None:
        self._size = size

    def model(self) -> Arrays:
        return {"weights": np.zeros(self._size, dtype=np.float32)}

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        return Fitted(model, 1, 0.0)


def ours(clients: int, size: int, rounds: int) -> list[float]:
    """The wall time of each round."""
    kept = Kept()
    settings = Settings(task="still", rounds=rounds, clients=clients)
    MemoryEngine(settings, Still(size), kept).run()
    return [event.seconds for event in kept.events if isinstance(event, RoundFinished)]


def run(options: Options) -> list[Row]:
    from bench import flower_simulation  # a peer: if it is missing, the user is told the extra

    size = 1_000_000
    ours(CLIENTS, size, 1)
    before = ours(CLIENTS, size, 5)
    theirs = flower_simulation.seconds_a_round(CLIENTS, size, 3 if options.quick else 6)
    after = ours(CLIENTS, size, 5)
    rows = [
        Row(
            f"a round of {CLIENTS} clients, {size:,} floats",
            statistics.median(before + after),
            statistics.median(theirs),
            "s",
            "lower",
            floor=15,
            target=40,
        )
    ]
    for clients in (100, 1000) if options.quick else (100, 1000, 10_000):
        start = time.perf_counter()
        seconds = statistics.median(ours(clients, size, 1 if clients > 1000 else 3))
        rows.append(
            Row(f"growth, {clients} clients: {seconds / clients * 1e3:.2f} ms a client", seconds, None, "s", "lower")
        )
        if time.perf_counter() - start > options.budget.remaining():
            break
    for clients in (100, 1000):
        tracemalloc.start()
        ours(clients, size, 1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        name = f"memory, {clients} clients"
        rows.append(Row(name, peak / (4 * size), None, "models", "lower", floor=16, judged="ours"))
    if options.data is not None and not options.quick:
        rows.append(_over_training(str(options.data / "mnist_by_writer.npz"), options))
    return rows


def _over_training(path: str, options: Options) -> Row:
    from bench import simulation_torch as network  # torch is an extra

    for accuracy in (network.federation(path), network.training(path)):  # which warm up both sides
        if accuracy < 0.25:
            raise RuntimeError(f"the network learnt nothing: its accuracy is {accuracy:.2f}")
    whole, bare = Side(lambda: network.federation(path)), Side(lambda: network.training(path))
    pair = interleave(whole, bare, options.budget.share(1), rounds=5, warm_up=0, clock=CPU, summary=min)
    over = pair.ours / pair.peer if pair.peer else math.nan
    name = f"a network on MNIST, {network.CLIENTS} clients, {network.ROUNDS} rounds: CPU of the run / of its training"
    return Row(name, over, None, "x", "lower", floor=1.15, target=1.1, judged="ours")
