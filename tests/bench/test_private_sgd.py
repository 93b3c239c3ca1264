"""The models and steps of the benchmark of private SGD, without its peers."""

import subprocess

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch.utils.data import TensorDataset

from bench.__main__ import benchmark_names
from bench.measure import Budget
from bench.private_models import OF_LIBRARIES, case, loss_of, step_of
from bench.private_sgd import MEMORY, MODELS, memory, mnist, speed
from tacit.training import Plan


def test_it_is_one_benchmark():
    assert "private_sgd" in benchmark_names()
    assert "private_models" not in benchmark_names()


def test_the_models_are_those_that_were_asked_for():
    assert list(MODELS)[:3] == ["CNN", "MLP", "GPT"]
    model, x, y = case("MLP")
    assert sum(parameter.numel() for parameter in model.parameters()) == 669_706
    assert (len(x), len(y)) == (512, 512)
    model, ids, labels = case("GPT")
    assert ids.shape == labels.shape == (32, 128)
    assert loss_of(model(ids[:1]), labels[:1]).isfinite()
    model, x, y = case("ResNet")
    assert x.shape == (64, 3, 32, 32)
    assert loss_of(model(x[:1]), y[:1]).isfinite()
    assert MEMORY.keys() <= MODELS.keys()


def test_memory_is_judged_against_plain_training_and_shown_beside_what_opacus_takes(monkeypatch):
    def run(command, **_):
        side = command[-2]
        if side == "opacus ghost" and command[-1] == "HF GPT-2":
            raise subprocess.CalledProcessError(1, command)
        return subprocess.CompletedProcess(command, 0, f"{ {'plain': 100, 'tacit': 120}.get(side, 300) }\n")

    monkeypatch.setattr(subprocess, "run", run)
    over, *others = memory("GPT")
    assert (over.ours, over.verdict) == (1.2, "above floor")
    assert [row.peer for row in others] == [100, 300, 300]
    assert len(memory("HF GPT-2")) == 3
    monkeypatch.setitem(MEMORY, "GPT", (1.19, 1.1))
    assert memory("GPT")[0].verdict == "below floor"


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize("name", OF_LIBRARIES)
def test_models_of_libraries_are_trained_by_rules(name):
    """A warning of a layer without a rule would be an error here."""
    if name != "nn.LSTM":
        pytest.importorskip(
            "transformers", reason="models of transformers are needed: pip install 'tacit-learning[hf]'"
        )
        pytest.importorskip("peft", reason="adapters of peft are needed: pip install 'tacit-learning[hf]'")
    assert name in MODELS
    model, ids, labels = case(name)
    parameters = [each for each in model.parameters() if each.requires_grad]
    plan = Plan(records=4, batch=4, epochs=1, noise_multiplier=1.0)
    model, optimizer, loader = plan.attach(model, torch.optim.SGD(parameters, 0.1), TensorDataset(ids[:4], labels[:4]))
    for x, y in loader:
        loss_of(model(x), y).backward()
        optimizer.step()
    assert optimizer.steps == 1


def test_what_opacus_does_not_take_is_a_row_without_a_peer(monkeypatch):
    def step_of(side, name):
        if side == "opacus hooks":
            raise NotImplementedError("parameter tying")
        return lambda: None

    monkeypatch.setattr("bench.private_models.step_of", step_of)
    rows = {row.name: row.peer for row in speed("nn.LSTM", Budget(0.0))}
    assert rows["nn.LSTM: a step; not offered by Opacus hooks"] is None
    assert any("opacus ghost" in name and peer is not None for name, peer in rows.items())
    with pytest.raises(NotImplementedError):
        speed("MLP", Budget(0.0))


@pytest.mark.parametrize("side", ["plain", "tacit"])
def test_a_step_moves_the_model_again_and_again(side, monkeypatch):
    model, x, y = case("MLP")
    monkeypatch.setattr("bench.private_models.case", lambda name: (model, x[:8], y[:8]))
    step = step_of(side, "MLP")
    before = model[0].weight.detach().clone()
    for _ in range(4):  # the second of Tacit shows part of the batch again and moves nothing
        step()
    assert (model[0].weight != before).any()
    with pytest.raises(ValueError, match="none of plain, tacit"):
        step_of("other", "MLP")


@pytest.mark.slow  # 9 s
def test_mnist_spends_at_most_its_epsilon(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (1200, 28, 28), dtype=np.uint8), rng.integers(0, 10, 1200)
    np.savez(tmp_path / "m.npz", x=images, y=labels, x_test=images[:100], y_test=labels[:100])
    accuracy, seconds = mnist(tmp_path / "m.npz", quick=True)
    assert 0 <= accuracy.ours <= 1
    assert float(accuracy.name.split("epsilon ")[1].split(",")[0]) <= 3.0
    assert accuracy.verdict == "below floor"  # the labels are random: nothing can be learnt
    assert seconds.ours > 0
