"""`nn.MultiheadAttention`, whose projections live in one packed parameter, out of recorded linear maps."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.training.layers import Forward, Layer, linear

_REPLACEMENT = "build it of nn.Linear layers and F.scaled_dot_product_attention"


def attention(layer: Layer) -> Forward:
    """The forward of a packed attention layer. Its `out_proj` is a layer that records itself."""
    module: Any = layer.module
    if not module._qkv_same_embed_dim or module.bias_k is not None:
        raise ValueError(f"{layer.name}: nn.MultiheadAttention with kdim, vdim or add_bias_kv: {_REPLACEMENT}")
    project_in = linear(layer, "in_proj_weight", "in_proj_bias")
    heads, width = module.num_heads, module.embed_dim

    def projected(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        if query is key and key is value:
            return tuple(project_in(query).split(width, dim=-1))
        # One map for all three, of which a part is used: the gradient of the rest is zero.
        q = project_in(query).split(width, dim=-1)[0]
        if key is value:
            return q, *project_in(key).split(width, dim=-1)[1:]
        return q, project_in(key).split(width, dim=-1)[1], project_in(value).split(width, dim=-1)[2]

    def forward(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if query.dim() != 3:
            raise ValueError(f"{layer.name}: a query of shape {tuple(query.shape)} has no dimension of records: add it")
        if is_causal and attn_mask is None:
            raise ValueError(f"{layer.name}: is_causal is a hint about attn_mask: give the mask as well")
        if not module.batch_first:
            shared = query is key and key is value, key is value
            query = query.transpose(0, 1)
            key = query if shared[0] else key.transpose(0, 1)
            value = key if shared[1] else value.transpose(0, 1)
        q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in projected(query, key, value))
        mask = _mask(attn_mask, key_padding_mask, heads, q)
        if module.add_zero_attn:
            k, v = F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1))
            mask = None if mask is None else F.pad(mask, (0, 1))
        dropout = module.dropout if module.training else 0.0
        weights = None
        if need_weights:
            scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)
            weights = F.dropout(torch.softmax(scores if mask is None else scores + mask, dim=-1), dropout)
            mixed = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout)
        out = module.out_proj.forward(mixed.transpose(1, 2).flatten(2))  # without its hooks, as torch does
        return (out if module.batch_first else out.transpose(0, 1)), weights

    return forward


def _mask(attention: Tensor | None, padding: Tensor | None, heads: int, like: Tensor) -> Tensor | None:
    """One additive mask that broadcasts over [B, heads, T, S], or None."""

    def additive(mask: Tensor) -> Tensor:
        if mask.dtype == torch.bool:
            return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, -math.inf)
        return mask.to(like.dtype)

    total = None
    if attention is not None:
        total = additive(attention)
        total = total[None, None] if total.dim() == 2 else total.unflatten(0, (-1, heads))
    if padding is not None:
        padded = additive(padding)[:, None, None, :]
        total = padded if total is None else total + padded
    return total
