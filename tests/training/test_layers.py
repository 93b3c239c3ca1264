"""Each kind of layer against the definition, over shapes and settings."""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tacit.training import Engine
from tacit.training.patches import Patches
from tests.training.definition import check

few = settings(max_examples=15)
records = st.integers(1, 4)
seeds = st.integers(0, 2**16)
memories = st.sampled_from([0, 1 << 29])  # nothing kept, or all


def freeze(module: nn.Module, names: set[str]) -> nn.Module:
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in names)
    return module


def frozen(*names: str) -> st.SearchStrategy[set[str]]:
    return st.sampled_from([set(), *({name} for name in names)])


@few
@given(records, st.lists(st.integers(1, 4), max_size=2), st.integers(1, 6), st.integers(1, 6), frozen("weight", "bias"),
       st.booleans(), memories, seeds)  # fmt: skip
def test_linear(batch, middle, fan_in, fan_out, held, bias, memory, seed):
    assume(bias or not held)
    torch.manual_seed(seed)
    layer = freeze(nn.Linear(fan_in, fan_out, bias=bias), held)
    check(layer, torch.randn(batch, *middle, fan_in), memory=memory, reduction=["sum", "mean"][seed % 2])


@pytest.mark.parametrize("steps", [2, 40])
@pytest.mark.parametrize("memory", [0, 1 << 14, 1 << 29])
def test_a_long_or_wide_linear_layer_takes_each_of_its_ways(steps, memory):
    torch.manual_seed(0)
    check(nn.Linear(70, 90), torch.randn(3, steps, 70), memory=memory)


@few
@given(st.data(), records, st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), memories, seeds)
def test_convolution_of_images(data, batch, channels, features, groups, memory, seed):
    torch.manual_seed(seed)
    pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
    kernel, dilation = data.draw(pairs), data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    padding = data.draw(st.one_of(st.sampled_from(["same", "valid"]), st.tuples(st.integers(0, 2), st.integers(0, 2))))
    stride = (1, 1) if padding == "same" else data.draw(pairs)
    mode = data.draw(st.sampled_from(["zeros", "zeros", "circular", "replicate"]))
    layer = nn.Conv2d(channels * groups, features * groups, kernel, stride, padding, dilation, groups,
                      bias=data.draw(st.booleans()), padding_mode=mode)  # fmt: skip
    size = data.draw(st.tuples(st.integers(5, 8), st.integers(5, 8)))
    check(layer, torch.randn(batch, channels * groups, *size), memory=memory)


@few
@given(st.data(), records, st.integers(1, 3), st.integers(1, 3), frozen("weight", "bias"), memories, seeds)
def test_convolution_of_sequences(data, batch, channels, groups, held, memory, seed):
    torch.manual_seed(seed)
    padding = data.draw(st.sampled_from(["same", "valid", 0, 1, 2]))
    stride = 1 if padding == "same" else data.draw(st.integers(1, 3))
    layer = nn.Conv1d(channels * groups, 2 * groups, data.draw(st.integers(1, 4)), stride, padding,
                      data.draw(st.integers(1, 2)), groups)  # fmt: skip
    check(freeze(layer, held), torch.randn(batch, channels * groups, data.draw(st.integers(7, 10))), memory=memory)


def test_a_convolution_of_large_images_goes_record_by_record():
    torch.manual_seed(0)
    check(nn.Conv2d(3, 2, 5, padding=2), torch.randn(3, 3, 128, 128), reduction="mean")


@pytest.mark.parametrize("memory", [0, 1 << 29])
def test_a_convolution_with_many_channels_and_few_positions(memory):
    torch.manual_seed(0)
    check(nn.Conv2d(24, 40, 3), torch.randn(3, 24, 4, 4), memory=memory)


@few
@given(records, st.lists(st.integers(1, 4), max_size=2), st.integers(2, 5), st.booleans(), st.booleans(), seeds)
def test_embedding(batch, middle, vocabulary, padded, strided, seed):
    torch.manual_seed(seed)
    layer = nn.Embedding(vocabulary, 3, padding_idx=vocabulary - 1 if padded else None)
    ids = torch.randint(0, vocabulary, (batch, *middle, 2))
    check(layer, ids[..., 0] if strided else ids)


@few
@given(records, st.lists(st.integers(1, 3), max_size=2), st.lists(st.integers(2, 4), min_size=1, max_size=2),
       frozen("weight", "bias"), st.booleans(), seeds)  # fmt: skip
def test_layer_norm(batch, middle, shape, held, bias, seed):
    assume(bias or not held)
    torch.manual_seed(seed)
    layer = nn.LayerNorm(shape, bias=bias)
    nn.init.normal_(layer.weight)
    check(freeze(layer, held), torch.randn(batch, *middle, *shape))


@few
@given(records, st.lists(st.integers(1, 3), max_size=2), st.lists(st.integers(2, 4), min_size=1, max_size=2), seeds)
def test_rms_norm(batch, middle, shape, seed):
    torch.manual_seed(seed)
    layer = nn.RMSNorm(shape)
    nn.init.normal_(layer.weight)
    check(layer, torch.randn(batch, *middle, *shape))


@few
@given(records, st.integers(1, 3), st.integers(2, 3), st.lists(st.integers(2, 4), min_size=1, max_size=2),
       frozen("weight", "bias"), seeds)  # fmt: skip
def test_group_and_instance_norm(batch, groups, channels, size, held, seed):
    torch.manual_seed(seed)
    for layer in (
        nn.GroupNorm(groups, groups * channels),
        (nn.InstanceNorm1d, nn.InstanceNorm2d)[len(size) - 1](groups * channels, affine=True),
    ):
        nn.init.normal_(layer.weight)
        check(freeze(layer, held), torch.randn(batch, groups * channels, *size))


@pytest.mark.parametrize("make", [nn.LayerNorm, nn.RMSNorm])
def test_norms_without_parameters_are_left_alone(make):
    torch.manual_seed(0)
    check(nn.Sequential(nn.Linear(4, 4), make(4, elementwise_affine=False)), torch.randn(3, 4))


class Attending(nn.Module):
    def __init__(self, batch_first: bool, need_weights: bool, masked: str, cross: str, zero: bool, bias: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=batch_first, add_zero_attn=zero, bias=bias)
        self.need_weights, self.masked, self.cross = need_weights, masked, cross

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        value = {"self": x, "shared": other, "apart": other.flip(1)}[self.cross]
        key = x if self.cross == "self" else other
        mask = padding = None
        if "attn" in self.masked:
            mask = torch.ones(x.shape[1], key.shape[1], dtype=torch.bool).triu(1)
        if "added" in self.masked:
            mask = torch.linspace(-1, 1, x.shape[1] * key.shape[1], dtype=x.dtype).view(x.shape[1], key.shape[1])
        if "padding" in self.masked:
            padding = torch.zeros(key.shape[:2], dtype=torch.bool)
            padding[:, -1] = True
        given = x, key, value
        if not self.attention.batch_first:
            first, second = x.transpose(0, 1), key.transpose(0, 1)
            if self.cross == "self":
                second = first
            given = first, second, second if value is key else value.transpose(0, 1)
        out, weights = self.attention(*given, attn_mask=mask, key_padding_mask=padding, need_weights=self.need_weights)
        out = out if self.attention.batch_first else out.transpose(0, 1)
        return out if weights is None else torch.cat([out, weights], dim=-1)


@settings(max_examples=25)
@given(st.booleans(), st.booleans(), st.sampled_from(["", "attn", "added", "padding", "attn padding"]),
       st.sampled_from(["self", "shared", "apart"]), st.booleans(), st.booleans(), seeds)  # fmt: skip
def test_multihead_attention(batch_first, need_weights, masked, cross, zero, bias, seed):
    torch.manual_seed(seed)
    model = Attending(batch_first, need_weights, masked, cross, zero, bias)
    check(model, torch.randn(3, 4, 6), torch.randn(3, 5, 6))


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_encoder_layer_of_torch(norm_first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True, norm_first=norm_first)
    check(layer, torch.randn(3, 4, 6))


class Scaled(nn.Module):
    """A layer without a rule, with a layer inside and an argument that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4))
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x: Tensor, power: int = 2) -> Tensor:
        return self.inner(x * self.scale) ** power + self.scale


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([torch.randn(4), torch.randn(4)])

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weights[0] + self.weights[1].sin()


class OwnLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.sin()) * self.weight.sum()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize(
    "make",
    [
        Scaled,
        Listed,
        lambda: nn.PReLU(3),
        lambda: OwnLinear(4, 2),
        lambda: nn.Sequential(nn.Linear(4, 4), Scaled(), nn.Linear(4, 2)),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)),
        lambda: nn.Sequential(nn.Unflatten(2, (2, 2)), nn.ConvTranspose2d(3, 2, 2)),
    ],
)
def test_layers_without_a_rule_run_record_by_record(make):
    torch.manual_seed(0)
    check(make(), torch.randn(3, 3, 4))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_bilinear_layer_runs_record_by_record():
    torch.manual_seed(0)
    check(nn.Bilinear(3, 4, 2), torch.randn(5, 3), torch.randn(5, 4))


class Cells(nn.Module):
    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        state = None
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("memory", [0, 1 << 29])
@pytest.mark.parametrize(
    "cell", [nn.RNNCell, lambda *sizes, bias: nn.RNNCell(*sizes, bias, "relu"), nn.GRUCell, nn.LSTMCell]
)
def test_recurrent_cells(cell, memory, bias):
    torch.manual_seed(0)
    check(Cells(cell(3, 4, bias=bias)), torch.randn(3, 4, 3), memory=memory)


@pytest.mark.parametrize("size", [(8, 8), (8, 2)])
@pytest.mark.parametrize("features", [2, 17])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_takes_each_of_its_ways(features, size, groups):
    torch.manual_seed(0)
    layer = nn.Conv2d(2, features * groups, 3, padding=1, groups=groups)
    check(layer, torch.randn(3, 2, *size))


@pytest.fixture
def by_groups(monkeypatch) -> list[int]:
    """The records of each convolution whose gradients were found with records as groups."""
    records: list[int] = []
    own = Patches.keep_by_groups

    def keep(self):
        records.append(self.records)
        return own(self)

    monkeypatch.setattr(Patches, "keep_by_groups", keep)
    return records


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without compiled convolutions")
@pytest.mark.parametrize(
    ("kernel", "options", "size"),
    [
        (3, {"padding": 1}, (8, 8)), (3, {"stride": 2, "bias": False}, (17, 19)), (1, {}, (8, 9)),
        ((2, 3), {"dilation": 2}, (11, 13)), (3, {"padding": "same", "padding_mode": "reflect"}, (8, 8)),
    ],
)  # fmt: skip
def test_a_convolution_takes_its_records_as_groups(kernel, options, size, by_groups):
    torch.manual_seed(0)
    check(nn.Conv2d(16, 16, kernel, **options), torch.randn(3, 16, *size))
    assert by_groups == [3]  # of float32; float64 has no such convolutions


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without compiled convolutions")
@pytest.mark.parametrize("layer", [nn.Conv1d(16, 16, 3), nn.Conv3d(16, 16, 2), nn.ConvTranspose2d(16, 16, 3)])
def test_other_convolutions_with_records_as_groups(layer, by_groups):
    ways = len(layer.kernel_size)
    torch.manual_seed(0)
    check(layer, torch.randn(2, 16, *[(80, 10, 5)[ways - 1]] * ways))
    assert by_groups == [2]


def test_a_convolution_with_few_positions_or_odd_channels_takes_patches(by_groups):
    torch.manual_seed(0)
    check(nn.Conv2d(16, 32, 3, padding=1), torch.randn(2, 16, 8, 8))
    check(nn.Conv2d(12, 16, 3, padding=1), torch.randn(2, 12, 9, 9))
    assert by_groups == []


def test_a_record_that_is_not_finite_leaves_the_others_as_they_are(by_groups):
    torch.manual_seed(0)
    layer, x = nn.Conv2d(16, 16, 3, padding=1), torch.randn(4, 16, 9, 9)
    engine = Engine(layer, leave_out=True)
    layer(x).sum().backward()
    norms = engine.norms()
    engine.discard()
    x[1] = torch.inf
    layer(x).sum().backward()
    others = torch.tensor([0, 2, 3])
    assert torch.equal(engine.norms()[others], norms[others])
    assert by_groups == [4, 4]
