"""What an epsilon of the whole run costs in accuracy: local against distributed differential privacy.

Softmax regression on scikit-learn's digits, every client in every round. Local: each upload carries enough noise for
its client's epsilon. Distributed: noise shares inside the masks of a real secure aggregation, one epsilon for the sums.
Both at delta 1e-5 for the run. Judged is distributed DP at epsilon 8 with 1000 clients, in points of accuracy lost.
With `--plots DIR` the curves are drawn.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bench.measure import Options, Row
from tacit.dp.calibration import gaussian_epsilon, noise_multiplier
from tacit.events import Kept, RoundFinished
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine
from tacit.kinds.horizontal.tasks import load as tasks

ROUNDS = 10
DELTA = 1e-5
CLIP = 1.0
TRAIN = {"epochs": 1, "batch": 16, "learning_rate": 0.5}
Curves = dict[str, list[tuple[float, float]]]


def run(options: Options) -> list[Row]:
    sizes = (100,) if options.quick else (100, 1000)
    epsilons = (8.0,) if options.quick else (1.0, 2.0, 4.0, 8.0, 16.0)
    more = () if options.quick else (50.0, 200.0, 1000.0)  # where local noise begins to leave something
    rows: list[Row] = []
    curves: Curves = {}
    for clients in sizes:
        plain = _accuracy(clients, {})
        rows.append(_row(f"{clients} clients, unprotected", plain))
        for name, encrypt, swept in (
            ("local", _local, epsilons + more),
            ("distributed", _distributed, epsilons),
        ):
            for epsilon in swept:
                judged = (name, clients, epsilon) == ("distributed", 1000, 8.0)
                runs = [_accuracy(clients, encrypt(clients, epsilon)) for _ in range(3 if judged else 1)]
                found = sum(runs) / len(runs)
                rows.append(_row(f"{clients} clients, {name}, epsilon {epsilon:g} for the run", found))
                curves.setdefault(f"{name}, {clients} clients", []).append((epsilon, 100 * found))
                if judged:
                    title = "points lost, mean of 3 runs: 1000 clients, distributed, epsilon 8"
                    rows.append(Row(title, 100 * (plain - found), None, "", "lower", 2, 1, "ours"))
        curves.setdefault(f"unprotected, {clients} clients", []).extend((e, 100 * plain) for e in epsilons + more)
    if options.plots is not None:
        _draw(curves, options.plots)
    return rows


def _row(name: str, accuracy: float) -> Row:
    return Row(f"accuracy, {name}", 100 * accuracy, None, "%", "higher")


def _local(clients: int, epsilon: float) -> dict[str, Any]:
    """An epsilon of one upload such that all rounds together cost `epsilon`."""
    multiplier = noise_multiplier(epsilon, DELTA, steps=ROUNDS)
    return {
        "encrypt_type": "DP_ENCRYPT",
        "dp_eps": gaussian_epsilon(multiplier, DELTA),
        "dp_delta": DELTA,
        "dp_norm_clip": CLIP,
    }


def _distributed(clients: int, epsilon: float) -> dict[str, Any]:
    return {
        "encrypt_type": "DDP_ENCRYPT",
        "ddp_encrypt": {
            "ddp_eps": epsilon,
            "ddp_delta": DELTA,
            "ddp_norm_clip": CLIP,
            "n_min": math.ceil(0.8 * clients),
        },
        "pw_encrypt": {"drop": 0.05, "colluders": math.ceil(0.05 * clients)},
    }


def _accuracy(clients: int, encrypt: dict[str, Any]) -> float:
    settings = Settings(task="digits", rounds=ROUNDS, clients=clients, encrypt=encrypt, train=TRAIN)
    kept = Kept()
    MemoryEngine(settings, tasks.make("digits", clients, 0, {}), kept).run()
    last = [event for event in kept.events if isinstance(event, RoundFinished)][-1]
    return last.metrics["accuracy"]


def _draw(curves: Curves, folder: Path) -> None:
    from tacit.report.chart import Chart, Panel, Series, standalone

    colours: dict[str, Any] = {"local": "red", "distributed": "blue", "unprotected": "grey"}
    panels = tuple(
        Panel(
            f"accuracy (%), {clients} clients",
            tuple(Series(name, tuple(curves[f"{name}, {clients} clients"]), colours[name]) for name in colours),
        )
        for clients in (100, 1000)
        if f"local, {clients} clients" in curves
    )
    chart = Chart(
        "accuracy-against-epsilon",
        "Accuracy against the epsilon of the whole run",
        f"Softmax regression on digits, {ROUNDS} rounds, delta {DELTA:g}. Local: each upload carries its client's "
        "noise. Distributed: the noise is shared out and added up inside secure aggregation.",
        "epsilon of the whole run",
        panels,
        whole_x=False,
        log_x=True,
    )
    (folder / f"{chart.name}.svg").write_text(standalone(chart), encoding="utf-8")
