"""Small models of transformers and adapters of peft, without weights from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
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


def of(kind: str, config: str, **options: Any) -> Callable[[], nn.Module]:
    """A model of transformers by the names of its class and its configuration, whose words have no special ids."""

    def make() -> nn.Module:
        import transformers

        ids = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0} if "patch_size" not in options else {}
        return getattr(transformers, kind)(getattr(transformers, config)(**{**ids, **options}))

    return make


_WORDS = {**SMALL, "vocab_size": WORDS, "max_position_embeddings": LENGTH}
_IMAGES = {**SMALL, **WITHOUT_DROPOUT, "image_size": 8, "patch_size": 4, "num_labels": 3}
_BLOOM = {"vocab_size": WORDS, "hidden_size": 8, "n_layer": 2, "n_head": 2, "hidden_dropout": 0.0}
OTHERS = {
    "Mistral": of("MistralForCausalLM", "MistralConfig", **_WORDS, num_key_value_heads=1),
    "Qwen2": of("Qwen2ForCausalLM", "Qwen2Config", **_WORDS, num_key_value_heads=1),
    "Qwen3": of("Qwen3ForCausalLM", "Qwen3Config", **_WORDS, num_key_value_heads=1, head_dim=4),
    "Phi": of("PhiForCausalLM", "PhiConfig", **_WORDS),
    "GPT-NeoX": of("GPTNeoXForCausalLM", "GPTNeoXConfig", **_WORDS),
    "BLOOM": of("BloomForCausalLM", "BloomConfig", **_BLOOM),
    "ELECTRA": of("ElectraForSequenceClassification", "ElectraConfig", **_WORDS, **WITHOUT_DROPOUT, embedding_size=8),
    "ALBERT": of(
        "AlbertForSequenceClassification", "AlbertConfig", **_WORDS, **WITHOUT_DROPOUT, embedding_size=8,
        classifier_dropout_prob=0.0,
    ),
    "ModernBERT": of("ModernBertForSequenceClassification", "ModernBertConfig", **_WORDS),
    "DeiT": of("DeiTForImageClassification", "DeiTConfig", **_IMAGES),
    "DINOv2": of("Dinov2ForImageClassification", "Dinov2Config", **_IMAGES),
}  # fmt: skip


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


def plain() -> tuple[Tensor, ...]:
    return (words(),)


def masked() -> tuple[Tensor, ...]:
    return words(), (torch.arange(6) < torch.tensor([[6], [4], [5]])).long()


def pixels() -> tuple[Tensor, ...]:
    return (torch.randn(3, 3, 8, 8),)


_TEXT = ("input_ids", "attention_mask")
_SINGLE = (torch.float32,)  # for models that compute something in float32, whatever they are


def models() -> Iterator[Model]:
    """Each with inputs of three records."""

    def two() -> tuple[Tensor, ...]:
        return words(), words(4)

    group, own = "transformers", ("transformers",)
    yield Model(group, "GPT-2", lambda: Logits(gpt2()), plain, own)
    yield Model(group, "BERT", lambda: Logits(bert(), *_TEXT), masked, own)
    yield Model(group, "RoBERTa", lambda: Logits(roberta(), *_TEXT), masked, own)
    yield Model(group, "DistilBERT", lambda: Logits(distilbert(), *_TEXT), masked, own)
    yield Model(group, "Llama", lambda: Logits(llama()), plain, own)
    yield Model(group, "Gemma", lambda: Logits(gemma()), plain, own, _SINGLE)
    yield Model(group, "T5", lambda: Logits(t5(), "input_ids", "decoder_input_ids"), two, own)
    yield Model(group, "ViT", lambda: Logits(vit(), "pixel_values"), pixels, own)
    for name, make in OTHERS.items():
        seen = name in ("DeiT", "DINOv2")
        given = "pixel_values" if seen else "input_ids"
        yield Model(group, name, partial(_logits, make, given), pixels if seen else plain, own, _SINGLE)
    yield from adapters()


def _logits(make: Callable[[], nn.Module], given: str) -> nn.Module:
    return Logits(make(), given)


def adapters() -> Iterator[Model]:
    """Of peft, each with inputs of three records."""
    group, both = "peft", ("transformers", "peft")

    def of_bert(name: str, kind: str, **options: Any) -> Model:
        return Model(group, name, lambda: Logits(adapted(bert, kind, **options), *_TEXT), masked, both)

    queries = {"target_modules": ["query"]}
    embeddings = {"target_modules": ["word_embeddings", "position_embeddings"]}
    virtual = {"num_virtual_tokens": 3}
    yield Model(group, "LoRA of BERT", lambda: Logits(lora(), *_TEXT), masked, both)
    yield Model(group, "LoRA of GPT-2", lambda: Logits(lora(gpt2)), plain, both)
    yield of_bert("LoRA of embeddings", "LoraConfig", r=2, init_lora_weights=False, **embeddings)
    yield Model(group, "DoRA", lambda: Logits(lora(use_dora=True), *_TEXT), masked, both)
    yield Model(group, "IA3", lambda: Logits(ia3(), *_TEXT), masked, both)
    yield of_bert("AdaLoRA", "AdaLoraConfig", init_r=2, total_step=10, **queries)
    yield of_bert("VeRA", "VeraConfig", r=2, **queries)
    yield of_bert("tuning of LayerNorm", "LNTuningConfig", target_modules=["LayerNorm"])
    yield of_bert("prompt tuning", "PromptTuningConfig", **virtual)
    prefixes = "PrefixTuningConfig"
    yield Model(group, "prefix tuning", lambda: Logits(adapted(gpt2, prefixes, **virtual), *_TEXT), masked, both)
    yield of_bert("p-tuning", "PromptEncoderConfig", **virtual, encoder_hidden_size=8)
