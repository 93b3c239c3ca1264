"""Layers that mix records are replaced by the nearest that do not, and it is said which."""

import pytest
import torch
from torch import nn

from tacit.training import Engine, fix, refuse_unfit
from tests.training.definition import check


def resnet_like() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 24, 3),
        nn.BatchNorm2d(24),
        nn.Sequential(nn.ReLU(), nn.InstanceNorm2d(24, affine=True, track_running_stats=True)),
        nn.Conv2d(24, 7, 3),
        nn.BatchNorm2d(7, affine=False),
        nn.Flatten(),
        nn.Linear(7, 20),
        nn.BatchNorm1d(20),
        nn.Linear(20, 2),
    )


def test_what_was_refused_is_trained_after_a_fix():
    model = resnet_like()
    with pytest.raises(ValueError, match=r"call tacit\.training\.fix\(model\) first"):
        refuse_unfit(model)
    said = fix(model)
    assert said == [
        "1 (BatchNorm2d): now GroupNorm(6, 24) with the same scale and shift; its running statistics are dropped",
        "2.1 (InstanceNorm2d): keeps no running statistics any more",
        "4 (BatchNorm2d): now GroupNorm(1, 7) with the same scale and shift; its running statistics are dropped",
        "7 (BatchNorm1d): now GroupNorm(1, 20) with the same scale and shift; its running statistics are dropped",
    ]
    assert fix(model) == []
    assert not [name for name, _ in model.named_buffers()]
    check(model, torch.randn(4, 3, 5, 5))


def test_scale_and_shift_stay_the_parameters_that_an_optimizer_moves():
    model = resnet_like()
    before = {id(parameter) for parameter in model.parameters()}
    fix(model)
    assert {id(parameter) for parameter in model.parameters()} == before


def test_no_group_is_a_single_value_which_would_always_become_zero():
    for channels in (1, 2, 3, 4, 8, 30, 33, 64, 512):
        model = nn.Sequential(nn.BatchNorm2d(channels))
        fix(model)
        assert model[0].num_channels // model[0].num_groups >= min(channels, 4)
        assert model[0].num_groups <= 32
    flat = nn.Sequential(nn.BatchNorm1d(64))
    fix(flat)
    assert bool(flat(torch.randn(2, 64)).any())


def test_a_layer_in_two_places_stays_one():
    shared = nn.BatchNorm2d(8)
    model = nn.Sequential(shared, nn.ReLU(), shared)
    assert len(fix(model)) == 1
    assert model[0] is model[2]
    assert isinstance(model[0], nn.GroupNorm)


def test_what_has_no_replacement_is_left_for_the_refusal_to_name():
    model = nn.Sequential(nn.LazyBatchNorm2d(), nn.utils.spectral_norm(nn.Linear(2, 2)))
    assert fix(model) == []
    with pytest.raises(ValueError, match=r"0 \(LazyBatchNorm2d\).*1 \(Linear\): spectral_norm") as raised:
        Engine(model)
    assert "fix(model)" not in str(raised.value)
    with pytest.raises(ValueError, match="cannot be replaced in place"):
        fix(nn.BatchNorm2d(3))
