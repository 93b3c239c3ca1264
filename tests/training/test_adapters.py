"""DoRA and IA3 of peft: recorded by rules, against a loop over records; and what is not of their form."""

import copy

import pytest
import torch
from torch import nn

from tacit.training import Engine
from tests.training import huggingface
from tests.training.definition import check, linear_loss, record_gradients

pytest.importorskip("transformers", reason="models of transformers are needed: pip install 'tacit-learning[hf]'")
pytest.importorskip("peft", reason="adapters of peft are needed: pip install 'tacit-learning[hf]'")
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")

TEXT = ("input_ids", "attention_mask")


def dora(**options) -> nn.Module:
    model = huggingface.Logits(huggingface.lora(use_dora=True, **options), *TEXT)
    for name, parameter in model.named_parameters():
        if "magnitude" in name:  # they begin as the norms: nothing would be scaled
            parameter.data.mul_(torch.rand_like(parameter) + 0.5)
        if name.endswith("base_layer.bias"):  # and these as zeros: nothing would be taken out
            parameter.data.normal_()
    return model


def ia3() -> nn.Module:
    return huggingface.Logits(huggingface.ia3(), *TEXT)


def masked(records: int = 3):
    return torch.randint(1, huggingface.WORDS, (records, 6)), (torch.arange(6) < torch.tensor([[4]] * records)).long()


def adapters(model: nn.Module, kind: str) -> list[nn.Module]:
    return [each for each in model.modules() if hasattr(each, kind)]


class Half(nn.Module):
    """In place of dropout: what peft computes while it drops, without random numbers."""

    def forward(self, x):
        return x / 2


@pytest.mark.parametrize("memory", [1 << 29, 1 << 10])
@pytest.mark.parametrize("make", [dora, ia3])
def test_they_are_recorded_by_rules(make, memory):
    torch.manual_seed(0)
    model, slow = make(), []
    engine = Engine(copy.deepcopy(model), announce=slow.append)
    engine.model(*masked()).sum().backward()
    assert not slow
    check(model, *masked(), memory=memory)


def test_dora_with_dropout_scales_what_was_not_dropped():
    torch.manual_seed(0)
    model = dora(lora_dropout=0.5).train()
    for each in adapters(model, "lora_magnitude_vector"):
        each.lora_dropout["default"] = Half()
    slow = []
    engine = Engine(copy.deepcopy(model), announce=slow.append)
    engine.model(*masked()).sum().backward()
    assert not slow
    check(model, *masked())


@pytest.mark.parametrize("make", [dora, ia3])
def test_one_record_at_first_runs_by_itself_and_the_next_batch_by_the_rule(make):
    torch.manual_seed(0)
    model = make().double()
    exact, slow = copy.deepcopy(model), []
    engine = Engine(model, reduction="sum", announce=slow.append)
    for records in (1, 3):
        given = masked(records)
        aims = torch.randn(records, 2, dtype=torch.float64)
        wanted = record_gradients(exact, given, aims, linear_loss).norm(dim=1)
        linear_loss(model(*given), aims).backward()
        torch.testing.assert_close(engine.norms(), wanted, rtol=1e-10, atol=1e-12)
        engine.discard()
    assert not slow


def twice(kind: type[nn.Module]) -> type[nn.Module]:
    """A class that computes something else."""
    return type("Other", (kind,), {"forward": lambda self, *given, **named: 2 * kind.forward(self, *given, **named)})


def test_magnitudes_that_compute_something_else_run_once_for_each_record():
    torch.manual_seed(0)
    model = dora()
    magnitudes = adapters(model, "lora_magnitude_vector")[0].lora_magnitude_vector["default"]
    magnitudes.__class__ = twice(type(magnitudes))
    runs_by_itself(model)


def test_a_scale_that_computes_something_else_runs_once_for_each_record():
    torch.manual_seed(0)
    model = ia3()
    scaled = adapters(model, "ia3_l")[0]
    scaled.__class__ = twice(type(scaled))
    runs_by_itself(model)


def runs_by_itself(model: nn.Module) -> None:
    slow: list[str] = []
    engine = Engine(copy.deepcopy(model), announce=slow.append)
    engine.model(*masked()).sum().backward()
    assert len(slow) == 1
    assert "has no rule of its own: it and all inside it run once for each record" in slow[0]
    assert " numbers for each record" in slow[0]
    check(model, *masked())


def test_a_layer_that_is_trained_below_dora_runs_once_for_each_record():
    """Its weight is in the norm and beside it, so that it is not recorded by its own layer alone."""
    torch.manual_seed(0)
    model = dora()
    for each in adapters(model, "lora_magnitude_vector"):
        each.base_layer.weight.requires_grad_(True)
    slow = []
    Engine(copy.deepcopy(model), announce=slow.append)
    assert len(slow) == 4
    check(model, *masked())


def test_a_layer_that_is_trained_below_ia3_records_itself():
    torch.manual_seed(0)
    model = ia3()
    for each in adapters(model, "ia3_l"):
        each.base_layer.weight.requires_grad_(True)
    check(model, *masked())


@pytest.mark.parametrize("frozen", [["magnitude"], ["lora_A", "lora_B"], ["lora_A", "magnitude"]])
def test_parts_of_dora_that_are_frozen(frozen):
    torch.manual_seed(0)
    model, slow = dora(), []
    for name, parameter in model.named_parameters():
        if any(part in name for part in frozen):
            parameter.requires_grad_(False)
    Engine(copy.deepcopy(model), announce=slow.append).model(*masked()).sum().backward()
    assert not slow
    check(model, *masked())


def test_a_frozen_scale_beside_a_trained_one():
    torch.manual_seed(0)
    model = ia3()
    adapters(model, "ia3_l")[0].ia3_l.requires_grad_(False)
    check(model, *masked())


@pytest.mark.parametrize("make", [dora, ia3])
def test_one_adapter_in_two_places_and_vectors_that_are_tied(make):
    torch.manual_seed(0)
    kind = "lora_magnitude_vector" if make is dora else "ia3_l"
    model = make()
    first, second = (each.attention.self for each in model.model.base_model.model.bert.encoder.layer)
    second.query = first.query
    tied = getattr(first.value, kind)["default"]
    if make is dora:
        second.value.lora_magnitude_vector["default"].weight = tied.weight
    else:
        second.value.ia3_l["default"] = tied
    check(model, *masked())


@pytest.mark.parametrize("kind", ["dora", "lora", "ia3"])
def test_two_adapters_at_once_and_then_one_of_them(kind):
    import peft

    torch.manual_seed(0)
    model = (ia3() if kind == "ia3" else dora()).double()
    named = {"target_modules": ["query", "value", "output.dense"], "feedforward_modules": ["output.dense"]}
    config = peft.IA3Config(init_ia3_weights=False, **named)
    if kind != "ia3":
        config = peft.LoraConfig(
            r=3, init_lora_weights=False, target_modules=["query", "value"], use_dora=kind == "dora"
        )
    model.model.add_adapter("second", config)
    model.double()
    found = adapters(model, "ia3_l" if kind == "ia3" else "lora_magnitude_vector")
    for each in found:
        each.set_adapter(["default", "second"])
    exact, slow = copy.deepcopy(model), []
    engine = Engine(model, reduction="sum", announce=slow.append)
    for active in (["default", "second"], ["second"], ["default"]):
        for each in [*found, *adapters(exact, "ia3_l" if kind == "ia3" else "lora_magnitude_vector")]:
            vars(each).update(_active_adapter=active)  # what is trained stays
        given, aims = masked(), torch.randn(3, 2, dtype=torch.float64)
        wanted = record_gradients(exact, given, aims, linear_loss).norm(dim=1)
        linear_loss(model(*given), aims).backward()
        torch.testing.assert_close(engine.norms(), wanted, rtol=1e-10, atol=1e-12)
        engine.discard()
    assert not slow


def test_adapters_that_are_disabled_for_a_while_add_nothing():
    torch.manual_seed(0)
    model = ia3().double()
    for each in adapters(model, "ia3_l"):
        each.base_layer.bias.requires_grad_(True)
    exact = copy.deepcopy(model)
    engine = Engine(model, reduction="sum")
    given, aims = masked(), torch.randn(3, 2, dtype=torch.float64)
    linear_loss(model(*given), aims).backward()
    engine.discard()
    with model.model.disable_adapter(), exact.model.disable_adapter():
        wanted = record_gradients(exact, given, aims, linear_loss).norm(dim=1)
        linear_loss(model(*given), aims).backward()
    torch.testing.assert_close(engine.norms(), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("make", [dora, ia3])
def test_a_model_is_given_back_as_it_was(make):
    model = make()
    engine = Engine(model)
    out = model(*masked())
    out.sum().backward()
    engine.detach()
    assert not [name for name, each in model.named_modules() if "forward" in vars(each)]


@pytest.mark.parametrize("make", [dora, ia3])
def test_bfloat16_is_recorded_by_rules_too(make):
    torch.manual_seed(0)
    model, slow = make().bfloat16(), []
    exact = copy.deepcopy(model).double()
    engine = Engine(model, reduction="sum", announce=slow.append)
    given, aims = masked(), torch.randn(3, 2)
    wanted = record_gradients(exact, given, aims.double(), linear_loss).norm(dim=1)
    linear_loss(model(*given), aims.bfloat16()).backward()
    assert not slow
    torch.testing.assert_close(engine.norms(), wanted, rtol=0.1, atol=0)
