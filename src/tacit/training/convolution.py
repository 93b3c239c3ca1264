"""Convolutions in one, two and three directions, ordinary and transposed.

A transposed convolution is the backward pass of an ordinary one, so its weight is recorded as that of the ordinary one
with images and output gradients in each other's place.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.training.layers import Forward, Layer
from tacit.training.patches import Geometry, Patches
from tacit.training.precision import as_used, exact_backward, full
from tacit.training.recorded import Kept

_FLAT = (nn.Conv1d, nn.ConvTranspose1d)


class _Convolution(torch.autograd.Function):  # type: ignore[misc]
    """`ends`: the output padding of a transposed convolution, None of an ordinary one."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, anchor: Tensor, layer: Layer, walk: Geometry, ends: tuple[int, ...] | None,
        weight: Tensor, bias: Tensor | None,
    ) -> Tensor:  # fmt: skip
        x, weight, bias = as_used(x, weight, bias)
        ctx.layer, ctx.walk, ctx.ends = layer, walk, ends
        ctx.save_for_backward(x, weight)
        zeros = [0] * len(walk.kernel)
        return torch.convolution(
            x, weight, bias, walk.stride, walk.padding, walk.dilation, ends is not None, ends or zeros, walk.groups
        )

    @staticmethod
    @exact_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        layer, walk, ends = ctx.layer, ctx.walk, ctx.ends
        gradient = gradient.contiguous()
        if layer.wants("weight"):
            part = Patches(*_images(full(x), full(gradient), walk, ends), layer.recorder.memory)
            fits = layer.recorder.reserve(x.shape[0] * weight.numel() * part.images.element_size())
            layer.add("weight", part.keep(layer.recorder) if fits else part)
        if layer.wants("bias"):
            layer.add("bias", Kept(full(gradient).flatten(2).sum(2)))
        passed = None
        if ctx.needs_input_grad[0]:
            zeros = [0] * len(walk.kernel)
            passed = torch.ops.aten.convolution_backward(
                gradient, x, weight, None, walk.stride, walk.padding, walk.dilation, ends is not None, ends or zeros,
                walk.groups, (True, False, False),
            )[0]  # fmt: skip
        return passed, None, None, None, None, None, None


def _images(
    x: Tensor, gradient: Tensor, walk: Geometry, ends: tuple[int, ...] | None
) -> tuple[Tensor, Tensor, Geometry]:
    """Images and output gradients of the ordinary convolution, and how it walks.

    Of a transposed one the images are padded here: by its output padding less at the end, or they are cut there.
    """
    if ends is None:
        return x, gradient, walk
    sides = [side for each, end in zip(walk.padding, ends, strict=True) for side in (each - end, each)]
    padded = F.pad(gradient, sides[::-1])
    zeros = (0,) * len(walk.kernel)
    return padded, x, Geometry(walk.kernel, walk.stride, zeros, walk.dilation, walk.groups)


def convolution(layer: Layer) -> Forward:
    """Conv1d, Conv2d and Conv3d; the first as images of height one."""
    module: Any = layer.module
    padding, ahead = _padding(module)
    walk = _walk(module, padding)
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode

    def forward(x: Tensor) -> Tensor:
        _refuse_unbatched(layer, x)
        if ahead is not None:
            x = F.pad(x, ahead, mode=mode)
        return _run(layer, x, walk, None)

    return forward


def transposed_convolution(layer: Layer) -> Forward:
    """ConvTranspose1d, ConvTranspose2d and ConvTranspose3d."""
    module: Any = layer.module
    walk = _walk(module, module.padding)
    ways = len(module.kernel_size)

    def forward(x: Tensor, output_size: list[int] | None = None) -> Tensor:
        _refuse_unbatched(layer, x)
        ends = module._output_padding(
            x, output_size, module.stride, module.padding, module.kernel_size, ways, module.dilation
        )
        return _run(layer, x, walk, (0, *ends) if isinstance(module, _FLAT) else tuple(ends))

    return forward


def _run(layer: Layer, x: Tensor, walk: Geometry, ends: tuple[int, ...] | None) -> Tensor:
    anchor, weight, bias = layer.recorder.anchor, layer.value("weight"), layer.value("bias")
    if not isinstance(layer.module, _FLAT):
        return _Convolution.apply(x, anchor, layer, walk, ends, weight, bias)
    return _Convolution.apply(x.unsqueeze(2), anchor, layer, walk, ends, weight.unsqueeze(2), bias).squeeze(2)


def _walk(module: Any, padding: tuple[int, ...]) -> Geometry:
    def ways(values: tuple[int, ...], missing: int) -> tuple[int, ...]:
        return (missing, *values) if isinstance(module, _FLAT) else tuple(values)

    return Geometry(
        kernel=ways(module.kernel_size, 1),
        stride=ways(module.stride, 1),
        padding=ways(padding, 0),
        dilation=ways(module.dilation, 1),
        groups=module.groups,
    )


def _refuse_unbatched(layer: Layer, x: Tensor) -> None:
    if x.dim() != 2 + len(layer.module.kernel_size):
        raise ValueError(f"{layer.name}: an input of shape {tuple(x.shape)} has no dimension of records: add it first")


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
