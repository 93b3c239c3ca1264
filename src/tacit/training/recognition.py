"""Layers that are recognised by what they compute, whatever their class is called.

A layer of one input that only holds one or two parameters is tried when a model is attached, with random inputs and
random values of its parameters. If it computes a known form, it is recorded by the rule of that form:

    transposed      x W + b, as `Conv1D` of transformers does
    multiplied      an embedding times a constant, as Gemma's is
    scaled          n(x) w + b or n(x) (1 + w) + b, entry by entry along the last dimension, for any n without
                    parameters: RMSNorm of Llama, T5, Gemma and others, and the scales of layers in vision models

The rule runs in place of the layer's own forward, so a layer that was taken for something else would be another model,
but no record would be clipped wrongly. It is tried again on the first records that it is given (`probe`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from tacit.training.embedding_rows import embedding
from tacit.training.fallback import Inside
from tacit.training.generators import Generators
from tacit.training.layers import Forward, Layer, linear_part
from tacit.training.precision import as_used, exact_backward, full
from tacit.training.recorded import Kept
from tacit.training.references import alone
from tacit.training.rules import Registered, Rule, replaces_forward

_DIFFERENCE = 1e-5  # relative: some parts of a form may be computed in float32, whatever the model is in
Values = dict[str, Tensor]  # of the parameters, by name


def recognised(module: nn.Module) -> Registered | None:
    """The rule for a layer that computes one of the known forms; None for any other."""
    own = dict(module.named_parameters(recurse=False))
    if not 1 <= len(own) <= 2 or any(True for _ in module.children()) or _inputs(module) != 1:
        return None
    if replaces_forward(module) or parametrize.is_parametrized(module):
        return None
    before, found = Generators.now(), None
    try:
        if isinstance(module, nn.Embedding):
            found = _as_multiplied(module)
        elif not any(True for _ in module.buffers()):
            found = _as_transposed(module, own) or _as_scaled(module, own)
    finally:
        before.restore()
    return None if found is None else Registered(type(module), found, built_in=False)


def _inputs(module: nn.Module) -> int:
    return len(inspect.signature(type(module).forward).parameters) - 1


def _computes(module: nn.Module, width: int, expected: Callable[[Tensor, Values], Tensor]) -> bool:
    """Whether a layer computes what is expected, for inputs of several shapes and sizes, in training and otherwise."""
    like = next(module.parameters())
    for shape in ((2, 3, width), (3, width)):
        for size in (1.0, 1e-3):  # the small ones show constants that are added before a division
            x = size * full(torch.randn(shape).to(like))
            values = {name: full(torch.randn(each.shape).to(each)) for name, each in module.named_parameters()}
            for training in (True, False):
                try:
                    found, sought = _run(module, x, values, training), expected(x, values)
                except (TypeError, RuntimeError, ValueError, IndexError, AttributeError, KeyError):
                    return False  # it takes other inputs
                if not isinstance(found, Tensor) or found.shape != sought.shape or found.dtype != sought.dtype:
                    return False
                if not float((found - sought).norm()) <= _DIFFERENCE * float(sought.norm()):
                    return False
    return True


def _run(module: nn.Module, x: Tensor, values: Values, training: bool) -> Any:
    before, module.training = module.training, training
    try:
        with torch.no_grad():
            return _with(module, module.forward, x, values)
    finally:
        module.training = before


def _with(module: nn.Module, forward: Forward, x: Tensor, values: Values) -> Any:
    """What a forward of the module computes with these values of its parameters."""
    named = {f"module.{name}": value for name, value in values.items()}
    return torch.func.functional_call(Inside(module, forward), named, (x,))


# --- x W + b


def _as_transposed(module: nn.Module, own: dict[str, nn.Parameter]) -> Rule | None:
    weights = [name for name, each in own.items() if each.dim() == 2]
    if len(weights) != 1:
        return None
    weight, bias = weights[0], next((name for name in own if name != weights[0]), None)
    if bias is not None and own[bias].shape != own[weight].shape[1:]:
        return None

    def expected(x: Tensor, values: Values) -> Tensor:
        return F.linear(x, values[weight].t(), None if bias is None else values[bias])

    if not _computes(module, own[weight].shape[0], expected):
        return None
    return lambda layer: transposed(layer, weight, bias)


class _Transposed(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, anchor: Tensor, layer: Layer, names: tuple[str, str | None], weight: Tensor, bias: Any
    ) -> Tensor:
        x, weight, bias = as_used(x, weight, bias)
        ctx.layer, ctx.names = layer, names
        ctx.save_for_backward(x if layer.wants(names[0]) else None, weight)
        return F.linear(x, weight.t(), bias)

    @staticmethod
    @exact_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        spare = gradient if gradient.dim() > 2 and alone(gradient) else None
        x, weight = ctx.saved_tensors
        layer, (weight_name, bias_name) = ctx.layer, ctx.names
        passed = gradient.matmul(weight.t()) if ctx.needs_input_grad[0] else None
        gradient = full(gradient)
        if bias_name is not None and layer.wants(bias_name):
            layer.add(bias_name, Kept(gradient if gradient.dim() == 2 else gradient.flatten(1, -2).sum(1)))
        if layer.wants(weight_name):  # the factors in the other order; last, because it may write over the gradient
            layer.add(weight_name, linear_part(gradient, full(x), layer.recorder, spare=spare))
        return passed, None, None, None, None, None


def transposed(layer: Layer, weight: str, bias: str | None) -> Forward:
    """A linear layer whose weight is [in, out]."""

    def forward(x: Tensor) -> Tensor:
        if x.dim() < 2:
            raise ValueError(
                f"{layer.name}: an input of shape {tuple(x.shape)} has no dimension of records: add it first"
            )
        shift = None if bias is None else layer.value(bias)
        return _Transposed.apply(x, layer.recorder.anchor, layer, (weight, bias), layer.value(weight), shift)

    return forward


# --- c W[ids]


def _as_multiplied(module: nn.Embedding) -> Rule | None:
    """An embedding whose rows come times a constant. The constant is read off, and must be the same everywhere."""
    ids = torch.randint(0, module.num_embeddings, (2, 3)).to(module.weight.device)
    values = {"weight": full(torch.randn(module.weight.shape).to(module.weight))}
    rows = F.embedding(ids, values["weight"])
    try:
        out, again = (_run(module, ids, values, training) for training in (True, False))
    except (TypeError, RuntimeError, ValueError, IndexError, AttributeError, KeyError):
        return None
    if not isinstance(out, Tensor) or out.shape != rows.shape or out.dtype != rows.dtype or not torch.equal(out, again):
        return None
    constant = float((out * rows).sum() / rows.square().sum())
    if not float((out - constant * rows).norm()) <= _DIFFERENCE * float(out.norm()):
        return None

    def rule(layer: Layer) -> Forward:
        found = embedding(layer)
        return lambda ids: found(ids) * constant

    return rule


# --- n(x) w + b


def _as_scaled(module: nn.Module, own: dict[str, nn.Parameter]) -> Rule | None:
    shapes = {tuple(each.shape) for each in own.values()}
    if len(shapes) != 1 or len(width := shapes.pop()) != 1:
        return None
    for scale, *shift in permutations(own):
        for offset in (0.0, 1.0):
            form = _Scaled(module, module.forward, scale, shift[0] if shift else None, offset)
            if _computes(module, width[0], form.expected):
                return form.rule
    return None


@dataclass(frozen=True, slots=True)
class _Scaled:
    """n(x) (w + offset) + b, where n is the forward itself with parameters that change nothing."""

    module: nn.Module
    own: Forward
    scale: str
    shift: str | None
    offset: float

    def normalized(self, x: Tensor) -> Tensor:
        found = {self.scale: torch.full_like(getattr(self.module, self.scale), 1 - self.offset, requires_grad=False)}
        if self.shift is not None:
            found[self.shift] = torch.zeros_like(getattr(self.module, self.shift), requires_grad=False)
        out: Tensor = _with(self.module, self.own, x, found)
        return out

    def expected(self, x: Tensor, values: Values) -> Tensor:
        scaled = self.normalized(x) * (values[self.scale] + self.offset)
        return scaled if self.shift is None else scaled + values[self.shift]

    def rule(self, layer: Layer) -> Forward:
        def fitted(name: str, x: Tensor) -> Tensor:
            rows: Tensor = layer.per_record(name, len(x))
            return rows.view(len(x), *[1] * (x.dim() - 2), -1) if layer.wants(name) else rows

        def forward(x: Tensor) -> Tensor:
            if x.dim() < 2:
                raise ValueError(
                    f"{layer.name}: an input of shape {tuple(x.shape)} has no dimension of records: add it first"
                )
            return self.expected(x, {name: fitted(name, x) for name in (self.scale, self.shift) if name is not None})

        return forward
