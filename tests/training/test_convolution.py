"""Convolutions with depth, and transposed ones, over shapes and settings."""

import warnings

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from tacit.training import Engine
from tests.training.definition import check

few = settings(max_examples=25)
memories = st.sampled_from([0, 1 << 10, 1 << 29])


def each(ways: int, low: int, high: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(low, high)] * ways)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@few
@given(st.data(), st.integers(1, 3), st.integers(1, 2), memories, st.integers(0, 2**16))
def test_convolution_of_volumes(data, batch, groups, memory, seed):
    torch.manual_seed(seed)
    padding = data.draw(st.one_of(st.sampled_from(["same", "valid"]), each(3, 0, 1)))
    stride = 1 if padding == "same" else data.draw(each(3, 1, 2))
    layer = nn.Conv3d(2 * groups, 2 * groups, data.draw(each(3, 1, 2)), stride, padding, data.draw(each(3, 1, 2)),
                      groups, data.draw(st.booleans()), data.draw(st.sampled_from(["zeros", "circular"])))  # fmt: skip
    check(layer, torch.randn(batch, 2 * groups, *data.draw(each(3, 3, 4))), memory=memory)


@few
@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), memories, st.integers(0, 2**16))
def test_transposed_convolutions(data, ways, batch, groups, memory, seed):
    torch.manual_seed(seed)
    kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[ways - 1]
    stride, dilation, padding, more = (
        data.draw(each(ways, low, high)) for low, high in ((1, 3), (1, 2), (0, 2), (0, 2))
    )
    assume(all(m < max(s, d) for m, s, d in zip(more, stride, dilation, strict=True)))
    kernel, size = data.draw(each(ways, 1, 3)), data.draw(each(ways, 2, 3))
    sides = zip(size, stride, padding, dilation, kernel, more, strict=True)
    assume(all((n - 1) * s - 2 * p + d * (k - 1) + m + 1 > 0 for n, s, p, d, k, m in sides))
    layer = kind(2 * groups, 3 * groups, kernel, stride, padding, more, groups, data.draw(st.booleans()), dilation)
    check(layer, torch.randn(batch, 2 * groups, *size), memory=memory)


def test_the_output_size_of_a_transposed_convolution_can_be_given():
    class Sized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)

        def forward(self, x):
            return self.layer(x, output_size=[8, 7])

    torch.manual_seed(0)
    check(Sized(), torch.randn(3, 2, 4, 4))


@pytest.mark.parametrize("layer", [nn.Conv3d(2, 2, 1), nn.ConvTranspose3d(2, 2, 1), nn.ConvTranspose1d(2, 2, 1)])
def test_they_need_no_warning_and_a_dimension_of_records(layer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Engine(layer)
    with pytest.raises(ValueError, match="has no dimension of records"):
        layer(torch.randn(2, 3, *[3] * (len(layer.kernel_size) - 2)))
