"""Flower's own simulation on Ray, with training that does nothing: seconds a round.

Not a benchmark by itself: `bench.simulation` measures it.
"""

from __future__ import annotations

import logging
import os
import time
import warnings

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("PYTHONWARNINGS", "ignore")  # in the workers

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # protobuf's remarks on flwr's generated code
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

logging.getLogger("flwr").setLevel(logging.ERROR)


def seconds_a_round(clients: int, size: int, rounds: int) -> list[float]:
    """The wall time of each round but the first, which starts the workers."""
    ends: list[float] = []
    client_app, server_app = ClientApp(), ServerApp()

    @client_app.train()
    def train(message: Message, context: Context) -> Message:
        content = RecordDict(
            {"arrays": message.content["arrays"], "metrics": MetricRecord({"num-examples": 1, "loss": 0.0})}
        )
        return Message(content=content, reply_to=message)

    @server_app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=clients)

        def mark(server_round: int, arrays: ArrayRecord) -> MetricRecord:
            ends.append(time.perf_counter())
            return MetricRecord({"round": server_round})

        start = ArrayRecord([np.zeros(size, dtype=np.float32)])
        strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds + 1, evaluate_fn=mark)

    run_simulation(
        server_app,
        client_app,
        num_supernodes=clients,
        backend_config={
            "init_args": {"log_to_driver": False, "logging_level": "error"},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    # The first mark is before any round, the second after the one that started the workers.
    return np.diff(ends)[1:].tolist()
