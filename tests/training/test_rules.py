"""Rules of one's own for layers, registered from outside of the package by its public names alone."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.training import Engine, Kept, Layer, register_layer
from tests.training.definition import check


class Scale(nn.Module):
    """Two parameters of its own."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.scale).tanh() + self.shift


def scale_rule(layer: Layer):
    def forward(x: Tensor) -> Tensor:
        scale, shift = (layer.per_record(name, len(x)) for name in ("scale", "shift"))
        return (x * _rows(scale, x)).tanh() + _rows(shift, x)

    return forward


def _rows(parameter: Tensor, x: Tensor) -> Tensor:
    """One row for each record where there is one, to be multiplied with x."""
    return parameter if parameter.dim() == 1 else parameter.view(len(x), *[1] * (x.dim() - 2), -1)


class Gated(nn.Module):
    """A parameter of its own, a layer inside, dropout, and two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.randn(()))
        self.inner = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, *, other: Tensor) -> tuple[Tensor, Tensor]:
        mixed = self.dropout(self.inner(x)) * self.gate + other
        return mixed, mixed.sum()


def gated_rule(layer: Layer):
    module = layer.module

    def forward(x: Tensor, *, other: Tensor) -> tuple[Tensor, Tensor]:
        gate = layer.per_record("gate", len(x)).view(-1, *[1] * (x.dim() - 1))
        mixed = module.dropout(module.inner(x)) * gate + other
        return mixed, mixed.sum()

    return forward


class Quadratic(nn.Module):
    """xᵀ W x: a bilinear form, whose rule has a backward pass of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("bi,ij,bj->b", x, self.weight, x)[:, None]


class RecordedQuadratic(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, anchor, layer, weight):
        ctx.layer = layer
        ctx.save_for_backward(x, weight)
        return torch.einsum("bi,ij,bj->b", x, weight, x)[:, None]

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        if ctx.layer.wants("weight"):
            ctx.layer.add("weight", Kept(gradient[:, :, None] * x[:, :, None] * x[:, None, :]))
        return gradient * (x @ (weight + weight.T)), None, None, None


def quadratic_rule(layer: Layer):
    return lambda x: RecordedQuadratic.apply(x, layer.recorder.anchor, layer, layer.value("weight"))


class TwoOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gated = Gated()
        self.dropout = self.gated.dropout

    def forward(self, x: Tensor) -> Tensor:
        self.dropout.p = 0.0  # so that the two ways can be compared
        return self.gated(x, other=x.sin())[0]


register_layer(Scale, scale_rule)
register_layer(Gated, gated_rule)
register_layer(Quadratic, quadratic_rule)


@pytest.fixture(autouse=True)
def _repeatable():
    torch.manual_seed(0)


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (Scale, (3, 4)),
        (Scale, (1, 4)),
        (Scale, (3, 2, 4)),
        (lambda: nn.Sequential(nn.Linear(4, 4), Scale(), Scale(), nn.Linear(4, 2)), (5, 4)),
        (Quadratic, (3, 4)),
        (lambda: nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Quadratic()), (5, 4)),
        (TwoOutputs, (3, 4)),
    ],
)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_clipped_sums_under_a_rule_from_outside_are_those_of_a_loop_over_records(make, inputs, reduction):
    check(make(), torch.randn(*inputs), reduction=reduction)


def test_frozen_parameters_of_a_registered_layer_are_left_alone():
    model = Scale()
    model.scale.requires_grad_(False)
    check(model, torch.randn(3, 4))


def test_a_registered_layer_needs_no_warning_and_subclasses_share_its_rule():
    class Renamed(Scale):
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Engine(nn.Sequential(Renamed(), Scale()))


def test_a_subclass_with_a_forward_of_its_own_is_not_recorded_by_the_rule_of_its_parent():
    class Other(Scale):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 2

    with pytest.warns(UserWarning, match=r"the model \(Other\) has no rule of its own"):
        Engine(Other())
    check(Other(), torch.randn(3, 4))


def test_a_layer_that_torch_runs_in_one_kernel_can_be_trained_once_it_has_a_rule():
    class Bag(nn.EmbeddingBag):
        def forward(self, ids: Tensor) -> Tensor:
            return F.embedding_bag(ids, self.weight, mode="sum")

    def rule(layer: Layer):
        def forward(ids: Tensor) -> Tensor:
            weight = layer.per_record("weight", len(ids))
            return torch.stack([own[mine].sum(0) for own, mine in zip(weight, ids, strict=True)])

        return forward

    with pytest.raises(ValueError, match=r"the model \(Bag\): takes ids in a forward of its own"):
        Engine(Bag(5, 3))
    register_layer(Bag, rule)
    check(Bag(5, 3), torch.randint(0, 5, (4, 2)))


def lstm_rule(layer: Layer):
    hidden = layer.module.hidden_size

    def forward(x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        names = ("weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0")
        enter, first, again, second = (layer.per_record(name, len(x)) for name in names)
        state = cell = x.new_zeros(len(x), hidden)
        states = []
        for step in x.unbind(1):
            total = torch.einsum("bi,bji->bj", step, enter) + first + torch.einsum("bi,bji->bj", state, again) + second
            taken, kept, new, shown = total.chunk(4, 1)
            cell = kept.sigmoid() * cell + taken.sigmoid() * new.tanh()
            state = shown.sigmoid() * cell.tanh()
            states.append(state)
        return torch.stack(states, 1), (state[None], cell[None])

    return forward


def test_a_recurrent_layer_of_ones_own_can_be_trained_once_it_has_a_rule():
    class Own(nn.LSTM):
        def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            return super().forward(x)

    class Reading(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = Own(3, 4, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.lstm(x)[0]

    with pytest.raises(ValueError, match=r"lstm \(Own\): runs all steps in one kernel and has no rule"):
        Engine(Reading())
    register_layer(Own, lstm_rule)
    check(Reading(), torch.randn(3, 5, 3))


def test_trying_a_rule_draws_no_random_numbers_and_happens_once():
    layer, tried = Gated(), []

    class Counted(Gated):
        def forward(self, x: Tensor, *, other: Tensor) -> tuple[Tensor, Tensor]:
            return super().forward(x, other=other)

    def counting(found: Layer):
        tried.append(found)
        return gated_rule(found)

    register_layer(Counted, counting)
    counted = Counted()
    counted.load_state_dict(layer.state_dict())
    drawn = []
    for model in (layer, counted):
        Engine(model)
        torch.manual_seed(1)
        for records in (1, 3, 2, 4):
            x = torch.randn(records, 4)
            model(x, other=x)
        drawn.append(torch.rand(3))
        assert model.dropout.training
    assert drawn[0].equal(drawn[1])
    assert len(tried) == 3  # for the engine, and with one record and with three


def test_a_second_rule_replaces_the_first():
    class Twice(Scale):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)

    register_layer(Twice, lambda layer: None)
    register_layer(Twice, scale_rule)
    check(Twice(), torch.randn(3, 4))


@pytest.mark.parametrize(
    ("module_type", "rule", "message"),
    [
        (Scale(), scale_rule, r"is not a class of layers: give a subclass of torch\.nn\.Module"),
        (int, scale_rule, "is not a class of layers"),
        (nn.Module, scale_rule, "Module has no forward, so there is nothing to record: define one"),
        (
            Scale,
            "scale_rule",
            "the rule for Scale is 'scale_rule': give a function of a layer that returns its forward",
        ),
        (nn.Linear, scale_rule, "Linear runs the forward of Linear, which has a built-in rule"),
        (nn.MultiheadAttention, scale_rule, "which has a built-in rule"),
        (nn.LSTM, scale_rule, "which has a built-in rule"),
        (
            type("Renamed", (nn.Linear,), {}),
            scale_rule,
            "Renamed runs the forward of Linear, which has a built-in rule",
        ),
    ],
)
def test_what_cannot_be_registered_is_refused_in_a_sentence(module_type, rule, message):
    with pytest.raises(ValueError, match=message):
        register_layer(module_type, rule)


def registered(rule) -> nn.Module:
    """A layer of a class of its own, recorded by `rule`."""

    class Tried(Scale):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)

    register_layer(Tried, rule)
    return Tried()


class Recorded(torch.autograd.Function):
    """x + shift, whose gradients are recorded by the function that is given."""

    @staticmethod
    def forward(ctx, x, anchor, shift, record):
        ctx.record = record
        return x + shift

    @staticmethod
    def backward(ctx, gradient):
        ctx.record(gradient)
        return gradient, None, None, None


def shifted(record, layer: Layer):
    """The rule of Scale, but for how it records `shift`."""

    def forward(x: Tensor) -> Tensor:
        scaled = (x * layer.per_record("scale", len(x))).tanh()
        return Recorded.apply(scaled, layer.recorder.anchor, layer.value("shift"), lambda g: record(layer, g))

    return forward


def ignoring(*ignored: str):
    def rule(layer: Layer):
        def forward(x: Tensor) -> Tensor:
            taken = {
                name: layer.value(name) if name in ignored else layer.per_record(name, len(x))
                for name in ("scale", "shift")
            }
            return (x * taken["scale"]).tanh() + taken["shift"]

        return forward

    return rule


WRONG = {
    "another value": (lambda layer: lambda x: scale_rule(layer)(x) * 1.01, "returns something else than"),
    "another shape": (lambda layer: lambda x: scale_rule(layer)(x)[:, :2], "returns something else than"),
    "one gradient lost": (ignoring("shift"), "records no gradient of shift"),
    "all gradients lost": (lambda layer: lambda x: scale_rule(layer)(x).detach(), "records no gradient: take the"),
    "no gradient of the inputs": (
        lambda layer: lambda x: scale_rule(layer)(x.detach()),
        "another gradient to its inputs",
    ),
    "the parameters themselves": (
        lambda layer: lambda x: (x * layer.module.scale).tanh() + layer.module.shift,
        "records no gradient of s",
    ),
    "half of a gradient": (
        lambda layer: shifted(lambda found, g: found.add("shift", Kept(g / 2)), layer),
        "other gradients of",
    ),
    "another record's gradient": (
        lambda layer: shifted(lambda found, g: found.add("shift", Kept(g.flip(0))), layer),
        "records another gradient of shift for record 0",
    ),
    "one gradient for the batch": (
        lambda layer: shifted(lambda found, g: found.add("shift", Kept(g.sum(0, keepdim=True))), layer),
        "records 1 gradients of shift for 3 records",
    ),
    "a norm that is too small": (
        lambda layer: shifted(
            lambda found, g: found.add("shift", Kept(g, squared=g.square().sum(1).double() / 2)), layer
        ),
        "bounds the norm of a gradient of shift by less than it is",
    ),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_wrong_rule_is_refused_with_the_first_records(name, dtype):
    rule, message = WRONG[name]
    model = nn.Sequential(nn.Linear(4, 4), registered(rule)).to(dtype)
    Engine(model)
    with pytest.raises(ValueError, match=f"1: the rule registered for Tried .*{message}"):
        model(torch.randn(3, 4, dtype=dtype))


def test_the_right_way_to_record_by_hand_is_taken():
    check(registered(lambda layer: shifted(lambda found, g: found.add("shift", Kept(g)), layer)), torch.randn(3, 4))


def test_a_rule_that_mixes_records_is_found_once_there_are_two():
    model = registered(lambda layer: shifted(lambda found, g: found.add("shift", Kept(g.flip(0))), layer))
    Engine(model)
    model(torch.randn(1, 4))
    with pytest.raises(ValueError, match="row i must be the gradient of record i"):
        model(torch.randn(2, 4))


def test_a_rule_that_makes_no_forward_or_lists_of_parameters_are_refused_at_once():
    with pytest.raises(ValueError, match="the model: the rule registered for Tried returned None: it must return"):
        Engine(registered(lambda layer: None))

    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Parameter(torch.randn(4))
            self.others = nn.ParameterList([torch.randn(4)])

        def forward(self, x: Tensor) -> Tensor:
            return x * self.first + self.others[0]

    register_layer(Listed, scale_rule)
    with pytest.raises(ValueError, match="cannot record a list of parameters: hold each of them as an attribute"):
        Engine(Listed())


def test_records_that_are_not_finite_are_the_engines_to_refuse():
    model = Scale()
    engine = Engine(model)
    model(torch.full((3, 4), torch.nan)).sum().backward()
    with pytest.raises(FloatingPointError, match="not finite"):
        engine.norms()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_parametrized_attention_runs_record_by_record():
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    nn.utils.parametrizations.weight_norm(attention, "in_proj_weight")

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(x, x, x)[0]

    check(Attending(), torch.randn(3, 2, 4))


def test_a_copy_of_a_model_with_a_registered_layer_is_an_ordinary_model():
    model = Scale()
    Engine(model)
    copied = copy.deepcopy(model)
    assert copied(torch.ones(2, 4)).equal(Scale.forward(model, torch.ones(2, 4)))
    Engine(copied)
