"""Torch tasks as users run them: workers, resumed runs, parties that are processes, LoRA adapters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import tacit
from tacit.kinds.horizontal.frames import terms_of
from tacit.kinds.horizontal.messages import Update
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.torch_tasks.task import TorchTask
from tacit.net.handshake import difference
from tacit.tasks import kept_by
from tests.kinds.horizontal.federations import run, settings_for
from tests.subprocesses import HANGS, free_port, launch

pytest.importorskip("torch")

TASK = """
import os
import torch
from torch import nn
import tacit


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 8).requires_grad_(False)
        if os.environ.get("BASE") == "other":
            nn.init.ones_(self.base.weight)
        self.body, self.bn1, self.drop, self.head = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.drop(torch.relu(self.bn1(self.body(self.base(x))))))


def records(client):
    x = torch.randn(33, 6, generator=torch.Generator().manual_seed(client))
    return x, x[:, :3].argmax(1)


def loss(module, batch):
    return nn.functional.cross_entropy(module(batch[0]), batch[1])


def evaluate(module):
    x, y = records(99)
    return {"accuracy": (module(x).argmax(1) == y).float().mean()}


task = tacit.TorchTask(Net, loss, records, evaluate)
"""
KEYS = {
    "kind": "horizontal",
    "task": "torch_fleet:task",
    "task_options": {"local": ["head"], "optimizer": "adam"},
    "clients": 3,
    "rounds": 4,
    "train": {"epochs": 2, "batch": 8, "learning_rate": 0.01},
}


@pytest.fixture
def file(tmp_path) -> Path:
    (tmp_path / "torch_fleet.py").write_text(TASK)
    path = tmp_path / "file.yaml"
    path.write_text(yaml.safe_dump(KEYS))
    return path


def ran(file: Path, name: str, *overrides: str) -> tacit.runs.outcome.Outcome:
    return tacit.run(file, overrides=overrides, runs=file.parent / name)


def assert_same(one, other, exact=True):
    compare = np.testing.assert_array_equal if exact else _near
    assert one.model.keys() == other.model.keys()
    for name in one.model:
        compare(one.model[name], other.model[name])
    for client in range(3):
        mine, theirs = kept_by(one.directory, client), kept_by(other.directory, client)
        assert mine.keys() == theirs.keys() >= {"head.weight", "head.bias", "bn1.running_mean"}
        for name in mine:
            compare(mine[name], theirs[name])


def _near(one, other):
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_worker_processes_come_to_the_same_model_and_the_same_local_values(file):
    assert_same(ran(file, "here"), ran(file, "spread", "simulation.workers=2"))


def test_a_resumed_run_comes_to_the_same_model_and_the_same_local_values(file):
    whole, short = ran(file, "whole"), ran(file, "short", "rounds=2")
    resumed = tacit.run(file, resume=short.directory, overrides=["rounds=4"])
    assert_same(whole, resumed)


def joined(file: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tacit", "join", file.name, "--insecure", "--quiet", *arguments]
    return launch(
        command,
        cwd=file.parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, errors = process.communicate(timeout=HANGS)
    return process.returncode, output + errors


@pytest.mark.slow  # 20 s: six processes import torch
def test_clients_that_are_processes_keep_their_local_values_over_a_restart(file):
    whole = ran(file, "whole")
    address = {"coordinator": f"127.0.0.1:{free_port()}"}
    file.write_text(yaml.safe_dump(KEYS | {"network": address, "rounds": 2}))
    parties = [("--party", "coordinator"), ("--party", "client", "--id", "0"), ("--party", "client", "--id", "1-2")]
    first = [joined(file, *party) for party in parties]
    assert [ended(process)[0] for process in first] == [0, 0, 0]
    folders = [next(file.parent.glob(f"runs/*-{name}*")) for name in ("coordinator", "client-0", "client-1")]
    file.write_text(yaml.safe_dump(KEYS | {"network": address}))
    again = [joined(file, *party, "--resume", str(folder)) for party, folder in zip(parties, folders, strict=True)]
    codes = [ended(process) for process in again]
    assert [code for code, _ in codes] == [0, 0, 0], codes
    for client, folder in ((0, folders[1]), (1, folders[2]), (2, folders[2])):
        mine, expected = kept_by(folder, client), kept_by(whole.directory, client)
        assert mine.keys() == expected.keys()
        for name in mine:
            _near(mine[name], expected[name])
    assert not (folders[0] / "local").exists()


@pytest.mark.slow  # 10 s: processes import torch
def test_a_client_with_another_base_model_is_refused_before_anything_is_sent(file):
    address = {"coordinator": f"127.0.0.1:{free_port()}"}
    file.write_text(yaml.safe_dump(KEYS | {"network": address, "clients": 1}))
    coordinator = joined(file, "--party", "coordinator")
    code, text = ended(joined(file, "--party", "client", "--id", "0", BASE="other"))
    assert code == 3, text
    assert "the frozen weights of the model differ" in text
    assert "Load the same base model at all parties" in text
    assert ended(joined(file, "--party", "client", "--id", "0"))[0] == 0
    assert ended(coordinator)[0] == 0


def test_the_digest_of_frozen_weights_is_compared_with_the_file_and_only_if_there_are_some():
    import torch
    from torch import nn

    def terms(value: float, frozen: bool = True) -> bytes:
        def model():
            net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            nn.init.constant_(net[0].weight, value)
            net[0].requires_grad_(not frozen)
            return net

        task = TorchTask(model, lambda module, batch: module(batch).sum(), lambda client: torch.zeros(1, 2))
        return terms_of(Prepared.of(settings_for(), task)).shared

    assert terms(1.0) == terms(1.0)
    assert "frozen weights of the model differ" in str(difference(terms(1.0), terms(2.0)))
    assert b"frozen" not in terms(1.0, frozen=False)
    assert "frozen weights of the model differ" in str(difference(terms(1.0), terms(1.0, frozen=False)))


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # of transformers with this peft
def test_only_adapters_of_a_lora_model_travel():
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    import torch

    def model():
        shape = transformers.BertConfig(
            vocab_size=20,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            num_labels=2,
        )
        adapters = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"])
        return peft.get_peft_model(transformers.BertForSequenceClassification(shape), adapters)

    def records(client):
        ids = torch.randint(0, 20, (12, 5), generator=torch.Generator().manual_seed(client))
        return {"input_ids": ids, "labels": ids[:, 0] % 2}

    task = TorchTask(model, lambda module, batch: module(**batch).loss, records)
    sent = []
    engine, _ = run(settings_for(clients=2, rounds=2), task, lambda sender, message: sent.append(message))
    rank, hidden, labels = 2, 16, 2
    size = 2 * rank * hidden + hidden * labels + labels
    assert engine.coordinator.layout.size == size
    assert {type(message) for message in sent} == {Update}
    assert {message.vector.size for message in sent} == {size}
    assert all("lora_" in name or "classifier" in name for name in engine.coordinator.model)
    assert any(np.abs(array).sum() for name, array in engine.coordinator.model.items() if "lora_B" in name)
    assert task.frozen_digest() == TorchTask(model, lambda m, b: m(b), records).frozen_digest()
