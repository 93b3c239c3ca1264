"""How each kind of layer is recorded: a forward in place of the layer's own, whose backward hands over gradient parts.

The functions here compute what the layer computes, pass on the gradient of the inputs, and leave the parameters'
gradients to the recorder. For layers without a rule see `fallback`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.instancenorm import _InstanceNorm

from tacit.training.margins import squared_norms
from tacit.training.recorded import Geometry, Kept, Outer, Part, Patches, Room, Rows, gram_is_cheaper

Forward = Callable[..., Any]


class Recorder(Room, Protocol):
    """Takes the parts of one backward pass."""

    anchor: Tensor  # requires a gradient and holds nothing: makes a layer's output part of the graph

    def add(self, name: str, parameter: nn.Parameter, part: Part) -> None: ...


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer in its model, as a rule is given it. Frozen parameters are not in `trained`."""

    name: str
    module: nn.Module
    trained: frozenset[str]
    recorder: Recorder

    def wants(self, parameter: str) -> bool:
        return parameter in self.trained

    def add(self, parameter: str, part: Part) -> None:
        """Record the gradients of one use of a parameter, in the backward pass."""
        self.recorder.add(self.name, getattr(self.module, parameter), part)

    def value(self, parameter: str) -> Any:
        """The parameter as a constant, for which autograd computes no gradient, or None where the layer has none."""
        tensor = getattr(self.module, parameter)
        return None if tensor is None else tensor.detach()

    def per_record(self, parameter: str, records: int) -> Any:
        """The parameter once for each record, so that ordinary autograd finds one gradient for each."""
        tensor = self.value(parameter)
        if tensor is None or not self.wants(parameter):
            return tensor
        return _PerRecord.apply(tensor, self.recorder.anchor, self, parameter, records)


class _PerRecord(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, anchor: Tensor, layer: Layer, parameter: str, records: int) -> Tensor:
        ctx.layer, ctx.parameter = layer, parameter
        return tensor.expand(records, *tensor.shape)

    @staticmethod
    def backward(ctx: Any, gradients: Tensor) -> tuple[None, ...]:
        ctx.layer.add(ctx.parameter, Kept(gradients))
        return None, None, None, None, None


class _Linear(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, anchor: Tensor, layer: Layer, names: tuple[str, str], weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.layer, ctx.names = layer, names
        ctx.save_for_backward(x if layer.wants(names[0]) else None, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        layer, (weight_name, bias_name) = ctx.layer, ctx.names
        squared = squared_norms(gradient) if gradient.dim() == 2 else None  # for the weight and the bias
        if layer.wants(weight_name):
            layer.add(weight_name, linear_part(x, gradient, layer.recorder, squared))
        if layer.wants(bias_name):
            summed = gradient if gradient.dim() == 2 else gradient.flatten(1, -2).sum(1)
            layer.add(bias_name, Kept(summed, squared=squared))
        passed = gradient.matmul(weight) if ctx.needs_input_grad[0] else None
        return passed, None, None, None, None, None


def linear_part(x: Tensor, gradient: Tensor, room: Room, squared: Tensor | None = None) -> Part:
    """The weight's part: kept where there is room for all records and the Gram norm is no cheaper."""
    records, fan_in, fan_out = x.shape[0], x.shape[-1], gradient.shape[-1]
    steps = x[0].numel() // fan_in if records else 1
    part = Outer(x.reshape(records, steps, fan_in), gradient.reshape(records, steps, fan_out), room.memory, squared)
    if steps == 1 or gram_is_cheaper(steps, fan_in, fan_out):
        return part
    if not room.reserve(records * fan_in * fan_out * x.element_size()):
        return part
    kept = room.take(gradient, records, fan_out, fan_in)
    torch.bmm(part.outputs.transpose(1, 2), part.inputs, out=kept)
    return Kept(kept.flatten(1))


def linear(layer: Layer, weight: str = "weight", bias: str = "bias") -> Forward:
    def forward(x: Tensor) -> Tensor:
        if x.dim() < 2:
            raise ValueError(
                f"{layer.name}: an input of shape {tuple(x.shape)} has no dimension of records: add it first"
            )
        return _Linear.apply(x, layer.recorder.anchor, layer, (weight, bias), layer.value(weight), layer.value(bias))

    forward.__name__ = "forward"
    return forward


class _Conv2d(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, anchor: Tensor, layer: Layer, walk: Geometry, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.layer, ctx.walk = layer, walk
        ctx.save_for_backward(x, weight)
        return F.conv2d(x, weight, bias, walk.stride, walk.padding, walk.dilation, walk.groups)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        layer, walk = ctx.layer, ctx.walk
        gradient = gradient.contiguous()
        if layer.wants("weight"):
            part = Patches(x, gradient, walk, layer.recorder.memory)
            fits = layer.recorder.reserve(x.shape[0] * weight.numel() * x.element_size())
            layer.add("weight", part.keep() if fits else part)
        if layer.wants("bias"):
            layer.add("bias", Kept(gradient.sum((2, 3))))
        passed = None
        if ctx.needs_input_grad[0]:
            passed = torch.ops.aten.convolution_backward(
                gradient, x, weight, None, walk.stride, walk.padding, walk.dilation, False, (0, 0), walk.groups,
                (True, False, False),
            )[0]  # fmt: skip
        return passed, None, None, None, None, None


def convolution(layer: Layer) -> Forward:
    """Conv1d and Conv2d; the first as images of height one."""
    module = layer.module
    flat = isinstance(module, nn.Conv1d)
    padding, ahead = _padding(module)

    def pair(values: tuple[int, ...], missing: int) -> tuple[int, int]:
        return (missing, values[0]) if flat else (values[0], values[1])

    walk = Geometry(
        kernel=pair(module.kernel_size, 1),
        stride=pair(module.stride, 1),
        padding=pair(padding, 0),
        dilation=pair(module.dilation, 1),
        groups=module.groups,
    )
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode

    def forward(x: Tensor) -> Tensor:
        if x.dim() != (3 if flat else 4):
            raise ValueError(
                f"{layer.name}: an input of shape {tuple(x.shape)} has no dimension of records: add it first"
            )
        if ahead is not None:
            x = F.pad(x, ahead, mode=mode)
        weight, bias = layer.value("weight"), layer.value("bias")
        if not flat:
            return _Conv2d.apply(x, layer.recorder.anchor, layer, walk, weight, bias)
        return _Conv2d.apply(x.unsqueeze(2), layer.recorder.anchor, layer, walk, weight.unsqueeze(2), bias).squeeze(2)

    return forward


def _padding(module: Any) -> tuple[tuple[int, ...], list[int] | None]:
    """(padding of the convolution itself, padding done ahead of it in the order of `F.pad`)."""
    ways = len(module.kernel_size)
    if module.padding == "valid":
        sides = [(0, 0)] * ways
    elif module.padding == "same":
        spans = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size, strict=True)]
        sides = [(span // 2, span - span // 2) for span in spans]
    else:
        sides = [(p, p) for p in module.padding]
    if module.padding_mode == "zeros" and all(left == right for left, right in sides):
        return tuple(left for left, _ in sides), None
    return (0,) * ways, [amount for side in reversed(sides) for amount in side]


class _Embedding(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, ids: Tensor, anchor: Tensor, layer: Layer, weight: Tensor) -> Tensor:
        ctx.layer = layer
        ctx.save_for_backward(ids)
        return F.embedding(ids, weight)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, ...]:
        (ids,) = ctx.saved_tensors
        module = ctx.layer.module
        ctx.layer.add("weight", embedding_part(ids, gradient, tuple(module.weight.shape), module.padding_idx))
        return None, None, None, None


def embedding_part(ids: Tensor, gradient: Tensor, shape: tuple[int, int], padding_idx: int | None) -> Rows:
    """The rows of all records, summed where a record holds an id more than once."""
    records, (vocabulary, width) = ids.shape[0], shape
    owners = torch.arange(records, device=ids.device).view(-1, *[1] * (ids.dim() - 1))
    pairs = (owners * vocabulary + ids).reshape(-1)
    gradient = gradient.reshape(-1, width)
    if padding_idx is not None:
        chosen = (ids != padding_idx).reshape(-1)
        pairs, gradient = pairs[chosen], gradient[chosen]
    pairs, places = torch.unique(pairs, return_inverse=True)
    rows = gradient.new_zeros(len(pairs), width).index_add_(0, places, gradient)
    return Rows(records, pairs // vocabulary, pairs % vocabulary, rows, shape)


def embedding(layer: Layer) -> Forward:
    if layer.module.max_norm is not None or layer.module.sparse or layer.module.scale_grad_by_freq:
        raise ValueError(f"{layer.name}: embeddings with max_norm, sparse or scale_grad_by_freq are not supported")

    def forward(ids: Tensor) -> Tensor:
        if ids.dim() < 1:
            raise ValueError(f"{layer.name}: ids without a dimension of records: add it first")
        return _Embedding.apply(ids, layer.recorder.anchor, layer, layer.value("weight"))

    return forward


def normalization(layer: Layer) -> Forward:
    """LayerNorm, RMSNorm, GroupNorm and InstanceNorm: normalized without parameters, then scaled record by record."""
    module: Any = layer.module
    grouped = isinstance(module, (nn.GroupNorm, _InstanceNorm))

    def normalized(x: Tensor) -> Tensor:
        if isinstance(module, nn.GroupNorm):
            return F.group_norm(x, module.num_groups, eps=module.eps)
        if isinstance(module, _InstanceNorm):
            return F.instance_norm(x, eps=module.eps)
        if isinstance(module, nn.RMSNorm):
            return F.rms_norm(x, tuple(module.normalized_shape), eps=module.eps)
        return F.layer_norm(x, tuple(module.normalized_shape), eps=module.eps)

    def fitted(name: str, x: Tensor) -> Any:
        tensor = layer.per_record(name, x.shape[0]) if hasattr(module, name) else None
        if tensor is None:
            return None
        first = tensor.shape[0] if layer.wants(name) else 1
        own = tensor.shape[1:] if layer.wants(name) else tensor.shape
        middle = x.dim() - 1 - len(own)
        return tensor.reshape(first, *own, *[1] * middle) if grouped else tensor.reshape(first, *[1] * middle, *own)

    def forward(x: Tensor) -> Tensor:
        own = 1 if grouped else len(module.normalized_shape)
        if x.dim() < 1 + own:
            raise ValueError(
                f"{layer.name}: an input of shape {tuple(x.shape)} has no dimension of records: add it first"
            )
        weight, bias = fitted("weight", x), fitted("bias", x)
        return normalized(x) * weight if bias is None else torch.addcmul(bias, normalized(x), weight)

    return forward
