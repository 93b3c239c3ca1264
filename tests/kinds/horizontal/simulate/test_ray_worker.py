"""A worker of a cluster, without a cluster: the sums that it makes of its clients are those of the engine in memory."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.events import Kept
from tacit.kinds.horizontal.frames import to_coordinator, to_frame
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.simulate.ray_worker import Head, Worker
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.secagg.messages import Inbox
from tests.kinds.horizontal.federations import run, settings_for

EIGHT_BITS = {"bits": 8, "clip": 0.05, "largest_weight": 300}


@pytest.mark.parametrize(
    ("encrypt_type", "masks"),
    [("PW_ENCRYPT", EIGHT_BITS), ("PW_ENCRYPT", {"bits": "exact"}), ("DDP_ENCRYPT", {"bits": 8})],
)
def test_masked_vectors_of_any_width_are_added_up(encrypt_type, masks):
    settings = settings_for(
        clients=6,
        rounds=1,
        encrypt={"encrypt_type": encrypt_type, "pw_encrypt": masks},
        round={"down": 8},
        simulation={"insecure_noise_seed": 3},
    )
    task = tasks.make(settings.task, settings.clients, settings.seed, settings.task_options)
    kept, worker = Kept(), Worker(settings, [], {})
    coordinator = Prepared.of(settings, task).coordinator(kept, lambda: 0.0)
    works = coordinator.begin(0.0)
    work = works[0][1]
    report = worker.start(Head(work.round, work.clip), coordinator.answered(range(6)), work.model)
    while True:
        outgoing = []
        for client, frames in report.frames:
            for frame in frames:
                message = to_coordinator(frame, coordinator.layout, None, len(frame))
                outgoing += coordinator.receive(client, message, 0.0)
        if not outgoing:
            break
        framed = [(client, to_frame(message)) for client, message in outgoing]
        if isinstance(outgoing[0][1], Inbox):
            report, total = worker.upload(framed)
            clipped = report.clipped
            answers = coordinator.receive_together(report.together(0, total, masked=True), 0.0)
            report = worker.answer([(client, to_frame(message)) for client, message in answers])
        else:
            report = worker.answer(framed)
    assert coordinator.round == 1
    memory, _ = run(settings)
    assert clipped == memory._clipped
    assert (clipped > 0) == (masks == EIGHT_BITS)
    assert np.array_equal(coordinator.model["weights"], memory.coordinator.model["weights"])
