"""Models of transformers and adapters of peft in whole trainings, with all checks; and what is refused of them."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from tacit.training import Engine, Plan, record_loss
from tests.training import huggingface

pytest.importorskip("transformers", reason="models of transformers are needed: pip install 'tacit-learning[hf]'")
pytest.importorskip("peft", reason="adapters of peft are needed: pip install 'tacit-learning[hf]'")
pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated:FutureWarning"),
]


class Sentences(Dataset):
    """Records as dictionaries, as datasets of Hugging Face give them."""

    def __init__(self, records: int = 40) -> None:
        generator = torch.Generator().manual_seed(2)
        self.ids = torch.randint(1, huggingface.WORDS, (records, 6), generator=generator)
        self.labels = torch.randint(0, 2, (records,), generator=generator)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        ids = self.ids[place]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": self.labels[place]}


def trained(model: nn.Module, loss, **options):
    parameters = [each for each in model.parameters() if each.requires_grad]
    plan = Plan(records=40, batch=10, epochs=2, noise_multiplier=1.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* has no rule of its own")
        model, optimizer, loader = plan.attach(model, torch.optim.AdamW(parameters, 1e-3), Sentences(), **options)
        for _ in range(2):
            for batch in loader:
                loss(model, batch).backward()
                optimizer.step()
    return optimizer


def classified(model: nn.Module, batch):
    return record_loss(
        model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits, batch["labels"]
    ).mean()


def own_loss(model: nn.Module, batch):
    return model(**batch).loss


def next_words(model: nn.Module, batch):
    logits = model(input_ids=batch["input_ids"]).logits
    return record_loss(logits[:, :-1], batch["input_ids"][:, 1:]).mean()


def translated(model: nn.Module, batch):
    logits = model(input_ids=batch["input_ids"], decoder_input_ids=batch["input_ids"][:, :4]).logits
    return record_loss(logits, batch["input_ids"][:, 1:5]).mean()


TRAININGS = {
    "GPT-2": (huggingface.gpt2, next_words),
    "BERT with its own loss": (huggingface.bert, own_loss),
    "T5": (huggingface.t5, translated),
    "Llama": (huggingface.llama, next_words),
    "LoRA": (huggingface.lora, classified),
    "DoRA": (lambda: huggingface.lora(use_dora=True), classified),
    "IA3": (huggingface.ia3, classified),
    "prompt tuning": (
        lambda: huggingface.adapted(huggingface.bert, "PromptTuningConfig", num_virtual_tokens=3),
        classified,
    ),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_they_are_trained_with_all_checks(name):
    torch.manual_seed(0)
    make, loss = TRAININGS[name]
    optimizer = trained(make(), loss)
    assert optimizer.steps == 8
    assert optimizer.report()["steps"] == 8


def test_a_mean_over_all_tokens_is_found_in_a_language_model_too():
    def mixed(model, batch):
        labels = batch["input_ids"].masked_fill(batch["input_ids"] > 5, -100)
        return model(input_ids=batch["input_ids"], labels=labels).loss

    with pytest.raises(ValueError, match="the gradient of a record changes with the other records"):
        trained(huggingface.gpt2(), mixed)


def test_a_relative_bias_that_is_computed_in_another_way_is_refused():
    model = huggingface.t5()
    attention = model.encoder.block[0].layer[0].SelfAttention
    attention.__class__ = type("Other", (type(attention),), {
        "compute_bias": lambda self, q, k, device=None, past_seen_tokens=0:
            2 * super(type(attention), self).compute_bias(q, k, device=device, past_seen_tokens=past_seen_tokens),
    })  # fmt: skip
    Engine(model)
    ids = huggingface.words()
    with pytest.raises(ValueError, match="computes its relative bias in another way than T5 does"):
        model(input_ids=ids, decoder_input_ids=ids)


def test_prompts_that_are_computed_in_another_way_are_refused():
    model = huggingface.adapted(huggingface.bert, "PromptTuningConfig", num_virtual_tokens=3)
    own = type(model).get_prompt
    model.__class__ = type("Other", (type(model),), {"get_prompt": lambda self, *a, **k: own(self, *a, **k) + 1})
    Engine(model)
    ids = huggingface.words()
    with pytest.raises(ValueError, match="computes its prompts in another way than peft does"):
        model(input_ids=ids, attention_mask=torch.ones_like(ids))


def test_an_attached_model_is_given_back_as_it_was():
    model = huggingface.adapted(huggingface.bert, "PromptTuningConfig", num_virtual_tokens=3)
    engine = Engine(model)
    ids = huggingface.words()
    out = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    engine.detach()
    assert not [name for name, each in model.named_modules() if "forward" in vars(each) or "get_prompt" in vars(each)]
    torch.testing.assert_close(model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits, out)


UNSUPPORTED = {
    "SHiRA": (
        lambda: huggingface.adapted(huggingface.bert, "ShiraConfig", r=2, target_modules=["query"]),
        r"layer\.0\.attention\.self\.query \(Linear\), .*layer\.1.*: SHiRA adds a sparse tensor to a weight.* use LoRA",
    ),
    "LLaMA-Adapter": (
        huggingface.llama_adapter,
        r"layers\.1\.self_attn \(AdaptedAttention\): prompts of LLaMA-Adapter .* use prefix tuning or LoRA",
    ),
    "relative positions": (
        huggingface.adapted_bias,
        r"SelfAttention \(T5Attention\)\S* .*: has an adapter of relative_attention_bias.* out of target_modules",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_adapters_that_cannot_be_recorded_are_refused_before_training(name):
    make, message = UNSUPPORTED[name]
    model = make()
    parameters = [each for each in model.parameters() if each.requires_grad]
    with pytest.raises(ValueError, match=message):
        Plan(records=40, batch=10, epochs=1, noise_multiplier=1.0).attach(
            model, torch.optim.SGD(parameters, 0.1), Sentences()
        )
    for each in parameters:
        each.requires_grad_(False)
    next(iter(model.base_model.parameters())).requires_grad_(True)
    Engine(model)  # they are not in the way if they are frozen


@pytest.mark.parametrize("frozen", [False, True])
def test_checkpoints_that_are_backward_passes_of_their_own_are_refused(frozen):
    """Also if nothing outside of the checkpointed layers is trained."""
    options = {} if frozen else {"modules_to_save": ["classifier"]}
    model = huggingface.lora(**options)
    if frozen:
        for name, parameter in model.named_parameters():
            if "classifier" in name:
                parameter.requires_grad_(False)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.enable_input_require_grads()
    with pytest.raises(ValueError, match=r"checkpointed with use_reentrant=True.*: take use_reentrant=False"):
        trained(model, classified)


def test_checkpoints_of_layers_change_nothing_otherwise():
    torch.manual_seed(0)
    model = huggingface.lora()
    exact = copy.deepcopy(model)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    found = []
    for each in (model, exact):
        engine = Engine(each)
        ids = torch.arange(1, 7).repeat(3, 1) * torch.tensor([[1], [0], [1]])
        record_loss(each(input_ids=ids).logits, torch.tensor([0, 1, 1])).mean().backward()
        found.append(engine.norms())
    torch.testing.assert_close(*found)
