"""Embeddings: rows of a weight by the ids of records, or by ids that all records share, such as positions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.training.arguments import Arguments
from tacit.training.layers import Forward, Layer
from tacit.training.precision import exact_backward, full
from tacit.training.recorded import Part, Rows, Shared


class _Embedding(torch.autograd.Function):  # type: ignore[misc]
    """`owners`: the record of each id, in a row; without them record i is row i of `ids`."""

    @staticmethod
    def forward(
        ctx: Any, ids: Tensor, anchor: Tensor, layer: Layer, weight: Tensor, owners: Tensor | None, records: int
    ) -> Tensor:
        ctx.layer, ctx.records = layer, records
        ctx.save_for_backward(ids, owners)
        return F.embedding(ids, weight)

    @staticmethod
    @exact_backward
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, ...]:
        ids, owners = ctx.saved_tensors
        gradient = full(gradient)
        module, records = ctx.layer.module, ctx.records
        shape, padding = tuple(module.weight.shape), module.padding_idx
        if owners is None and records > 1 and ids.stride(0) == 0:
            ctx.layer.add("weight", _shared_part(ids[0], gradient, shape, padding))
        else:
            ctx.layer.add("weight", _part(ids, gradient, shape, padding, owners, records))
        return None, None, None, None, None, None


def _part(
    ids: Tensor, gradient: Tensor, shape: tuple[int, int], padding_idx: int | None, owners: Tensor | None, records: int
) -> Part:
    """The rows of all records, summed where a record holds an id more than once."""
    vocabulary, width = shape
    if owners is None:
        owners = torch.arange(records, device=ids.device).view(-1, *[1] * (ids.dim() - 1))
    pairs = (owners * vocabulary + ids).reshape(-1)
    gradient = gradient.reshape(-1, width)
    if padding_idx is not None:
        chosen = (ids != padding_idx).reshape(-1)
        pairs, gradient = pairs[chosen], gradient[chosen]
    pairs, places = torch.unique(pairs, return_inverse=True)
    rows = gradient.new_zeros(len(pairs), width).index_add_(0, places, gradient)
    return Rows(records, pairs // vocabulary, pairs % vocabulary, rows, shape)


def _shared_part(ids: Tensor, gradient: Tensor, shape: tuple[int, int], padding_idx: int | None) -> Part:
    """The same where all records hold the same ids."""
    records = len(gradient)
    ids, gradient = ids.reshape(-1), gradient.reshape(records, -1, shape[1])
    if padding_idx is not None:
        chosen = ids != padding_idx
        ids, gradient = ids[chosen], gradient[:, chosen]
    found, places = torch.unique(ids, return_inverse=True)
    if len(found) == len(ids):
        return Shared(gradient.contiguous(), ids, shape)
    summed = gradient.new_zeros(records, len(found), shape[1]).index_add_(1, places, gradient)
    return Shared(summed, found, shape)


def look_up(layer: Layer, ids: Tensor, owners: Tensor | None = None, records: int | None = None) -> Tensor:
    """The rows of the layer's weight, recorded. Record i is row i of `ids`, or `owners` says whose each id is."""
    records = len(ids) if records is None else records
    return _Embedding.apply(ids, layer.recorder.anchor, layer, layer.value("weight"), owners, records)


def embedding(layer: Layer) -> Forward:
    """nn.Embedding. Ids that all records share become a row for each of them, and so does what is returned."""
    _refuse_unfit(layer)
    arguments = Arguments(layer.name)
    layer.recorder.arguments.append(arguments)

    def forward(ids: Tensor) -> Tensor:
        if ids.dim() < 1:
            raise ValueError(f"{layer.name}: ids without a dimension of records: add it first")
        return look_up(layer, _for_each(ids, layer.recorder.expected, arguments))

    return forward


def shared_ids(layer: Layer, forward: Forward) -> Forward:
    """A forward whose first argument is ids: it gets a row of them for each record if all records share them."""
    arguments = Arguments(layer.name)
    layer.recorder.arguments.append(arguments)

    def for_each(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], Tensor) and args[0].dim() > 0:
            args = (_for_each(args[0], layer.recorder.expected, arguments), *args[1:])
        return forward(*args, **kwargs)

    return for_each


def _for_each(ids: Tensor, records: int | None, arguments: Arguments) -> Tensor:
    """One row of ids, [1, T], or a list of positions, [T], repeated for the records that the model was given."""
    if records is None:
        if ids.dim() == 1 and len(ids) > 1:
            arguments.unknown = arguments.name
        return ids
    if ids.dim() > 1:
        return ids.expand(records, *ids.shape[1:]) if len(ids) == 1 else ids
    if arguments.of_records(("", 0), len(ids), records) or len(ids) == 1:
        return ids
    return ids.expand(records, len(ids))


def embedding_bag(layer: Layer) -> Forward:
    """nn.EmbeddingBag, whose bags are the records: rows of ids, or a list of ids with the offset of each bag."""
    _refuse_unfit(layer)
    module: Any = layer.module

    def forward(ids: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        owners, bags = _owners(layer, ids, offsets)
        if per_sample_weights is not None and (module.mode != "sum" or per_sample_weights.shape != ids.shape):
            raise ValueError(f"{layer.name}: per_sample_weights are for mode 'sum', one for each id")
        flat = ids.reshape(-1)
        rows = look_up(layer, flat, owners, bags)
        if module.padding_idx is not None:
            counted = flat != module.padding_idx
            rows, owners = rows[counted], owners[counted]
        if per_sample_weights is not None:
            weights = per_sample_weights.reshape(-1)
            rows = rows * (weights if module.padding_idx is None else weights[counted])[:, None]
        empty = rows.new_zeros(bags, rows.shape[1])
        if module.mode == "max":
            return empty.scatter_reduce(0, owners[:, None].expand_as(rows), rows, "amax", include_self=False)
        summed = empty.index_add(0, owners, rows)
        if module.mode == "sum":
            return summed
        return summed / torch.bincount(owners, minlength=bags).clamp(min=1)[:, None]

    return forward


def _owners(layer: Layer, ids: Tensor, offsets: Tensor | None) -> tuple[Tensor, int]:
    """The bag of each id, and how many bags there are."""
    if ids.dim() == 2 and offsets is None:
        return torch.arange(len(ids), device=ids.device).repeat_interleave(ids.shape[1]), len(ids)
    if ids.dim() != 1 or offsets is None or offsets.dim() != 1:
        raise ValueError(f"{layer.name}: give ids [records, n], or a list of ids with the offsets of the records")
    bags = len(offsets) - bool(layer.module.include_last_offset)
    ends = torch.cat([offsets[1:bags], offsets.new_tensor([len(ids)])]) if bags else offsets[:0]
    if layer.module.include_last_offset:
        ends = offsets[1:]
    counts = ends - offsets[:bags]
    first = int(offsets[0]) if len(offsets) else 0
    if first != 0 or bool((counts < 0).any()) or int(counts.sum()) != len(ids):
        raise ValueError(f"{layer.name}: offsets must begin at 0, not fall, and end with the ids")
    return torch.arange(bags, device=ids.device).repeat_interleave(counts), bags


def _refuse_unfit(layer: Layer) -> None:
    if layer.module.max_norm is not None or layer.module.sparse or layer.module.scale_grad_by_freq:
        raise ValueError(f"{layer.name}: embeddings with max_norm, sparse or scale_grad_by_freq are not supported")
