"""nn.RNN, nn.GRU and nn.LSTM unchanged: clipped sums are those of a loop over records with torch's own kernels."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tacit.training import Engine
from tests.training.definition import check

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
MEMORY = [1 << 29, 1 << 10]


@pytest.fixture(autouse=True)
def _repeatable():
    torch.manual_seed(0)


class Reading(nn.Module):
    """A recurrent layer of which both the outputs and the last states count."""

    def __init__(self, layer: nn.RNNBase, begins: bool = False) -> None:
        super().__init__()
        self.embed, self.layer, self.begins = nn.Linear(3, 3), layer, begins
        rows = layer.num_layers * (2 if layer.bidirectional else 1)
        self.sizes = [(rows, layer.proj_size or layer.hidden_size), (rows, layer.hidden_size)]

    def forward(self, x: Tensor) -> Tensor:
        records = len(x)
        x = self.embed(x)
        states = None
        if self.begins:  # states that are functions of the record
            states = tuple(x.mean((1, 2))[None, :, None].expand(r, records, s).contiguous() for r, s in self.sizes)
            states = states if isinstance(self.layer, nn.LSTM) else states[0]
        out, last = self.layer(x if self.layer.batch_first else x.transpose(0, 1), states)
        out = out if self.layer.batch_first else out.transpose(0, 1)
        last = torch.cat(last, dim=2) if isinstance(last, tuple) else last
        return torch.cat([out.flatten(1), last.transpose(0, 1).flatten(1)], dim=1)


LAYERS = {
    "rnn": lambda: nn.RNN(3, 4, batch_first=True),
    "rnn relu": lambda: nn.RNN(3, 4, 2, "relu", batch_first=True),
    "gru": lambda: nn.GRU(3, 4, batch_first=True),
    "gru of two layers, both ways": lambda: nn.GRU(3, 4, 2, bidirectional=True),
    "gru without bias": lambda: nn.GRU(3, 4, bias=False),
    "lstm": lambda: nn.LSTM(3, 4, batch_first=True),
    "lstm, steps first": lambda: nn.LSTM(3, 4),
    "lstm of two layers, both ways": lambda: nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True),
    "lstm without bias": lambda: nn.LSTM(3, 4, bias=False, batch_first=True),
    "lstm with a projection": lambda: nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True, batch_first=True),
}


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_are_clipped_as_by_a_loop_over_records(name, begins, memory):
    check(Reading(LAYERS[name](), begins), torch.randn(4, 5, 3), memory=memory)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_long_sequences_give_the_outputs_and_gradients_of_torchs_own_kernels(kind, dtype):
    layer = kind(20, 24, 2, batch_first=True, bidirectional=True).to(dtype)
    own = copy.deepcopy(layer)
    x = torch.randn(5, 60, 20, dtype=dtype, requires_grad=True)
    Engine(layer)
    outputs = [each(x) for each in (layer, own)]
    torch.testing.assert_close(*outputs, rtol=0, atol=2e-6 if dtype == torch.float32 else 1e-13)
    aims = torch.randn_like(outputs[0][0])
    found, expected = (torch.autograd.grad((out * aims).sum(), x)[0] for out, _ in outputs)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("frozen", ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0"])
@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_a_frozen_parameter_is_left_alone(name, frozen):
    layer = LAYERS[name]()
    getattr(layer, frozen).requires_grad_(False)
    check(Reading(layer), torch.randn(3, 4, 3), reduction="mean")


class Packing(nn.Module):
    """Sequences of different lengths, packed, in the order of the records or sorted by torch."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.embed, self.layer = nn.Linear(3, 3), layer

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        given = pack_padded_sequence(self.embed(x), lengths, batch_first=True, enforce_sorted=False)
        out, last = self.layer(given)
        assert isinstance(out, PackedSequence)
        last = torch.cat(last, dim=2) if isinstance(last, tuple) else last
        padded = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])[0]
        return torch.cat([padded.flatten(1), last.transpose(0, 1).flatten(1)], dim=1)


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("name", LAYERS)
def test_packed_sequences_are_clipped_as_by_a_loop_over_records(name, memory):
    check(Packing(LAYERS[name]()), torch.randn(4, 5, 3), torch.tensor([2, 5, 1, 4]), memory=memory)


@pytest.mark.parametrize("name", ["gru", "lstm", "lstm with a projection"])
def test_a_packed_sequence_in_the_order_of_the_records_comes_back_as_torch_packs_it(name):
    layer = LAYERS[name]()
    given = pack_padded_sequence(torch.randn(3, 5, 3), torch.tensor([5, 3, 2]), batch_first=True)
    own, last = layer(given)
    Engine(layer)
    out, again = layer(given)
    assert out.batch_sizes.equal(own.batch_sizes)
    assert out.sorted_indices is None
    torch.testing.assert_close(out.data, own.data)
    torch.testing.assert_close(again, last)


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_dropout_is_between_layers_and_in_training_only(kind, monkeypatch):
    layer = kind(3, 4, 3, dropout=0.5, batch_first=True).double()
    single = [kind(size, 4, batch_first=True).double() for size in (3, 4, 4)]
    for number, each in enumerate(single):
        each.load_state_dict({
            name.replace(f"_l{number}", "_l0"): value
            for name, value in layer.state_dict().items() if name.endswith(f"_l{number}")
        })  # fmt: skip
    mask, asked = torch.tensor([2.0, 0, 0, 2]).double(), []

    def dropout(x: Tensor, p: float, training: bool) -> Tensor:
        asked.append((p, training))
        return x * mask

    monkeypatch.setattr("torch.nn.functional.dropout", dropout)
    x = torch.randn(2, 5, 3).double()
    Engine(layer)
    expected = single[2](single[1](single[0](x)[0] * mask)[0] * mask)[0]
    torch.testing.assert_close(layer(x)[0], expected)
    assert asked == [(0.5, True)] * 2
    monkeypatch.undo()
    assert not layer(x)[0].equal(layer(x)[0])


def test_dropout_differs_between_records():
    layer = nn.GRU(3, 4, 2, dropout=0.5, batch_first=True)
    Engine(layer)
    x = torch.randn(1, 5, 3).expand(8, 5, 3)
    rows = layer(x)[0]
    assert not rows[0].allclose(rows[1])


def test_the_model_is_that_of_torch_again_when_it_is_not_trained():
    layer = nn.LSTM(3, 4, batch_first=True)
    own = copy.deepcopy(layer).eval()
    engine = Engine(layer)
    x = torch.randn(2, 5, 3)
    assert layer.eval()(x)[0].equal(own(x)[0])
    engine.detach()
    assert layer.train()(x)[0].equal(own(x)[0])


def test_inputs_without_records_and_states_of_other_records_are_refused():
    layer = nn.LSTM(3, 4, batch_first=True)
    Engine(layer)
    with pytest.raises(ValueError, match=r"the model: an input of shape \(5, 3\) has no dimension of records"):
        layer(torch.randn(5, 3))
    states = torch.zeros(1, 1, 4), torch.zeros(1, 1, 4)
    with pytest.raises(ValueError, match=r"states of shape \(1, 1, 4\), \(1, 1, 4\), expected \(1, 2, 4\)"):
        layer(torch.randn(2, 5, 3), states)


def test_a_layer_that_is_used_twice_adds_both_uses():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(3, 3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(self.layer(x)[0])[0]

    for memory in MEMORY:
        check(Twice(), torch.randn(3, 4, 3), memory=memory)


def test_a_language_model_with_tied_weights_is_clipped_as_by_a_loop_over_records():
    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(7, 4)
            self.lstm = nn.LSTM(4, 4, 2, batch_first=True)
            self.head = nn.Linear(4, 7)
            self.head.weight = self.embed.weight

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.lstm(self.embed(ids))[0])

    ids = torch.randint(0, 7, (4, 6))
    for memory in MEMORY:
        check(
            Language(), ids[:, :-1], targets=ids[:, 1:], memory=memory,
            loss=lambda out, labels: F.cross_entropy(out.transpose(1, 2), labels, reduction="sum"),
        )  # fmt: skip
