"""The weight of a convolution in one, two or three directions, from its images and the gradients of its outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.training.margins import gamma, gram_norms, squared_norms
from tacit.training.recorded import Kept, Room, gram_is_cheaper, measured, runs, spans

_CACHE = 1 << 19  # floats of patches held at once: near the caches, and enough to keep all threads busy
_LANES = 16  # channels that torch's compiled convolutions of float32 take together
_WORTH_A_CALL = 1 << 18  # floats that a call measures
_NARROW = 16  # output channels below which a product is faster as [channels, positions] × [positions, patch]


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a convolution walks: stride, padding and dilation in each of its two or three directions, and groups."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def pad(self, images: Tensor) -> Tensor:
        sides = [side for each in reversed(self.padding) for side in (each, each)]
        return F.pad(images, sides) if any(sides) else images

    def volumes(self, images: Tensor, positions: tuple[int, ...]) -> Tensor:
        """The inputs under the kernel at each position, in any number of directions, as `patches`: one copy."""
        images = self.pad(images).contiguous()
        records, channels = images.shape[:2]
        own = images.stride()
        under = [way * each for way, each in zip(self.dilation, own[2:], strict=True)]
        along = [way * each for way, each in zip(self.stride, own[2:], strict=True)]
        shape = (records, channels, *self.kernel, *positions)
        windows = images.as_strided(shape, (*own[:2], *under, *along), images.storage_offset()).contiguous()
        size = channels // self.groups * math.prod(self.kernel)
        return windows.view(records * self.groups, size, math.prod(positions))

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
    """The weight of a convolution, from images [B, c, h, w] and output gradients [B, p, h', w'], or with a depth."""

    images: Tensor
    outputs: Tensor
    geometry: Geometry
    memory: int

    @property
    def records(self) -> int:
        return int(self.images.shape[0])

    def squared_norms(self) -> Tensor:
        groups = self.geometry.groups
        fan_in = self.images.shape[1] // groups * math.prod(self.geometry.kernel)
        fan_out, steps = self.outputs.shape[1] // groups, math.prod(self.outputs.shape[2:])
        if not gram_is_cheaper(steps, fan_in, fan_out):
            return measured([self], (steps + fan_out) * fan_in * groups, self.memory)
        norms = []
        for a, b in spans(self.records, groups * steps * (2 * fan_in + fan_out + 2 * steps), self.memory):
            inputs, outputs = self._factors(a, b, torch.float64)
            norms.append(gram_norms(inputs.transpose(1, 2), outputs.transpose(1, 2)).view(b - a, groups).sum(1))
        return torch.cat(norms).mul_(1 + gamma(groups))

    def _factors(self, start: int, stop: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Inputs [n, d, T] and output gradients [n, p, T], each group of a record on its own."""
        images, outputs = self.images[start:stop].to(dtype), self.outputs[start:stop].to(dtype)
        groups, positions = self.geometry.groups, tuple(outputs.shape[2:])
        by_group = outputs.reshape((stop - start) * groups, outputs.shape[1] // groups, math.prod(positions))
        if len(positions) == 2:
            return self.geometry.patches(images, *positions), by_group
        return self.geometry.volumes(images, positions), by_group

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        inputs, outputs = self._factors(start, stop, dtype)
        gradients = torch.bmm(outputs, inputs.transpose(1, 2))
        return gradients.view(stop - start, self.geometry.groups * gradients.shape[1] * gradients.shape[2])

    def reach(self) -> tuple[int, Tensor]:
        # An input is under the kernel at most once for each of its positions.
        kernel = math.prod(self.geometry.kernel)
        reach = squared_norms(self.images).mul_(squared_norms(self.outputs)).mul_(kernel).sqrt_()
        return math.prod(self.outputs.shape[2:]), reach

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        walk = self.geometry
        images, outputs = self.images, self.outputs
        if images[:1].numel() < outputs[:1].numel():
            images = images * factors.view(-1, *[1] * (images.dim() - 1))
        else:
            outputs = outputs * factors.view(-1, *[1] * (outputs.dim() - 1))
        shape = total if total.dim() == images.dim() else total.unsqueeze(2)
        gradient = torch.ops.aten.convolution_backward(
            outputs, images, shape, None, walk.stride, walk.padding, walk.dilation, False, [0] * len(walk.kernel),
            walk.groups, (False, True, False),
        )[1]  # fmt: skip
        total.add_(gradient.view(total.shape))

    def keep(self, room: Room) -> Kept:
        """The gradients themselves."""
        if self.fits_groups():
            return self.keep_by_groups()
        return self.keep_by_patches(room)

    def fits_groups(self) -> bool:
        """Whether torch's compiled convolutions take these channels without padding them, and there are so many
        positions that copying the patches would cost more than reordering the gradients."""
        channels, features = self.images.shape[1], self.outputs.shape[1]
        return (
            self.records > 0
            and self.geometry.groups == 1
            and self.images.device.type == "cpu"
            and self.images.dtype == torch.float32
            and torch.backends.mkldnn.is_available()
            and channels % _LANES == features % _LANES == 0
            and math.prod(self.outputs.shape[2:]) >= 4 * features
        )

    def keep_by_groups(self) -> Kept:
        """With the records as the groups of one convolution, whose weights have gradients of their own."""
        walk, images, outputs = self.geometry, self.images, self.outputs
        (records, channels), features = images.shape[:2], outputs.shape[1]
        weights = images.new_empty(1).expand(records * features, channels, *walk.kernel)  # only its shape is used
        gradients = torch.ops.aten.convolution_backward(
            outputs.reshape(1, records * features, *outputs.shape[2:]),
            images.reshape(1, records * channels, *images.shape[2:]),
            weights, None, walk.stride, walk.padding, walk.dilation, False, [0] * len(walk.kernel), records,
            (False, True, False),
        )[1]  # fmt: skip
        return Kept(gradients.view(records, -1))

    def keep_by_patches(self, room: Room) -> Kept:
        """By products with patches, of some records at a time because patches are large."""
        walk, outputs, like = self.geometry, self.outputs.flatten(2), self.images
        if len(walk.kernel) == 3:
            size = like.shape[1] * math.prod(walk.kernel) * outputs.shape[2]
            step = max(1, min(self.records, _CACHE // size))
            kept = [self.instantiate(a, b, like.dtype) for a, b in runs(self.records, step)]
            return Kept(torch.cat(kept) if kept else self.instantiate(0, 0, like.dtype))
        images = walk.pad(like)
        (rows, columns), channels, features = walk.kernel, images.shape[1], outputs.shape[1]
        height, width = self.outputs.shape[2:]
        size, positions = channels * rows * columns, height * width
        step = max(1, min(self.records, _CACHE // (size * positions)))
        span = step * size * positions
        if walk.groups == 1 and columns * channels > width:
            gradients = room.take(like, self.records, features, size)
            patches = room.scratch(like, span)
            norms = _Measured(gradients, step)
            for a, b in runs(self.records, step):
                torch.bmm(outputs[a:b], walk.pixels(images[a:b], height, width, patches), out=gradients[a:b])
                norms.take(a, b)
            in_order = gradients.view(-1, features, rows, columns, channels)
            return Kept(in_order, norms.whole(), order=(0, 3, 1, 2))
        ready = replace(walk, padding=(0, 0))
        under_columns = step * channels * columns * images.shape[2] * width
        into = room.scratch(like, under_columns + span).tensor_split((under_columns,))
        if walk.groups == 1 and features >= _NARROW:
            gradients = room.take(like, self.records, size, features)
            norms = _Measured(gradients, step)
            for a, b in runs(self.records, step):
                found = ready.patches(images[a:b], height, width, into)
                torch.bmm(found, outputs[a:b].transpose(1, 2), out=gradients[a:b])
                norms.take(a, b)
            return Kept(gradients, norms.whole(), order=(1, 0))
        gradients = room.take(like, self.records * walk.groups, features // walk.groups, size // walk.groups)
        by_group = outputs.reshape(*gradients.shape[:2], positions)
        for a, b in runs(self.records, step):
            found = ready.patches(images[a:b], height, width, into).transpose(1, 2)
            torch.bmm(
                by_group[a * walk.groups : b * walk.groups], found, out=gradients[a * walk.groups : b * walk.groups]
            )
        return Kept(gradients.view(self.records, features * size // walk.groups))


class _Measured:
    """Squared norms of gradients, taken while some of them are in the caches; not of so few that calls cost more."""

    def __init__(self, gradients: Tensor, step: int) -> None:
        self._gradients = gradients
        self._worth = step * gradients[:1].numel() >= _WORTH_A_CALL
        self._found: list[Tensor] = []

    def take(self, start: int, stop: int) -> None:
        if self._worth:
            self._found.append(squared_norms(self._gradients[start:stop]))

    def whole(self) -> Tensor | None:
        return torch.cat(self._found) if self._found else None
