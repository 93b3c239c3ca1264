"""The party without labels: see play_active.py, which must run too."""

from __future__ import annotations

import sys
import time

from play_active import SETTINGS, Printed

from tacit.align import align
from tacit.kinds.vertical_logistic.protocol import logistic_masked
from tacit.kinds.vertical_logistic.protocol.logistic_masked import PaillierContext
from tacit.lockstep.cancer import make_parts
from tacit.net.spoke import Spoke

if __name__ == "__main__":
    port = sys.argv[1] if len(sys.argv) > 1 else "7003"
    table = make_parts(["active", "passive"], "active", seed=0, overlap=0.9)["passive"]
    with Spoke("passive", "active", [], f"127.0.0.1:{port}") as spoke:
        channels = spoke.meet()
        rows = align(channels, "passive", "active", table.ids).rows
        context = PaillierContext(sink=Printed(), clock=time.perf_counter)
        model = logistic_masked.passive(channels, table.features[rows], SETTINGS, "passive", context)
    print("its own weights:", model.weights[:, 0].round(3))
