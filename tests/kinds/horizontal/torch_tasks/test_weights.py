from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tacit.kinds.horizontal.torch_tasks.weights import Weights, matches
from tacit.kinds.horizontal.vector import Layout
from tests.kinds.horizontal.torch_tasks.nets import Net


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("head.weight", "head", True),
        ("encoder.head.bias", "head", True),
        ("header.bias", "head", False),
        ("layer1.0.bn2.weight", "bn*", True),
        ("bn1.bias", "bn1.bias", True),
        ("body.bias", "*.bias", True),
        ("body.weight", "*.bias", False),
        ("body.weight", "Body", False),
        ("a.b.c", "a.b", True),
        ("a.b.c", "a.c", False),
    ],
)
def test_a_pattern_names_parameters_and_the_modules_above_them(name, pattern, expected):
    assert matches(name, pattern) is expected


def test_what_travels_is_in_the_order_of_the_module_and_fits_a_layout():
    arrays = Weights(Net()).arrays()
    assert list(arrays) == ["body.weight", "body.bias", "bn1.weight", "bn1.bias", "head.weight", "head.bias"]
    assert Layout.of(arrays).size == 6 * 8 + 8 + 8 + 8 + 8 * 4 + 4


def test_arrays_are_copies_that_can_be_written():
    module = Net()
    arrays = Weights(module).arrays()
    arrays["body.weight"] += 1
    assert not np.array_equal(arrays["body.weight"], module.body.weight.detach().numpy())


def test_read_only_arrays_are_loaded_without_a_warning_and_not_kept():
    module = Net()
    weights = Weights(module)
    model = {name: np.full(array.shape, 3, np.float32) for name, array in weights.arrays().items()}
    for array in model.values():
        array.flags.writeable = False
    weights.load(model)
    with torch.no_grad():
        module.body.weight.add_(1)
    assert (model["body.weight"] == 3).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_parameters_of_any_width_come_back_exactly(dtype):
    module = nn.Linear(16, 16).to(dtype)
    before = module.weight.detach().clone()
    weights = Weights(module)
    arrays = weights.arrays()
    assert {str(array.dtype) for array in arrays.values()} == {"float64" if dtype == torch.float64 else "float32"}
    with torch.no_grad():
        module.weight.zero_()
    weights.load(arrays)
    assert module.weight.dtype == dtype
    assert torch.equal(module.weight, before)


@given(st.integers(min_value=0, max_value=2**16 - 1))
def test_every_finite_bfloat16_survives_the_way_there_and_back(bits):
    value = torch.tensor([bits - 2**15], dtype=torch.int16).view(torch.bfloat16)
    if not torch.isfinite(value).all():
        return
    module = nn.Module()
    module.register_parameter("p", nn.Parameter(value.clone()))
    weights = Weights(module)
    weights.load(weights.arrays())
    assert torch.equal(module.p.view(torch.int16), value.view(torch.int16))


def test_tied_weights_travel_once():
    module = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    module[1].weight = module[0].weight
    assert list(Weights(module).arrays()) == ["0.weight"]


def test_mixed_widths_travel_as_the_widest():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    assert {str(array.dtype) for array in Weights(module).arrays().values()} == {"float64"}


def test_a_reset_load_leaves_nothing_of_an_earlier_client():
    module = Net()
    weights = Weights(module, ["head"])
    first = weights.arrays()
    module.train()
    module(torch.randn(5, 6, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        module.head.weight.add_(1)
    assert set(weights.kept()) >= {"head.weight", "head.bias", "bn1.running_mean", "bn1.num_batches_tracked"}
    kept = weights.kept()
    weights.load(first)
    assert module.bn1.num_batches_tracked == 0
    assert (module.bn1.running_mean == 0).all()
    weights.load(first, kept)
    assert module.bn1.num_batches_tracked == 1
    assert np.array_equal(module.head.weight.detach().numpy(), kept["head.weight"])


def test_what_was_kept_for_another_module_is_refused():
    weights = Weights(Net())
    with pytest.raises(ValueError, match=r"head\.weight, which is not local in this module"):
        weights.load(weights.arrays(), {"head.weight": np.zeros((4, 8), np.float32)})
    with pytest.raises(ValueError, match="shape"):
        Weights(Net(), ["head"]).load(weights.arrays(), {"head.weight": np.zeros(3, np.float32)})


def test_frozen_parameters_do_not_travel_and_have_a_digest():
    module = Net()
    assert Weights(module).frozen_digest() is None
    module.body.requires_grad_(False)
    weights = Weights(module)
    assert "body.weight" not in weights.arrays()
    digest = weights.frozen_digest()
    assert digest == Weights(module).frozen_digest()
    with torch.no_grad():
        module.body.weight[0, 0] += 1e-6
    assert Weights(module).frozen_digest() != digest


def test_unusable_modules_and_patterns_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="must return a torch module, got int"):
        Weights(3)
    with pytest.raises(ValueError, match="no trained parameter matches 'haed'"):
        Weights(Net(), ["haed"])
    with pytest.raises(ValueError, match="none is left"):
        Weights(Net(), ["*"])
    with pytest.raises(ValueError, match="no parameter to train"):
        Weights(nn.Linear(2, 2).requires_grad_(False))
    with pytest.raises(ValueError, match="complex64"):
        Weights(nn.Linear(2, 2, dtype=torch.complex64))
