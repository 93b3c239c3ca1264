"""Gradients of owners: weighted sums of the gradients of their records, as parts that are measured, clipped and added.

The norm of a sum is not known from the norms of its terms. Where a part holds factors, as that of a linear layer does,
the records of an owner are further positions of one sequence, and the same Gram products give the norm; gradients that
are kept are added up. All others are instantiated in float64, some owners at a time, and not kept.

Guarantee: as for records, with the weighted sum of an owner's recorded gradients in place of a record's gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from tacit.training.margins import gamma, squared_norms
from tacit.training.recorded import Kept, Outer, Part, Rows, Shared, runs

_PADDED = 4  # times the records, up to which the records of owners are padded to equal numbers


@dataclass(frozen=True, slots=True)
class Gathered:
    """The gradients of owners, whose records come one after the other: Σ weight_j times the gradient of record j."""

    parts: Sequence[Part]  # one, of all records
    weights: Tensor  # [records]
    starts: tuple[int, ...]  # the first record of each owner, and the end
    memory: int  # bytes that gradients held at once may take
    size: int  # of one gradient

    @property
    def records(self) -> int:
        return len(self.starts) - 1

    def squared_norms(self) -> Tensor:
        """As `recorded.measured`: what float64 may have rounded is added to the norm."""
        rows = max(1, self._longest()) * self.size
        cut = runs(self.records, max(1, self.memory // (8 * max(1, rows))))
        squared = torch.cat([squared_norms(self.instantiate(a, b, torch.float64)) for a, b in cut])
        terms, reach = self.reach()
        return squared.sqrt_().add_(reach, alpha=2 * gamma(terms)).square_().mul_(1 + gamma(4))

    def instantiate(self, start: int, stop: int, dtype: torch.dtype) -> Tensor:
        low, high = self.starts[start], self.starts[stop]
        rows = self.parts[0].instantiate(low, high, dtype).mul(self.weights[low:high, None].to(dtype))
        return rows.new_zeros(stop - start, rows.shape[1]).index_add_(0, self._owners()[low:high] - start, rows)

    def reach(self) -> tuple[int, Tensor]:
        terms, reach = self.parts[0].reach()
        weighted = reach.to(torch.float64) * self.weights.abs().to(torch.float64)
        total = weighted.new_zeros(self.records).index_add_(0, self._owners(), weighted)
        return (terms + 1) * max(1, self._longest()), total

    def add_to(self, total: Tensor, factors: Tensor) -> None:
        own = factors[self._owners()] * self.weights.to(factors.dtype)
        own = own * (own.abs() >= torch.finfo(own.dtype).tiny)  # below it, rounding is not relative
        self.parts[0].add_to(total, own)

    def _owners(self) -> Tensor:
        return owners_of(self.starts, self.weights.device)

    def _longest(self) -> int:
        return max((end - start for start, end in pairwise(self.starts)), default=0)


def owners_of(starts: Sequence[int], device: torch.device) -> Tensor:
    """The owner of each record."""
    lengths = torch.tensor([end - start for start, end in pairwise(starts)], device=device, dtype=torch.int64)
    return torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)


def gathered(part: Part, starts: tuple[int, ...], weights: Tensor, size: int, memory: int) -> Part:
    """The part of owners that belongs to one of records, in the form that is cheapest to measure."""
    owners, count = owners_of(starts, weights.device), len(starts) - 1
    match part:
        case Kept():
            rows = part.gradients * _column(weights, part.gradients)
            return Kept(rows.new_zeros(count, *rows.shape[1:]).index_add_(0, owners, rows), order=part.order)
        case Shared():
            rows = part.gradients * _column(weights, part.gradients)
            return replace(part, gradients=rows.new_zeros(count, *rows.shape[1:]).index_add_(0, owners, rows))
        case Rows():
            return _rows(part, owners, count, weights)
        case Outer() if count * max(end - start for start, end in pairwise(starts)) <= _PADDED * part.records:
            return _outer(part, starts, owners, weights)
    return Gathered([part], weights, starts, memory, size)


def _column(weights: Tensor, like: Tensor) -> Tensor:
    return weights.to(like.dtype).view(-1, *[1] * (like.dim() - 1))


def _rows(part: Rows, owners: Tensor, count: int, weights: Tensor) -> Rows:
    """Rows of an embedding: those of one id are summed over the records of an owner."""
    vocabulary = part.shape[0]
    pairs, places = torch.unique(owners[part.owners] * vocabulary + part.ids, return_inverse=True)
    weighted = part.rows * weights[part.owners, None].to(part.rows.dtype)
    rows = weighted.new_zeros(len(pairs), part.rows.shape[1]).index_add_(0, places, weighted)
    return Rows(count, pairs // vocabulary, pairs % vocabulary, rows, part.shape)


def _outer(part: Outer, starts: tuple[int, ...], owners: Tensor, weights: Tensor) -> Outer:
    """One sequence an owner, as long as those of all its records, and filled up with zeros."""
    count, longest = len(starts) - 1, max(end - start for start, end in pairwise(starts))
    firsts = torch.tensor(starts[:-1], device=owners.device)[owners]
    places = torch.arange(len(owners), device=owners.device) - firsts

    def in_rows(records: Tensor) -> Tensor:
        filled = records.new_zeros(count, longest, *records.shape[1:])
        filled[owners, places] = records
        return filled.flatten(1, 2)

    return Outer(in_rows(part.inputs), in_rows(part.outputs * _column(weights, part.outputs)), part.memory)
