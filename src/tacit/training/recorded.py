"""Recorded gradients: what one use of a parameter in one backward pass contributes, record by record.

A part knows the squared norm of each record's gradient and adds a weighted sum of the gradients. It either keeps the
gradients themselves (`Kept`, and in compact form `Rows`), so that exactly what was measured is added, or keeps their
factors (`Outer`, and `patches.Patches`) and never holds all gradients at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from tacit.training.margins import absolute_sums, gamma, gram_norms, product_norms, squared_norms

_FLOPS_A_FLOAT = 16  # products that a core computes while it moves one float to or from memory
_CACHE = 1 << 19  # floats of gradients that are made at once: near the caches, and enough to keep all threads busy
_SMALL = 1 << 10  # floats up to which the calls cost more than the numbers


class Room(Protocol):
    """Memory for the gradients of single records."""

    memory: int  # bytes that may be used for a moment

    def take(self, like: Tensor, *shape: int) -> Tensor:
        """Memory for gradients that are kept until the pass is over."""

    def scratch(self, like: Tensor, size: int) -> Tensor:
        """Memory of so many numbers for what is used before the next call of this."""

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
    order: tuple[int, ...] | None = None  # which dimension of a gradient is the parameter's first, second and so on
    own: bool = False  # whether nobody else sees the memory, so that more may be added to it

    @property
    def records(self) -> int:
        return int(self.gradients.shape[0])

    def squared_norms(self) -> Tensor:
        return squared_norms(self.gradients) if self.squared is None else self.squared

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        gradients = self.in_order()[start:stop].to(dtype)
        return gradients[..., None].flatten(1)  # a parameter may be a single number, without a dimension

    def in_order(self) -> Tensor:
        """The same memory with the dimensions as the parameter has them."""
        if self.order is None:
            return self.gradients
        return self.gradients.permute(0, *(1 + place for place in self.order))

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
            return measured([self], fan_in * fan_out, self.memory)
        size = steps * (fan_in + fan_out) + 2 * steps * steps
        norms = [gram_norms(self.inputs[a:b], self.outputs[a:b]) for a, b in spans(self.records, size, self.memory)]
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

    def keep_over(self, spare: Tensor) -> Kept:
        """The gradients themselves, written over `spare`, which is one of the factors: no memory of their own.

        Some records at a time, of which both factors were read; their norms are measured while they are in the caches.
        """
        (records, _, fan_in), fan_out = self.inputs.shape, self.outputs.shape[2]
        size = fan_in * fan_out
        rows = spare.view(records, -1)[:, :size]
        step = max(1, min(records, _CACHE // size))
        made = spare.new_empty(step, fan_out, fan_in)
        norms = []
        for a, b in runs(records, step):
            torch.bmm(self.outputs[a:b].transpose(1, 2), self.inputs[a:b], out=made[: b - a])
            norms.append(squared_norms(made[: b - a]))
            rows[a:b] = made[: b - a].flatten(1)
        return Kept(rows, torch.cat(norms), own=True)


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

    def add_each_to(self, gradients: Tensor) -> None:
        """Add to each record's gradient in a row of its own: [B, size]."""
        found = gradients.view(self.records, *self.shape)
        found[self.owners, self.ids] += self.rows.to(gradients.dtype)  # each pair is there once


@dataclass(frozen=True, slots=True)
class Shared:
    """The weight of an embedding of which all records take the same rows: gradients [B, n, d] of n different ids."""

    gradients: Tensor
    ids: Tensor  # [n]
    shape: tuple[int, int]

    @property
    def records(self) -> int:
        return int(self.gradients.shape[0])

    def squared_norms(self) -> Tensor:
        return squared_norms(self.gradients)

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        dense = self.gradients.new_zeros((stop - start, *self.shape), dtype=dtype)
        dense[:, self.ids] = self.gradients[start:stop].to(dtype)
        return dense.flatten(1)

    def reach(self) -> tuple[int, Tensor]:
        return 1, self.squared_norms().sqrt_()

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        summed = self.gradients.flatten(1).t().mv(factors).view(self.gradients.shape[1:])
        total.index_add_(0, self.ids, summed)


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
        return measured(self.parts, self.size, self.memory)

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


@dataclass(frozen=True, slots=True)
class Stacked:
    """The gradients of one parameter over several backward passes, whose records come one after the other."""

    parts: Sequence[Part]

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)

    def squared_norms(self) -> Tensor:
        return torch.cat([part.squared_norms() for part in self.parts])

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        found, before = list[Tensor](), 0
        for part in self.parts:
            low, high = (min(max(0, end - before), part.records) for end in (start, stop))
            if high > low or not found:
                found.append(part.instantiate(low, high, dtype))
            before += part.records
        return torch.cat(found)

    def reach(self) -> tuple[int, Tensor]:
        reaches = [part.reach() for part in self.parts]
        return max(terms for terms, _ in reaches), torch.cat([reach for _, reach in reaches])

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        sizes = [part.records for part in self.parts]
        for part, own in zip(self.parts, factors.split(sizes), strict=True):
            part.add_to(total, own)


def stack(parts: Sequence[Part | None], sizes: Sequence[int], size: int) -> Part | None:
    """What several passes of `sizes` records recorded of a parameter of `size` entries; None where no one did."""
    like = next((each for part in parts if part is not None for each in tensors_of(part)), None)
    if like is None:
        return None
    # One row of zeros serves all records of a pass that did not reach the parameter.
    return Stacked([
        Kept(like.new_zeros(1, size).expand(records, size)) if part is None else part
        for part, records in zip(parts, sizes, strict=True)
    ])  # fmt: skip


def tensors_of(part: Part) -> Iterator[Tensor]:
    """The numbers that a part holds."""
    kept: Any = part
    for field in fields(kept):
        value = getattr(part, field.name)
        if isinstance(value, Tensor) and value.is_floating_point():
            yield value
        elif isinstance(value, list | tuple) and any(is_dataclass(inner) for inner in value):
            for inner in value:
                yield from tensors_of(inner)


def widened(part: Part, dtype: torch.dtype) -> Part:
    """The part with all its numbers in a longer format, exactly."""
    changed: dict[str, Any] = {}
    kept: Any = part
    for field in fields(kept):
        value = getattr(part, field.name)
        if isinstance(value, Tensor) and value.is_floating_point():
            changed[field.name] = value.to(torch.promote_types(value.dtype, dtype))
        elif isinstance(value, list | tuple) and any(is_dataclass(inner) for inner in value):
            changed[field.name] = [widened(inner, dtype) for inner in value]
    return cast(Part, replace(kept, **changed))


def join(parts: Sequence[Part], size: int, dtype: torch.dtype, room: Room) -> Part:
    """All uses of a parameter of `size` entries as one part."""
    if len(parts) == 1:
        return parts[0]
    kept = next((part for part in parts if isinstance(part, Kept) and part.own), None)
    if kept is not None and all(part is kept or isinstance(part, Rows) for part in parts):
        # Of tied weights: a product's and, for the ids, a few rows. Noted versions are those of what layers were given.
        gradients = kept.in_order().data
        for part in parts:
            if isinstance(part, Rows):
                part.add_each_to(gradients)
        return replace(kept, squared=None)
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
    cut = spans(part.records, size, memory)
    sums = torch.cat([absolute_sums(part.instantiate(a, b, torch.float64)) for a, b in cut])
    terms, reach = part.reach()
    return sums.add_(reach, alpha=2 * gamma(terms) * size**0.5)


def gram_is_cheaper(steps: int, fan_in: int, fan_out: int) -> bool:
    """Whether 2T²(d + p) products in float64 cost less than writing a gradient once and reading it twice."""
    return 4 * steps * steps * (fan_in + fan_out) < 3 * fan_in * fan_out * _FLOPS_A_FLOAT


def measured(parts: Sequence[Part], size: int, memory: int) -> Tensor:
    """Upper bounds of the squared norms of the sum of parts, computed in float64 in spans of records, not kept.

    Guarantee: at least the real squared norm. Why: an entry is a sum of n products in float64, so the gradient is off
    by at most γ_n m in norm (`Part.reach`), which is added to the norm.
    """
    together = Several(parts, size, memory)
    cut = spans(together.records, size, memory)
    squared = torch.cat([squared_norms(together.instantiate(a, b, torch.float64)) for a, b in cut])
    terms, reach = together.reach()
    return squared.sqrt_().add_(reach, alpha=2 * gamma(terms)).square_().mul_(1 + gamma(4))


def spans(records: int, size: int, memory: int) -> Iterator[tuple[int, int]]:
    """Runs of records of which `size` float64 numbers each fit into `memory`; at least one, also without records."""
    if records == 0:
        yield 0, 0
    yield from runs(records, max(1, memory // (8 * max(1, size))))


def runs(records: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, records, step):
        yield start, min(start + step, records)
