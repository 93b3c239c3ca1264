"""LayerNorm, GroupNorm, InstanceNorm and RMSNorm: normalized numbers, times a weight, plus a bias.

What a record adds to the gradient of the weight is the sum of its normalized inputs times the gradients of its outputs,
which is found beside the backward pass that torch itself has. RMSNorm runs with a weight for each record.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.instancenorm import _InstanceNorm

from tacit.training.layers import Forward, Layer
from tacit.training.precision import exact_backward, full
from tacit.training.recorded import Kept

_native = torch.ops.aten


class _Layers(torch.autograd.Function):  # type: ignore[misc]
    """Normalized over the last dimensions, those of `shape`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, anchor: Tensor, layer: Layer, shape: tuple[int, ...], weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.layer, ctx.shape, ctx.given = layer, shape, x.dtype
        x = _as_weight(x, weight)
        out, means, scales = _native.native_layer_norm(x, shape, weight, bias, layer.module.eps)
        ctx.save_for_backward(x, means, scales, weight, bias)
        return out

    @staticmethod
    @exact_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, means, scales, weight, bias = ctx.saved_tensors
        whole, size = full(gradient), math.prod(ctx.shape)
        if ctx.layer.wants("weight"):
            terms = (full(x) - full(means)).mul_(full(scales)).mul_(whole)
            ctx.layer.add("weight", Kept(terms.reshape(len(x), -1, size).sum(1)))
        if ctx.layer.wants("bias"):
            ctx.layer.add("bias", Kept(whole.reshape(len(x), -1, size).sum(1)))
        passed = None
        if ctx.needs_input_grad[0]:
            passed = _native.native_layer_norm_backward(
                gradient.to(x.dtype), x, ctx.shape, means, scales, weight, bias, (True, False, False)
            )[0].to(ctx.given)
        return passed, None, None, None, None, None


class _Groups(torch.autograd.Function):  # type: ignore[misc]
    """Normalized over groups of channels, each with all its positions."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, anchor: Tensor, layer: Layer, groups: int, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.layer, ctx.given = layer, x.dtype
        x = _as_weight(x, weight).contiguous()
        records, channels = x.shape[:2]
        ctx.sizes = records, channels, math.prod(x.shape[2:]), groups
        out, means, scales = _native.native_group_norm(x, weight, bias, *ctx.sizes, layer.module.eps)
        ctx.save_for_backward(x, means, scales, weight)
        return out

    @staticmethod
    @exact_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, means, scales, weight = ctx.saved_tensors
        records, channels, _, groups = ctx.sizes
        gradient = gradient.contiguous()
        whole = full(gradient)
        if ctx.layer.wants("weight"):
            terms = (full(x).view(records, groups, -1) - full(means).unsqueeze(2)).view(x.shape).mul_(whole)
            summed = terms.view(records, groups, channels // groups, -1).sum(3).mul_(full(scales).unsqueeze(2))
            ctx.layer.add("weight", Kept(summed.flatten(1)))
        if ctx.layer.wants("bias"):
            ctx.layer.add("bias", Kept(whole.view(records, channels, -1).sum(2)))
        passed = None
        if ctx.needs_input_grad[0]:
            passed = _native.native_group_norm_backward(
                gradient.to(x.dtype), x, means, scales, weight, *ctx.sizes, (True, False, False)
            )[0].to(ctx.given)
        return passed, None, None, None, None, None


def _as_weight(x: Tensor, weight: Tensor) -> Tensor:
    """Under autocast a layer is given shorter numbers than its weight has."""
    return x.to(torch.promote_types(x.dtype, weight.dtype))


def normalization(layer: Layer) -> Forward:
    """The forward of all four, whose first dimension is that of the records."""
    module: Any = layer.module
    channels = isinstance(module, (nn.GroupNorm, _InstanceNorm))

    def forward(x: Tensor) -> Tensor:
        if x.dim() < 1 + (1 if channels else len(module.normalized_shape)):
            raise ValueError(
                f"{layer.name}: an input of shape {tuple(x.shape)} has no dimension of records: add it first"
            )
        if isinstance(module, nn.RMSNorm):
            return _by_record(layer, x)
        anchor, weight, bias = layer.recorder.anchor, layer.value("weight"), layer.value("bias")
        if channels:
            groups = module.num_groups if isinstance(module, nn.GroupNorm) else x.shape[1]
            return _Groups.apply(x, anchor, layer, groups, weight, bias)
        return _Layers.apply(x, anchor, layer, tuple(module.normalized_shape), weight, bias)

    return forward


def _by_record(layer: Layer, x: Tensor) -> Tensor:
    """RMSNorm, of which torch has no backward pass that hands over what it normalized."""
    module: Any = layer.module
    own = tuple(module.normalized_shape)
    weight = layer.per_record("weight", x.shape[0])
    first = x.shape[0] if layer.wants("weight") else 1
    return F.rms_norm(x, own, eps=module.eps) * weight.reshape(first, *[1] * (x.dim() - 1 - len(own)), *own)
