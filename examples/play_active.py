"""The party with the labels: trains with play_passive.py, which runs in another terminal.

    python examples/play_active.py           # then, in another terminal
    python examples/play_passive.py

Both hold half of the columns of scikit-learn's breast cancer data, their patients in different orders. On one machine
they need no certificates; `tacit keys` makes them for a real network.
"""

from __future__ import annotations

import sys
import time

from tacit.align import align
from tacit.events import EpochFinished, Event
from tacit.kinds.vertical_logistic.protocol import logistic_masked
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.lockstep.cancer import make_parts
from tacit.net.hub import Hub

SETTINGS = Settings.model_validate(
    {
        "protocol": "masked",
        "parties": {"active": {"role": "active"}, "passive": {"role": "passive"}},
        "train": {"epochs": 11, "batch": 512, "learning_rate": 2.0, "l2": 0.002},
        "paillier": {"bits": 2048},
    }
)


class Printed:
    """A sink that prints what each epoch came to."""

    def emit(self, event: Event) -> None:
        if isinstance(event, EpochFinished):
            figures = "  ".join(f"{name} {value:.4f}" for name, value in event.local.items())
            print(f"epoch {event.epoch + 1}  {figures}  {event.bytes_sent + event.bytes_received:,} bytes", flush=True)


if __name__ == "__main__":
    port = sys.argv[1] if len(sys.argv) > 1 else "7003"
    table = make_parts(["active", "passive"], "active", seed=0, overlap=0.9)["active"]
    with Hub("active", ["passive"], f"127.0.0.1:{port}") as hub:
        channels = hub.meet()
        rows = align(channels, "active", "active", table.ids).rows
        print(f"{len(rows)} of {len(table.ids)} patients are common", flush=True)
        context = PaillierContext(sink=Printed(), clock=time.perf_counter)
        model = logistic_masked.active(channels, table.features[rows], table.labels[rows], SETTINGS, context)
    print("its own weights:", model.weights[:, 0].round(3))
