"""Small models of transformers and adapters of peft, without weights from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

SMALL = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
WITHOUT_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
WORDS, LENGTH = 11, 12


class Model(NamedTuple):
    group: str
    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    needs: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...] = (torch.float64, torch.float32)


class Logits(nn.Module):
    """A model of transformers as a function of ids or pixels to logits."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names or ("input_ids",)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.model(**dict(zip(self.names, inputs, strict=True))).logits


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=8, n_layer=2, n_head=2, **none))


def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"vocab_size": WORDS, "max_position_embeddings": LENGTH}
    return BertForSequenceClassification(BertConfig(**sizes, **SMALL, **WITHOUT_DROPOUT))


def roberta() -> nn.Module:
    from transformers import RobertaConfig, RobertaForSequenceClassification

    sizes = {"vocab_size": WORDS, "max_position_embeddings": LENGTH + 2}
    return RobertaForSequenceClassification(RobertaConfig(**sizes, **SMALL, **WITHOUT_DROPOUT))


def distilbert() -> nn.Module:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    sizes = {"vocab_size": WORDS, "max_position_embeddings": LENGTH, "dim": 8, "n_layers": 2, "n_heads": 2}
    none = {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0}
    return DistilBertForSequenceClassification(DistilBertConfig(**sizes, hidden_dim=16, **none))


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, max_position_embeddings=LENGTH, **SMALL))


def gemma() -> nn.Module:
    from transformers import GemmaConfig, GemmaForCausalLM

    heads = {"head_dim": 4, "num_key_value_heads": 2}
    return GemmaForCausalLM(GemmaConfig(vocab_size=WORDS, max_position_embeddings=LENGTH, **SMALL, **heads))


def t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"vocab_size": WORDS, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(**sizes, dropout_rate=0.0, decoder_start_token_id=0))


def vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(ViTConfig(**SMALL, **WITHOUT_DROPOUT, image_size=8, patch_size=4, num_labels=3))


def adapted(model: Callable[[], nn.Module], kind: str, **options: Any) -> nn.Module:
    """A model with an adapter of peft, whose random parameters do not begin at zero."""
    import peft

    task = "CAUSAL_LM" if model is gpt2 else "SEQ_CLS"
    return peft.get_peft_model(model(), getattr(peft, kind)(task_type=task, **options))


def lora(model: Callable[[], nn.Module] = bert, **options: Any) -> nn.Module:
    targets = {"target_modules": ["c_attn"], "fan_in_fan_out": True}
    named = targets if model is gpt2 else {"target_modules": ["query", "value"]}
    return adapted(model, "LoraConfig", r=2, lora_alpha=4, init_lora_weights=False, **named, **options)


def ia3() -> nn.Module:
    named = {"target_modules": ["query", "value", "output.dense"], "feedforward_modules": ["output.dense"]}
    return adapted(bert, "IA3Config", init_ia3_weights=False, **named)


def llama_adapter() -> nn.Module:
    import peft

    config = peft.AdaptionPromptConfig(adapter_len=3, adapter_layers=1, task_type="CAUSAL_LM")
    return peft.get_peft_model(llama(), config)


def adapted_bias() -> nn.Module:
    import peft

    return peft.get_peft_model(t5(), peft.LoraConfig(r=2, target_modules=["q", "relative_attention_bias"]))


def words(length: int = 6) -> Tensor:
    return torch.randint(1, WORDS, (3, length))


def models() -> Iterator[Model]:
    """Each with inputs of three records."""
    text = ("input_ids", "attention_mask")

    def masked() -> tuple[Tensor, ...]:
        return words(), (torch.arange(6) < torch.tensor([[6], [4], [5]])).long()

    def plain() -> tuple[Tensor, ...]:
        return (words(),)

    def two() -> tuple[Tensor, ...]:
        return words(), words(4)

    own, both = ("transformers",), ("transformers", "peft")
    yield Model("transformers", "GPT-2", lambda: Logits(gpt2()), plain, own)
    yield Model("transformers", "BERT", lambda: Logits(bert(), *text), masked, own)
    yield Model("transformers", "RoBERTa", lambda: Logits(roberta(), *text), masked, own)
    yield Model("transformers", "DistilBERT", lambda: Logits(distilbert(), *text), masked, own)
    yield Model("transformers", "Llama", lambda: Logits(llama()), plain, own)
    yield Model("transformers", "Gemma", lambda: Logits(gemma()), plain, own, (torch.float32,))  # its norms are float32
    yield Model("transformers", "T5", lambda: Logits(t5(), "input_ids", "decoder_input_ids"), two, own)
    yield Model(
        "transformers", "ViT", lambda: Logits(vit(), "pixel_values"), lambda: (torch.randn(3, 3, 8, 8),), own
    )  # fmt: skip
    yield Model("peft", "LoRA of BERT", lambda: Logits(lora(), *text), masked, both)
    yield Model("peft", "LoRA of GPT-2", lambda: Logits(lora(gpt2)), plain, both)
    yield Model("peft", "DoRA", lambda: Logits(lora(use_dora=True), *text), masked, both)
    placed = {"r": 2, "init_lora_weights": False, "target_modules": ["word_embeddings", "position_embeddings"]}
    yield Model(
        "peft", "LoRA of embeddings", lambda: Logits(adapted(bert, "LoraConfig", **placed), *text), masked, both
    )
    yield Model("peft", "IA3", lambda: Logits(ia3(), *text), masked, both)
    tokens = {"num_virtual_tokens": 3}
    prompts = "PromptTuningConfig"
    yield Model("peft", "prompt tuning", lambda: Logits(adapted(bert, prompts, **tokens), *text), masked, both)
    prefixes = "PrefixTuningConfig"
    yield Model("peft", "prefix tuning", lambda: Logits(adapted(gpt2, prefixes, **tokens), *text), masked, both)
    encoded = {**tokens, "encoder_hidden_size": 8}
    yield Model(
        "peft", "p-tuning", lambda: Logits(adapted(bert, "PromptEncoderConfig", **encoded), *text), masked, both
    )  # fmt: skip
