"""The mistakes in a torch task that are seen only once it trains: each is a sentence, and exit code 2."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch")

from tests.commands import invoke

TASK = """
import torch, tacit
from torch import nn
from torch.nn.functional import cross_entropy

X = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()

def model():
    return nn.Linear(4, 2)

def loss(module, batch):
    return cross_entropy(module(batch["x"]), batch["y"])

def data(client, clients):
    return {{"x": X[client::clients], "y": Y[client::clients]}}

def evaluate(module):
    return {{"accuracy": (module(X).argmax(1) == Y).float().mean()}}

{changed}
task = tacit.TorchTask(model=model, loss=loss, data=data, evaluate=evaluate)
"""
FILE = "kind: horizontal\ntask: {module}:task\nclients: 3\nrounds: 1\nencrypt: {{encrypt_type: NOT_ENCRYPT}}\n"
RECORDS = "train: {privacy: {epsilon: 3}}\n"
OWNERS = "train: {privacy: {epsilon: 3, unit: owner, owner: patient, records_per_owner: 2}}\n"

# What the task has instead, what the file has besides, and the sentence that answers.
MISTAKES = {
    "the loss has a column too many": (
        "def loss(module, batch): return module(batch['x'])",
        "",
        "loss(module, batch) returned a tensor of the shape",
    ),
    "the loss is a number of Python": (
        "def loss(module, batch): return 0.5",
        RECORDS,
        "loss(module, batch) must return a tensor, got float",
    ),
    "the loss is detached": (
        "def loss(module, batch): return cross_entropy(module(batch['x']), batch['y']).detach()",
        "",
        "depends on no trained parameter",
    ),
    "the loss is a sum": (
        "def loss(module, batch): return cross_entropy(module(batch['x']), batch['y'], reduction='sum')",
        RECORDS,
        "the loss is summed over records",
    ),
    "the data have NaN": ("X[::3] = float('nan')", RECORDS, "look for NaN in the data"),
    "data returns nothing": ("def data(client): return None", "", "data(client) returned NoneType"),
    "data returns a list of columns": (
        "def data(client): return [X, Y]",
        "",
        "data(client) returned a list of Tensor, Tensor: return the columns as a tuple",
    ),
    "data returns columns of different lengths": (
        "def data(client): return X, Y[:3]",
        "",
        "data(client) returned tensors of [3, 80] records",
    ),
    "evaluate returns a list": (
        "def evaluate(module): return [1]",
        "",
        "evaluate(module) must return a dict of numbers, got list",
    ),
    "the column of owners is missing": ("", OWNERS, "train.privacy.owner is column 'patient', records have x, y"),
    "the function of owners is missing": (
        "",
        OWNERS.replace("patient", "{module}:whose"),
        "has no function whose",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_torch_task_is_a_sentence(name, tmp_path, monkeypatch):
    changed, added, said = MISTAKES[name]
    module = f"torch_mistake_{list(MISTAKES).index(name)}"
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{module}.py").write_text(TASK.format(changed=changed))
    (tmp_path / "file.yaml").write_text(FILE.format(module=module) + added.replace("{module}", module))
    try:
        done = invoke("run", "file.yaml")
    finally:
        sys.modules.pop(module, None)
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
    assert "Traceback" not in done.output
