"""Recorded gradients: what one use of a parameter in one backward pass contributes, record by record.

A part knows the squared norm of each record's gradient and adds a weighted sum of the gradients. It either keeps the
gradients themselves (`Kept`, and in compact form `Rows`), so that exactly what was measured is added, or keeps their
factors (`Outer`, `Patches`) and never holds all gradients at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.training.margins import absolute_sums, gamma, gram_norms, product_norms, squared_norms

_FLOPS_A_FLOAT = 16  # products that a core computes while it moves one float to or from memory
_CACHE = 1 << 19  # floats of patches held at once: near the caches, and enough to keep all threads busy
_NARROW = 16  # output channels below which a product is faster as [channels, positions] × [positions, patch]
_SMALL = 1 << 10  # floats up to which the calls cost more than the numbers


class Room(Protocol):
    """Memory for the gradients of single records."""

    memory: int  # bytes that may be used for a moment

    def take(self, like: Tensor, *shape: int) -> Tensor:
        """Memory for gradients that are kept until the pass is over."""

    def reserve(self, size: int) -> bool:
        """Whether `size` more bytes may be kept until the pass is done."""


class Part(Protocol):
    """The gradients of one parameter, one for each record."""

    @property
    def records(self) -> int: ...

    def squared_norms(self) -> Tensor:
        """Upper bounds, in float64."""

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        """The gradients of records start to stop as rows [stop − start, size], computed in `dtype`."""

    def reach(self) -> tuple[int, Tensor]:
        """(n, m): entries of `instantiate` are sums of n products, off by at most γ_n m in L2 norm."""

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        """Add the sum of factors_i times the gradient of record i."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Gradients as they are: [B, *shape], or with the dimensions of the shape in another order."""

    gradients: Tensor
    squared: Tensor | None = None  # the squared norms, where they are known
    order: tuple[int, ...] | None = (
        None  # which dimension of one gradient is the first of the parameter's, the second...
    )

    @property
    def records(self) -> int:
        return int(self.gradients.shape[0])

    def squared_norms(self) -> Tensor:
        return squared_norms(self.gradients) if self.squared is None else self.squared

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        gradients = self.gradients[start:stop].to(dtype)
        if self.order is not None:
            gradients = gradients.permute(0, *(1 + place for place in self.order))
        return gradients[..., None].flatten(1)  # a parameter may be a single number, without a dimension

    def reach(self) -> tuple[int, Tensor]:
        return 1, squared_norms(self.gradients).sqrt_()

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        rows = self.gradients.reshape(self.records, total.numel()).t()
        if self.order is None:
            total.view(-1).addmv_(rows, factors)
        else:
            summed = rows.mv(factors).view(self.gradients.shape[1:]).permute(self.order)
            total.add_(summed.reshape(total.shape))


@dataclass(frozen=True, slots=True)
class Outer:
    """Σ_t g_t x_tᵀ, the weight of a linear layer, from inputs [B, T, d] and output gradients [B, T, p]."""

    inputs: Tensor
    outputs: Tensor
    memory: int  # bytes that gradients held at once may take
    squared: Tensor | None = None  # the squared norms of outputs, where they are known

    @property
    def records(self) -> int:
        return int(self.inputs.shape[0])

    def squared_norms(self) -> Tensor:
        if self.inputs.shape[1] == 1:
            return product_norms(self.inputs, self.outputs, self.squared)
        (_, steps, fan_in), fan_out = self.inputs.shape, self.outputs.shape[2]
        if not gram_is_cheaper(steps, fan_in, fan_out):
            return _measured([self], fan_in * fan_out, self.memory)
        size = steps * (fan_in + fan_out) + 2 * steps * steps
        norms = [gram_norms(self.inputs[a:b], self.outputs[a:b]) for a, b in _spans(self.records, size, self.memory)]
        return torch.cat(norms)

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        outputs = self.outputs[start:stop].to(dtype)
        return torch.bmm(outputs.transpose(1, 2), self.inputs[start:stop].to(dtype)).flatten(1)

    def reach(self) -> tuple[int, Tensor]:
        return int(self.inputs.shape[1]), product_norms(self.inputs, self.outputs).sqrt_()

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        inputs, outputs = self.inputs, self.outputs
        if inputs.shape[2] < outputs.shape[2]:
            inputs = inputs * factors[:, None, None]
        else:
            outputs = outputs * factors[:, None, None]
        total.addmm_(outputs.flatten(0, 1).t(), inputs.flatten(0, 1))


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a convolution of images walks: stride, padding and dilation of both directions, and groups."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int

    def pad(self, images: Tensor) -> Tensor:
        above, left = self.padding
        return F.pad(images, (left, left, above, above)) if above or left else images

    def patches(self, images: Tensor, height: int, width: int, into: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """The inputs under the kernel at each position: [n × groups, channels of a group × kernel, height × width].

        Two strided copies, first under the columns of the kernel, then under its rows: faster than `F.unfold`. They are
        made in the two buffers of `into`, where given: fresh memory costs as much again.
        """
        (down, right), (rows, columns) = self.stride, self.dilation
        images = self.pad(images).contiguous()
        records, channels = images.shape[:2]
        a, b, c, d = images.stride()
        shape = (records, channels, self.kernel[1], images.shape[2], width)
        windows = images.as_strided(shape, (a, b, columns * d, c, right * d), images.storage_offset())
        windows = windows.contiguous() if into is None else into[0][: windows.numel()].view(shape).copy_(windows)
        a, b, c, d, _ = windows.stride()
        whole = (records, channels, *self.kernel, height, width)
        windows = windows.as_strided(whole, (a, b, rows * d, c, down * d, 1))
        windows = windows.contiguous() if into is None else into[1][: windows.numel()].view(whole).copy_(windows)
        size = channels // self.groups * self.kernel[0] * self.kernel[1]
        return windows.view(records * self.groups, size, height * width)

    def pixels(self, images: Tensor, height: int, width: int, into: Tensor) -> Tensor:
        """The same for one group with channels last: [n, height × width, kernel × channels], made in `into`.

        One copy of runs as long as a row of the kernel times the channels.
        """
        (down, right), (rows, columns) = self.stride, self.dilation
        last = images.permute(0, 2, 3, 1).contiguous()
        records, channels = images.shape[:2]
        a, b, c, _ = last.stride()
        whole = (records, height, width, *self.kernel, channels)
        windows = last.as_strided(whole, (a, down * b, right * c, rows * b, columns * c, 1))
        return into[: windows.numel()].view(whole).copy_(windows).view(records, height * width, -1)


@dataclass(frozen=True, slots=True)
class Patches:
    """The weight of a convolution, from images [B, c, h, w] and output gradients [B, p, h', w']."""

    images: Tensor
    outputs: Tensor
    geometry: Geometry
    memory: int

    @property
    def records(self) -> int:
        return int(self.images.shape[0])

    def squared_norms(self) -> Tensor:
        groups = self.geometry.groups
        fan_in = self.images.shape[1] // groups * self.geometry.kernel[0] * self.geometry.kernel[1]
        fan_out, steps = self.outputs.shape[1] // groups, self.outputs.shape[2] * self.outputs.shape[3]
        if not gram_is_cheaper(steps, fan_in, fan_out):
            return _measured([self], (steps + fan_out) * fan_in * groups, self.memory)
        norms = []
        for a, b in _spans(self.records, groups * steps * (2 * fan_in + fan_out + 2 * steps), self.memory):
            inputs, outputs = self._factors(a, b, torch.float64)
            norms.append(gram_norms(inputs.transpose(1, 2), outputs.transpose(1, 2)).view(b - a, groups).sum(1))
        return torch.cat(norms).mul_(1 + gamma(groups))

    def _factors(self, start: int, stop: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Inputs [n, d, T] and output gradients [n, p, T], each group of a record on its own."""
        images, outputs = self.images[start:stop].to(dtype), self.outputs[start:stop].to(dtype)
        height, width = outputs.shape[2:]
        groups = self.geometry.groups
        by_group = outputs.reshape((stop - start) * groups, outputs.shape[1] // groups, height * width)
        return self.geometry.patches(images, height, width), by_group

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        inputs, outputs = self._factors(start, stop, dtype)
        gradients = torch.bmm(outputs, inputs.transpose(1, 2))
        return gradients.view(stop - start, self.geometry.groups * gradients.shape[1] * gradients.shape[2])

    def reach(self) -> tuple[int, Tensor]:
        # An input is under the kernel at most once for each of its positions.
        kernel = self.geometry.kernel[0] * self.geometry.kernel[1]
        reach = squared_norms(self.images).mul_(squared_norms(self.outputs)).mul_(kernel).sqrt_()
        return self.outputs.shape[2] * self.outputs.shape[3], reach

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        walk = self.geometry
        images, outputs = self.images, self.outputs
        if images[:1].numel() < outputs[:1].numel():
            images = images * factors[:, None, None, None]
        else:
            outputs = outputs * factors[:, None, None, None]
        shape = total if total.dim() == 4 else total.unsqueeze(2)
        gradient = torch.ops.aten.convolution_backward(
            outputs, images, shape, None, walk.stride, walk.padding, walk.dilation, False, (0, 0), walk.groups,
            (False, True, False),
        )[1]  # fmt: skip
        total.add_(gradient.view(total.shape))

    def keep(self) -> Kept:
        """The gradients themselves, computed for some records at a time because patches are large."""
        walk, outputs = self.geometry, self.outputs.flatten(2)
        images = walk.pad(self.images)
        (rows, columns), channels, features = walk.kernel, images.shape[1], outputs.shape[1]
        height, width = self.outputs.shape[2:]
        size, positions = channels * rows * columns, height * width
        step = max(1, min(self.records, _CACHE // (size * positions)))
        patches = images.new_empty(step * size * positions)
        if walk.groups == 1 and columns * channels > width:
            gradients = images.new_empty(self.records, features, size)
            for a, b in _steps(self.records, step):
                torch.bmm(outputs[a:b], walk.pixels(images[a:b], height, width, patches), out=gradients[a:b])
            return Kept(gradients.view(-1, features, rows, columns, channels), order=(0, 3, 1, 2))
        ready = replace(walk, padding=(0, 0))
        into = images.new_empty(step * channels * columns * images.shape[2] * width), patches
        if walk.groups == 1 and features >= _NARROW:
            gradients = images.new_empty(self.records, size, features)
            for a, b in _steps(self.records, step):
                found = ready.patches(images[a:b], height, width, into)
                torch.bmm(found, outputs[a:b].transpose(1, 2), out=gradients[a:b])
            return Kept(gradients, order=(1, 0))
        gradients = images.new_empty(self.records * walk.groups, features // walk.groups, size // walk.groups)
        by_group = outputs.reshape(*gradients.shape[:2], positions)
        for a, b in _steps(self.records, step):
            found = ready.patches(images[a:b], height, width, into).transpose(1, 2)
            torch.bmm(
                by_group[a * walk.groups : b * walk.groups], found, out=gradients[a * walk.groups : b * walk.groups]
            )
        return Kept(gradients.view(self.records, features * size // walk.groups))


@dataclass(frozen=True, slots=True)
class Rows:
    """The weight of an embedding: one row for each pair of a record and an id that it holds, repeated ids summed."""

    records: int
    owners: Tensor  # [n], the record of each row, ascending
    ids: Tensor  # [n]
    rows: Tensor  # [n, d]
    shape: tuple[int, int]

    def squared_norms(self) -> Tensor:
        norms = squared_norms(self.rows)
        longest = int(torch.bincount(self.owners, minlength=1).max())
        return norms.new_zeros(self.records).index_add_(0, self.owners, norms).mul_(1 + 2 * gamma(longest))

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        chosen = (self.owners >= start) & (self.owners < stop)
        dense = self.rows.new_zeros((stop - start, *self.shape), dtype=dtype)
        dense[self.owners[chosen] - start, self.ids[chosen]] = self.rows[chosen].to(dtype)
        return dense.flatten(1)

    def reach(self) -> tuple[int, Tensor]:
        return 1, self.squared_norms().sqrt_()

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        total.index_add_(0, self.ids, self.rows * factors[self.owners, None])


@dataclass(frozen=True, slots=True)
class Several:
    """One parameter used several times, too large to keep: their sum is measured in spans of records."""

    parts: Sequence[Part]
    size: int
    memory: int

    @property
    def records(self) -> int:
        return self.parts[0].records

    def squared_norms(self) -> Tensor:
        return _measured(self.parts, self.size, self.memory)

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        total = self.parts[0].instantiate(start, stop, dtype)
        for part in self.parts[1:]:
            total = total + part.instantiate(start, stop, dtype)
        return total

    def reach(self) -> tuple[int, Tensor]:
        reaches = [part.reach() for part in self.parts]
        total = torch.stack([reach for _, reach in reaches]).sum(0)
        return max(terms for terms, _ in reaches) + len(reaches), total

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        for part in self.parts:
            part.add_to(total, factors)


def join(parts: Sequence[Part], size: int, dtype: torch.dtype, room: Room) -> Part:
    """All uses of a parameter of `size` entries as one part."""
    if len(parts) == 1:
        return parts[0]
    together = Several(parts, size, room.memory)
    if not room.reserve(together.records * size * dtype.itemsize):
        return together
    return Kept(together.instantiate(0, together.records, dtype))


def squared_norms_of(parts: Sequence[Part]) -> list[Tensor]:
    """Upper bounds of squared norms, which add up to those of all parts; small kept gradients are measured together."""
    small: list[Tensor] = []
    norms: list[Tensor] = []
    for part in parts:
        if isinstance(part, Kept) and part.squared is None and part.gradients[:1].numel() <= _SMALL:
            small.append(part.gradients[..., None].flatten(1))
        else:
            norms.append(part.squared_norms())
    if small:
        norms.append(squared_norms(torch.cat(small, dim=1)))
    return norms


def absolute_norms(part: Part, size: int, memory: int) -> Tensor:
    """Upper bounds of the L1 norms, in float64: an error of e in L2 norm is at most e √size in L1 norm."""
    spans = _spans(part.records, size, memory)
    sums = torch.cat([absolute_sums(part.instantiate(a, b, torch.float64)) for a, b in spans])
    terms, reach = part.reach()
    return sums.add_(reach, alpha=2 * gamma(terms) * size**0.5)


def gram_is_cheaper(steps: int, fan_in: int, fan_out: int) -> bool:
    """Whether 2T²(d + p) products in float64 cost less than writing a gradient once and reading it twice."""
    return 4 * steps * steps * (fan_in + fan_out) < 3 * fan_in * fan_out * _FLOPS_A_FLOAT


def _measured(parts: Sequence[Part], size: int, memory: int) -> Tensor:
    """Upper bounds of the squared norms of the sum of parts, computed in float64 in spans of records, not kept.

    Guarantee: at least the real squared norm. Why: an entry is a sum of n products in float64, so the gradient is off
    by at most γ_n m in norm (`Part.reach`), which is added to the norm.
    """
    together = Several(parts, size, memory)
    spans = _spans(together.records, size, memory)
    squared = torch.cat([squared_norms(together.instantiate(a, b, torch.float64)) for a, b in spans])
    terms, reach = together.reach()
    return squared.sqrt_().add_(reach, alpha=2 * gamma(terms)).square_().mul_(1 + gamma(4))


def _spans(records: int, size: int, memory: int) -> Iterator[tuple[int, int]]:
    """Runs of records of which `size` float64 numbers each fit into `memory`; at least one, also without records."""
    if records == 0:
        yield 0, 0
    yield from _steps(records, max(1, memory // (8 * max(1, size))))


def _steps(records: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, records, step):
        yield start, min(start + step, records)
