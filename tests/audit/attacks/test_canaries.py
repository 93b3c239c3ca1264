"""Canaries: the recorded gradient of a record is what the attacker says, for every kind of layer."""

import warnings

import numpy as np
import pytest
import torch

from tacit.audit.attacks.canaries import NOTHING, OWN, Planted
from tacit.training.engine import Engine
from tests.kinds.private_training.attacks.small_trainings import MODELS, Small


@pytest.mark.parametrize("memory", [0, 512 << 20])
@pytest.mark.parametrize("name", MODELS)
def test_a_canary_is_in_one_coordinate_alone(name, memory):
    task = Small(name)
    model = task.model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = Engine(model, memory=memory)
    planted = Planted(engine)
    sizes = [parameter.numel() for parameter in engine.parameters]
    rng = np.random.default_rng(0)
    starts = np.cumsum([0, *sizes[:-1]])
    chosen = [start + rng.choice(size, min(size, 4), replace=False) for start, size in zip(starts, sizes, strict=True)]
    spots = np.append(rng.permutation(np.concatenate(chosen)), NOTHING)
    lengths = rng.uniform(5, 50, len(spots)) * rng.choice([-1, 1], len(spots))
    batch = [tensor[: len(spots)] for tensor in task.records.tensors]
    planted.aim(spots, lengths)
    task.loss(model.train(), batch).backward()
    norms = engine.norms()
    assert norms.numpy() == pytest.approx(np.where(spots == NOTHING, 0.0, np.abs(lengths)), rel=1e-4)
    engine.add_clipped(torch.ones(len(spots)))
    wanted = np.zeros(sum(sizes))
    wanted[spots[:-1]] = lengths[:-1]
    assert engine.sum.numpy() == pytest.approx(wanted, rel=1e-4, abs=1e-6)


def test_other_records_keep_their_gradient():
    task = Small("words")
    sums = []
    for spots in (None, [OWN, OWN, NOTHING, OWN]):
        model = task.model()
        engine = Engine(model)
        rows = [0, 1, 3] if spots is None else [0, 1, 2, 3]
        if spots is not None:
            Planted(engine).aim(np.array(spots), np.ones(4))
        task.loss(model.train(), [tensor[rows] for tensor in task.records.tensors]).backward()
        engine.add_clipped(torch.ones(len(rows)))
        sums.append(engine.sum.clone())
    assert torch.allclose(sums[0], sums[1], atol=1e-6)


def test_a_batch_that_was_not_aimed_at_is_refused():
    task = Small("linear")
    model = task.model()
    Planted(Engine(model)).aim(np.array([OWN]), np.ones(1))
    with pytest.raises(ValueError, match="saw 4 records, the batch has 1"):
        task.loss(model.train(), [tensor[:4] for tensor in task.records.tensors]).backward()


@pytest.mark.parametrize("name", MODELS)
def test_a_canary_may_have_a_coordinate_in_each_tensor(name):
    task = Small(name)
    model = task.model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = Engine(model)
    planted = Planted(engine)
    sizes = np.array([parameter.numel() for parameter in engine.parameters])
    rng = np.random.default_rng(0)
    spots = np.stack([np.cumsum([0, *sizes[:-1]]) + rng.integers(sizes) for _ in range(3)])
    lengths = np.array([5.0, -50.0, 7.0])
    planted.aim(spots, lengths)
    task.loss(model.train(), [tensor[:3] for tensor in task.records.tensors]).backward()
    assert engine.norms().numpy() == pytest.approx(np.abs(lengths) * np.sqrt(len(sizes)), rel=1e-4)
    engine.add_clipped(torch.ones(3))
    wanted = np.zeros(sizes.sum())
    np.add.at(wanted, spots, lengths[:, None])
    assert engine.sum.numpy() == pytest.approx(wanted, rel=1e-4, abs=1e-6)
