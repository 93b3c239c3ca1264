"""What is particular to modules of transformers and peft, recognised by their structure: neither is imported here.

relative_bias       attention of the T5 family adds a bias from an embedding of relative positions, which all records
                    and all later layers share. It is computed here with a row for each record, and handed to the
                    module's own forward.
prompts             peft's prompt tuning computes one prompt and repeats it for the records. It is computed here with a
                    row for each record.
runs_whole          layers of peft whose parts use each other's parameters (DoRA): the outermost runs once for each
                    record, with copies of its own small parameters. Those of linear layers have a rule: `adapters`.
takes_ids           adapters of an embedding, whose ids all records may share, such as positions.
unsupported         adapters that neither have a rule nor run once for each record.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.training.embedding_rows import look_up
from tacit.training.layers import Forward, Layer


def runs_whole(module: nn.Module) -> bool:
    """Whether the parts of a module use each other's parameters, as those of an adapter with a magnitude do."""
    magnitudes = getattr(module, "lora_magnitude_vector", None)
    return isinstance(magnitudes, nn.ModuleDict) and len(magnitudes) > 0


def takes_ids(module: nn.Module) -> bool:
    """Whether a module is an embedding, or an adapter of one."""
    return isinstance(module, nn.Embedding) or isinstance(getattr(module, "base_layer", None), nn.Embedding)


def unsupported(module: nn.Module) -> str | None:
    """Why an adapter cannot be recorded, and what to use instead."""
    if _trains(getattr(module, "shira_weight", None)):
        return "SHiRA adds a sparse tensor to a weight, which cannot run once for each record: use LoRA, DoRA or IA3"
    if _trains(getattr(module, "adaption_prompt", None)):
        return "prompts of LLaMA-Adapter are shared by all records and have no rule: use prefix tuning or LoRA"
    biases = getattr(module, "relative_attention_bias", None)
    if _trains(biases) and type(biases) is not nn.Embedding and _calls(module, "compute_bias"):
        return (
            "has an adapter of relative_attention_bias, whose ids are shared by all records, without a rule: leave "
            "relative_attention_bias out of target_modules"
        )
    return None


def _trains(given: Any) -> bool:
    """Whether a parameter, or any inside a module, is trained."""
    found = given.parameters() if isinstance(given, nn.Module) else [given] if isinstance(given, Tensor) else []
    return any(each.requires_grad for each in found)


def by_structure(layer: Layer) -> Forward | None:
    """The forward of a module that holds layers whose inputs are shared by all records; None for any other."""
    module = layer.module
    if type(getattr(module, "relative_attention_bias", None)) is nn.Embedding and _calls(module, "compute_bias"):
        return relative_bias(layer)
    kind = getattr(getattr(module, "active_peft_config", None), "peft_type", None)
    if isinstance(getattr(module, "prompt_encoder", None), nn.ModuleDict) and _calls(module, "get_prompt"):
        return prompts(layer) if kind in ("PROMPT_TUNING", "P_TUNING") else None
    return None


def _calls(module: nn.Module, name: str) -> bool:
    return callable(getattr(type(module), name, None))


def relative_bias(layer: Layer) -> Forward:
    """The module's own forward, given the bias of its relative positions with a row for each record.

    `layer` is the module; its embedding is recorded here, and the other layers inside record themselves.
    """
    module: Any = layer.module
    own = module.forward
    table: Any = module.relative_attention_bias
    trained = frozenset({"weight"} if table.weight.requires_grad else ())
    inner = Layer(f"{layer.name}.relative_attention_bias", table, trained, layer.recorder)

    def forward(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs.get("position_bias") is not None:
            return own(hidden_states, *args, **kwargs)
        keys = hidden_states if kwargs.get("key_value_states") is None else kwargs["key_value_states"]
        ids = _relative_ids(layer.name, module, hidden_states.shape[1], keys.shape[1])
        found = look_up(inner, ids.expand(len(hidden_states), *ids.shape))
        return own(hidden_states, **{**kwargs, "position_bias": found.permute(0, 3, 1, 2)})

    return forward


def _relative_ids(name: str, module: Any, queries: int, keys: int) -> Tensor:
    """The ids that the module looks up for its bias, [queries, keys]: what its embedding is given, once."""
    table, asked = module.relative_attention_bias, list[Tensor]()

    def listening(ids: Tensor) -> Tensor:
        asked.append(ids)
        return F.embedding(ids, table.weight.detach())

    before = vars(table).get("forward")
    table.forward = listening
    try:
        with torch.no_grad():
            bias = module.compute_bias(queries, keys)
    finally:
        del table.forward
        if before is not None:
            table.forward = before
    if len(asked) == 1 and asked[0].shape == (queries, keys):
        expected = F.embedding(asked[0], table.weight.detach()).permute(2, 0, 1)[None]
        if bias.shape == expected.shape and torch.equal(bias, expected):
            return asked[0]
    raise ValueError(f"{name}: computes its relative bias in another way than T5 does, which has no rule here")


def prompts(layer: Layer) -> Forward:
    """The module's own forward, in which the prompt is computed for each record."""
    module: Any = layer.module
    own = module.forward
    tried = False

    def for_each(batch_size: int, *args: Any, **kwargs: Any) -> Tensor:
        nonlocal tried
        encoder = module.prompt_encoder[module.active_adapter]
        ids = module.prompt_tokens[module.active_adapter].to(encoder.embedding.weight.device).expand(batch_size, -1)
        if not tried:
            _compare_prompts(layer.name, module, encoder, ids)
            tried = True
        found: Tensor = encoder(ids)
        return found

    def forward(*args: Any, **kwargs: Any) -> Any:
        module.get_prompt = for_each
        try:
            return own(*args, **kwargs)
        finally:
            del module.get_prompt

    return forward


def _compare_prompts(name: str, module: Any, encoder: nn.Module, ids: Tensor) -> None:
    """ValueError if the prompts of all records are not what the module's own method repeats."""
    modes = [(each, each.training) for each in encoder.modules()]
    try:
        encoder.eval()
        with torch.no_grad():
            expected, found = type(module).get_prompt(module, batch_size=len(ids)), encoder(ids)
    finally:
        for each, mode in modes:
            each.training = mode
    if expected.shape != found.shape or not torch.allclose(expected, found, rtol=1e-4, atol=1e-6):
        raise ValueError(f"{name}: computes its prompts in another way than peft does, which has no rule here")
