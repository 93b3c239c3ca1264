"""The engine on whole models: reuse, ties, several passes, what it refuses and what it leaves as it was."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tacit.training import Engine
from tests.training.definition import check, within


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Conv2d(4, 6, 3, stride=2, bias=False),
        )
        self.head = nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).relu().flatten(1))


class Gpt(nn.Module):
    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.mix = nn.Sequential(nn.RMSNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 11, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]).expand(ids.shape))
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return self.head(x + self.mix(x)).transpose(1, 2)


class Twice(nn.Module):
    def __init__(self, make=lambda: nn.Linear(4, 4)) -> None:
        super().__init__()
        self.layer = make()

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x).tanh())


class Halves(nn.Module):
    """The same weight in two layers that use it in different ways: a tied autoencoder of words."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.write = nn.Embedding(7, 4), nn.Linear(4, 7)
        self.write.weight = self.read.weight
        self.scale = nn.Conv1d(4, 4, 1)

    def forward(self, ids: Tensor) -> Tensor:
        return self.write(self.scale(self.read(ids).transpose(1, 2)).transpose(1, 2))


def entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(outputs, labels, reduction="sum")


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("memory", [0, 1 << 29])
def test_a_small_cnn(reduction, memory):
    torch.manual_seed(0)
    labels = torch.randint(0, 3, (6,))
    check(Cnn(), torch.randn(6, 1, 11, 11), targets=labels, loss=entropy, reduction=reduction, memory=memory)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("memory", [0, 1 << 29])
def test_a_small_transformer(tied, memory):
    torch.manual_seed(0)
    ids = torch.randint(0, 11, (4, 6))
    check(Gpt(tied), ids, targets=ids.roll(1, 1), loss=entropy, reduction="mean", memory=memory)


@pytest.mark.parametrize("memory", [0, 1 << 29])
@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(4, 4), lambda: nn.LayerNorm(4), lambda: nn.Conv1d(3, 3, 3, padding=1)]
)
def test_a_layer_used_twice(make, memory):
    torch.manual_seed(0)
    check(Twice(make), torch.randn(4, 3, 4), memory=memory)


@pytest.mark.parametrize("memory", [0, 1 << 29])
def test_one_weight_in_two_layers(memory):
    torch.manual_seed(0)
    check(Halves(), torch.randint(0, 7, (4, 5)), memory=memory)


def test_a_model_called_twice_before_one_backward():
    torch.manual_seed(0)

    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp()

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.body(x) * self.body(y)

    check(Pairs(), torch.randn(4, 5), torch.randn(4, 5))


def test_frozen_layers_are_skipped():
    model = mlp()
    model[0].requires_grad_(False)
    check(model, torch.randn(4, 5))
    assert Engine(model).names == ("2.weight", "2.bias")


def test_a_parameter_without_a_gradient_adds_nothing():
    model = nn.ModuleDict({"used": nn.Linear(3, 2), "unused": nn.Linear(3, 2)})
    engine = Engine(model)
    model["used"](torch.randn(4, 3)).sum().backward()
    engine.add_clipped(engine.factors(engine.norms(), 1.0))
    assert engine.views[0].abs().sum() > 0
    assert engine.views[2].abs().sum() == engine.views[3].abs().sum() == 0


def test_checkpointed_layers_are_recorded_once():
    torch.manual_seed(0)

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp()

        def forward(self, x: Tensor) -> Tensor:
            return torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=False)

    check(Checkpointed(), torch.randn(4, 5))


def test_micro_batches_add_up_to_the_batch():
    x, whole, parts = torch.randn(12, 5), mlp().double(), mlp().double()
    x = x.double()
    one, many = Engine(whole, reduction="sum"), Engine(parts, reduction="sum")
    whole(x).square().sum().backward()
    one.add_clipped(one.factors(one.norms(), 0.5))
    for batch in x.split(5):
        parts(batch).square().sum().backward()
        many.add_clipped(many.factors(many.norms(), 0.5))
    torch.testing.assert_close(one.sum, many.sum, rtol=1e-12, atol=1e-12)


def test_the_sum_is_added_onto_what_the_buffer_holds():
    model = mlp()
    engine = Engine(model)
    engine.sum.fill_(3.0)
    model(torch.randn(2, 5)).sum().backward()
    engine.add_clipped(torch.zeros(2))
    assert torch.all(engine.sum == 3.0)
    assert [view.shape for view in engine.views] == [parameter.shape for parameter in engine.parameters]


@settings(max_examples=40)
@given(
    st.floats(-12, 12),
    st.floats(-6, 6),
    st.integers(1, 40),
    st.integers(0, 999),
    st.sampled_from([0, 1 << 29]),
    st.one_of(st.just(1), st.integers(1, 10**6)),
)
def test_no_record_adds_more_than_the_clip(power, clip_power, steps, seed, memory, divisor):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(7, 70), nn.LayerNorm(70), nn.Linear(70, 90))
    engine = Engine(model, memory=memory)
    (model(torch.randn(3, steps, 7)).sum() * 10**power).backward()
    factors = engine.factors(engine.norms(), 10**clip_power, divisor)
    assert torch.all(within(engine, factors, "mean") <= 10**clip_power / divisor)


@settings(max_examples=40)
@given(st.integers(2, 30), st.integers(0, 999), st.floats(-7, 0))
def test_gradients_that_cancel_are_not_measured_too_small(pairs, seed, distance):
    """Steps come in pairs of opposite gradient: what is left is tiny beside the terms of the Gram norm."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(60, 60, bias=False))
    engine = Engine(model, reduction="sum", memory=0)
    x = torch.randn(2, pairs, 60)
    x = torch.cat([x, x + 10**distance * torch.randn_like(x)], dim=1)
    weights = torch.randn(2, pairs, 60)
    (model(x) * torch.cat([weights, -weights], dim=1)).sum().backward()
    factors = engine.factors(engine.norms(), 1e-3)
    assert torch.all(within(engine, factors, "sum") <= 1e-3)


def test_factors_are_one_below_the_clip_and_zero_beyond_reach():
    engine = Engine(mlp())
    factors = engine.factors(torch.tensor([0.0, 0.5, 2.0, 1e300]), 1.0)
    assert factors[:2].tolist() == [1.0, 1.0]
    assert 0.5 - 1e-6 < float(factors[2]) < 0.5
    assert float(factors[3]) == 0.0
    assert engine.factors(torch.tensor([0.0, 1e37]), 1.0, 100.0).tolist() == [pytest.approx(0.01), 0.0]
    for clip in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="clip is"):
            engine.factors(torch.ones(2), clip)


def test_a_second_backward_comes_before_the_first_is_looked_at():
    model = mlp()
    engine = Engine(model)
    model(torch.randn(2, 5)).sum().backward()
    engine.norms()
    with pytest.raises(RuntimeError, match=r"call optimizer\.step\(\) after the passes of a batch"):
        model(torch.randn(2, 5)).sum().backward()
    engine.discard()
    model(torch.randn(2, 5)).sum().backward()
    engine.add_clipped(engine.factors(engine.norms(), 1.0))
    with pytest.raises(RuntimeError, match="no backward pass is recorded"):
        engine.norms()
    with pytest.raises(RuntimeError, match="no backward pass is recorded"):
        engine.add_clipped(torch.ones(2))


def test_factors_of_another_batch_are_refused():
    model = mlp()
    engine = Engine(model)
    model(torch.randn(2, 5)).sum().backward()
    with pytest.raises(ValueError, match="2 records"):
        engine.add_clipped(torch.ones(3))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_gradients_that_are_not_finite_are_refused_without_their_values(value):
    model = mlp()
    engine = Engine(model)
    x = torch.randn(3, 5)
    x[1, 2] = value
    model(x).sum().backward()
    with pytest.raises(FloatingPointError, match="single records are not finite") as caught:
        engine.norms()
    assert "nan" not in str(caught.value)


def test_inputs_that_records_share_are_refused_where_nobody_says_how_many_records_there_are():
    tokens, positions = nn.Embedding(7, 4), nn.Embedding(5, 4)
    engine = Engine(nn.ModuleList([tokens, positions]))
    with pytest.raises(ValueError, match=r"saw (5|3) records and .* expand them"):
        (tokens(torch.zeros(3, 5, dtype=torch.long)) + positions(torch.arange(5))).sum().backward()
    engine.discard()


def test_a_parameter_used_outside_of_its_layer_is_refused():
    class Reaching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(7, 4)

        def forward(self, ids: Tensor) -> Tensor:
            return F.linear(self.tokens(ids), self.tokens.weight)

    model = Reaching()
    Engine(model)
    with pytest.raises(RuntimeError, match=r"tokens\.weight was used outside"):
        model(torch.zeros(3, 5, dtype=torch.long)).sum().backward()


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.Linear(3, 2), torch.randn(3)),
        (nn.Conv1d(3, 2, 1), torch.randn(3, 4)),
        (nn.LayerNorm(3), torch.randn(3)),
        (nn.Embedding(3, 2), torch.tensor(1)),
        (nn.MultiheadAttention(4, 2), (torch.randn(3, 4),) * 3),
    ],
)
def test_an_input_without_records_is_refused(layer, x):
    Engine(layer)
    with pytest.raises(ValueError, match=r"no dimension of records|without a dimension of records"):
        layer(*x) if isinstance(x, tuple) else layer(x)


def test_layers_without_a_rule_are_announced_once_by_name():
    said = []
    Engine(nn.Sequential(nn.Linear(2, 2), nn.PReLU()), announce=said.append)
    assert len(said) == 1
    assert said[0].startswith("1 (PReLU)")
    with pytest.warns(UserWarning, match=r"1 \(PReLU\)"):
        Engine(nn.Sequential(nn.Linear(2, 2), nn.PReLU()))


def test_the_model_keeps_its_class_and_keys_and_its_results():
    model, x = mlp(), torch.randn(3, 5)
    before, keys = model(x), list(model.state_dict())
    engine = Engine(model)
    assert type(model) is nn.Sequential
    assert type(model[0]) is nn.Linear
    assert list(model.state_dict()) == keys
    assert torch.equal(model(x), before)
    with torch.no_grad():
        assert torch.equal(model(x), before)
    model.eval()
    model(x).sum().backward()  # ordinary while in eval
    assert model[0].weight.grad is not None
    with pytest.raises(RuntimeError, match="no backward pass"):
        engine.norms()


def test_detach_restores_ordinary_training_bit_for_bit():
    torch.manual_seed(1)
    used, untouched, x = mlp(), mlp(), torch.randn(6, 5)
    engine = Engine(used)
    used(x).sum().backward()
    engine.detach()
    assert all("forward" not in vars(module) for module in used.modules())
    for model in (used, copy.deepcopy(used), untouched):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    for one, other in zip(used.parameters(), untouched.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
        assert torch.equal(one, other)


def test_one_engine_a_model():
    model = mlp()
    engine = Engine(model)
    with pytest.raises(ValueError, match="detach it first"):
        Engine(model)
    engine.detach()
    Engine(model)


def test_dropout_and_an_empty_batch():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    engine = Engine(model, reduction="sum")
    model(torch.randn(0, 4)).sum().backward()
    norms = engine.norms()
    assert norms.shape == (0,)
    engine.add_clipped(engine.factors(norms, 1.0))
    assert torch.all(engine.sum == 0)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="reduction"):
        Engine(mlp(), reduction="none")
    model = mlp()
    engine = Engine(model)
    model(torch.randn(2, 5)).sum().backward()
    with pytest.raises(ValueError, match="order"):
        engine.norms(order=3)


def copied(module, how):
    if how == "deepcopy":
        return copy.deepcopy(module)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("how", ["deepcopy", "torch.save"])
def test_a_copy_of_the_model_computes_with_its_own_parameters(how):
    module = nn.ModuleDict({"l": nn.Linear(4, 4), "a": nn.MultiheadAttention(4, 2, batch_first=True)})
    Engine(module)
    other = copied(module, how)
    x = torch.randn(3, 5, 4)
    with torch.no_grad():
        expected = module["l"](x), module["a"](x, x, x)[0]
        for parameter in module.parameters():
            parameter.zero_()
    assert torch.equal(other["l"](x), expected[0])
    assert torch.equal(other["a"](x, x, x)[0], expected[1])


def test_a_copy_trains_ordinarily_and_can_be_recorded_itself():
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    first = Engine(module)
    other = copy.deepcopy(module)
    other(torch.randn(5, 4)).sum().backward()
    assert all(parameter.grad is not None for parameter in other.parameters())
    assert all(parameter.grad is None for parameter in module.parameters())
    with pytest.raises(RuntimeError, match="no backward pass"):
        first.norms()
    second = Engine(other, announce=pytest.fail)  # by its rules, not by vmap
    other(torch.randn(5, 4)).sum().backward()
    assert len(second.norms()) == 5


def test_a_large_scale_of_the_loss_lets_no_record_add_more_than_the_clipping_norm():
    """A factor over the scale may be so small that it is rounded by much of itself."""
    scale, clip = 2.0**60, 1e-26
    model = nn.Linear(4, 1, bias=False)
    x = torch.randn(64, 4) / 4
    for row in x:
        engine = Engine(model, reduction="sum", loss_scale=scale)
        (model(row[None]).sum() * scale).backward()
        engine.add_clipped(engine.factors(engine.norms(), clip))
        engine.detach()
        assert float(engine.sum.double().norm()) <= clip


class Odd(nn.Module):
    """Runs once for each record."""

    def __init__(self) -> None:
        super().__init__()
        self.odd = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return x * self.odd.tanh().sum()


@pytest.mark.parametrize(
    "layer",
    [nn.Linear(4, 4), nn.LayerNorm(4), nn.LSTM(4, 4, batch_first=True), nn.Conv1d(4, 4, 1), Odd()],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.filterwarnings("ignore:.*has no rule of its own")
def test_weights_that_another_call_puts_in_the_place_of_parameters_are_refused(layer):
    """Their gradient is not that of the parameters: twice the weight has twice the gradient, an average has none."""
    x = torch.randn(3, 4, 4)
    engine = Engine(layer)
    for other in (lambda p: 2 * p, lambda p: p.detach().clone()):
        values = {name: other(parameter) for name, parameter in layer.named_parameters()}
        with pytest.raises(ValueError, match=r"another tensor stands in the place of its .*: call the model as it is"):
            torch.func.functional_call(layer, values, (x,))
    with torch.no_grad():
        torch.func.functional_call(layer, values, (x,))
    out = layer(x)
    (out[0] if isinstance(out, tuple) else out).sum().backward()
    assert len(engine.norms()) == 3
