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

from tacit.training.arguments import Arguments
from tacit.training.linear_products import multiply_each, one_by_one
from tacit.training.margins import squared_norms
from tacit.training.precision import as_used, exact_backward, full
from tacit.training.recorded import Kept, Outer, Part, Room, gram_is_cheaper
from tacit.training.references import alone

Forward = Callable[..., Any]


class Recorder(Room, Protocol):
    """Takes the parts of one backward pass."""

    anchor: Tensor  # requires a gradient and holds nothing: makes a layer's output part of the graph
    expected: int | None  # records that the model was given, where that is known
    arguments: list[Arguments]  # that may be of records or shared

    def add(self, name: str, parameter: nn.Parameter, part: Part) -> None: ...

    def takes(self, parameter: Tensor) -> bool:
        """Whether gradients of this very tensor are recorded."""


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
        """The parameter as a constant, for which autograd computes no gradient, or None if the layer has none."""
        tensor = getattr(self.module, parameter)
        if self.wants(parameter) and not self.recorder.takes(tensor):
            raise ValueError(
                f"{self.name}: another tensor stands in the place of its {parameter} (torch.func.functional_call does "
                "that), whose gradient would be recorded as that of the parameter: call the model as it is, and other "
                "weights of it, such as an average, under torch.no_grad or in a copy of the model"
            )
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
        x, weight, bias = as_used(x, weight, bias)
        ctx.layer, ctx.names = layer, names
        ctx.save_for_backward(x if layer.wants(names[0]) else None, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    @exact_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        spare = gradient if gradient.dim() > 2 and alone(gradient) else None
        x, weight = ctx.saved_tensors
        layer, (weight_name, bias_name) = ctx.layer, ctx.names
        passed = gradient.matmul(weight) if ctx.needs_input_grad[0] else None
        gradient = full(gradient)
        squared = squared_norms(gradient) if gradient.dim() == 2 else None  # for the weight and the bias
        if layer.wants(bias_name):
            summed = gradient if gradient.dim() == 2 else gradient.flatten(1, -2).sum(1)
            layer.add(bias_name, Kept(summed, squared=squared))
        if layer.wants(weight_name):  # last, because it may write over the gradient
            layer.add(weight_name, linear_part(full(x), gradient, layer.recorder, squared, spare))
        return passed, None, None, None, None, None


def linear_part(
    x: Tensor, gradient: Tensor, room: Room, squared: Tensor | None = None, spare: Tensor | None = None
) -> Part:
    """The weight's part: kept where there is room for all records and the Gram norm is no cheaper.

    `spare`: the one of the two that nobody needs any more, so that what is kept may be written over it.
    """
    records, fan_in, fan_out = x.shape[0], x.shape[-1], gradient.shape[-1]
    steps = x[0].numel() // fan_in if records else 1
    part = Outer(x.reshape(records, steps, fan_in), gradient.reshape(records, steps, fan_out), room.memory, squared)
    if steps == 1 or gram_is_cheaper(steps, fan_in, fan_out):
        return part
    if spare is not None and (spare is x or spare is gradient) and spare[0].numel() >= fan_in * fan_out:
        return part.keep_over(spare)
    if not room.reserve(records * fan_in * fan_out * x.element_size()):
        return part
    if fan_in < fan_out and one_by_one(part.inputs, part.outputs):
        multiply_each(part.inputs, part.outputs, kept := room.take(gradient, records, fan_in, fan_out))
        return Kept(kept, order=(1, 0), own=True)
    kept = room.take(gradient, records, fan_out, fan_in)
    if one_by_one(part.outputs, part.inputs):
        multiply_each(part.outputs, part.inputs, kept)
    else:
        torch.bmm(part.outputs.transpose(1, 2), part.inputs, out=kept)
    return Kept(kept.flatten(1), own=True)


def linear(layer: Layer, weight: str = "weight", bias: str = "bias") -> Forward:
    def forward(x: Tensor) -> Tensor:
        if x.dim() < 2:
            raise ValueError(
                f"{layer.name}: an input of shape {tuple(x.shape)} has no dimension of records: add it first"
            )
        return _Linear.apply(x, layer.recorder.anchor, layer, (weight, bias), layer.value(weight), layer.value(bias))

    forward.__name__ = "forward"
    return forward
