"""Private training at clients that are processes: ledgers of records that survive SIGKILL."""

from __future__ import annotations

import json
import os
import signal

import pytest

pytest.importorskip("torch")

from tacit.dp.accounting import Ledger
from tacit.events import Answered
from tacit.runs.report import read_run, write_report
from tacit.store.directory import read_events
from tests.end_to_end.test_processes import Parties, ended

TASK = '''
import os, signal, time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import tacit
from tacit.kinds.horizontal.frames import FramedClient

sent = FramedClient.sent


def and_die(self, answer):
    """The upload has left: be killed, once."""
    sent(self, answer)
    left = {name for event in answer.events for name in getattr(event, "sent", ())}
    if os.environ.get("DIE") and left & {"Update", "Masked"} and not Path("DIED").exists():
        Path("DIED").touch()
        os.kill(os.getpid(), signal.SIGKILL)


FramedClient.sent = and_die
if os.environ.get("BACK"):
    Path("BACK").touch()


def data(client):
    while client == 0 and Path("DIED").exists() and not Path("BACK").exists():
        time.sleep(0.05)
    time.sleep(0.3)
    rng = np.random.default_rng(client)
    x = rng.normal(size=(100 + client, 6)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy((x[:, 0] > 0).astype(np.int64))


def loss(module, batch):
    return nn.functional.cross_entropy(module(batch[0]), batch[1])


task = tacit.TorchTask(model=lambda: nn.Linear(6, 2), loss=loss, data=data)
'''
TRAIN = {"epochs": 1, "batch": 25, "learning_rate": 0.5, "privacy": {"epsilon": 3.0, "clip": 1.0}}


@pytest.mark.slow
@pytest.mark.parametrize("encrypt", [{"encrypt_type": "NOT_ENCRYPT"}, {"encrypt_type": "PW_ENCRYPT", "mode": "active"}])
def test_a_client_that_is_killed_after_an_upload_has_paid_for_it(tmp_path, encrypt):
    (tmp_path / "private_parts.py").write_text(TASK)
    clients = 4 if encrypt["encrypt_type"] == "PW_ENCRYPT" else 3
    found = Parties(
        tmp_path, encrypt, rounds=12, task="private_parts:task", clients=clients, train=TRAIN, window=20_000
    )
    coordinator, others = found.coordinator(), found.clients(f"0-{clients - 2}")
    last = str(clients - 1)
    victim = found.clients(last, DIE="1")
    victim.communicate()
    assert victim.returncode == -signal.SIGKILL
    (folder,) = tmp_path.glob(f"runs/*client-{last}*")
    stored = json.loads((folder / f"client-{last}.json").read_text())
    assert stored["state"]["trained"] == 1
    again = found.clients(last, "--resume", os.fspath(folder), BACK="1")
    ended(coordinator, 0)
    ended(others, 0)
    ended(again, 0)
    after = json.loads((folder / f"client-{last}.json").read_text())
    answers = [event for event in read_events(folder / "events.jsonl") if isinstance(event, Answered)]
    uploads = sum(any(name in ("Update", "Masked") for name in event.sent) for event in answers)
    trained = after["state"]["trained"]
    assert trained > 1
    assert trained - 1 <= uploads <= trained  # of the one that it was killed after, it may have told nothing
    (of_records,) = [each for each in after["ledger"]["ledgers"] if each["unit"] == "record"]
    ledger = Ledger.from_json(of_records)
    ((event, count),) = ledger.lines
    records = 100 + clients - 1
    assert (event.sampling_probability, count) == (pytest.approx(25 / records), trained * round(records / 25))
    assert of_records["epsilon"] == pytest.approx(ledger.epsilon(1e-5))
    assert of_records["epsilon"] <= 3.0
    page = write_report([folder]).read_text()
    assert "for each record of a client, for adding it or leaving it out, against anyone who sees all uploads" in page
    assert read_run(folder) is not None
    whole = json.loads((found.run / "ledger.json").read_text())["ledgers"]
    assert [(each["unit"], each["epsilon"]) for each in whole if each["unit"] == "record"] == [("record", 3.0)]
