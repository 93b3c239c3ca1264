"""Canaries: records whose gradient is of an attacker's making, far above the clipping norm and in few coordinates.

    Planted(engine)         rewrites what chosen records leave in the engine: nothing, or one coordinate of some tensors

The record is one of the file's own, and goes through the file's own model and loss. What a layer then hands to the
engine is rewritten for that record, in the form in which the layer hands it over: factors of a linear layer or a
convolution, rows of an embedding, gradients. Norms, clipping, sums and noise are the engine's, on the paths that they
take in a run. Not covered: whether a layer's rule records the true gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.training.engine import Engine
from tacit.training.margins import squared_norms
from tacit.training.patches import Patches
from tacit.training.recorded import Kept, Outer, Part, Rows, Shared

OWN = -2  # a record keeps its own gradient
NOTHING = -1  # its gradient is zero
Spots = NDArray[np.int64]  # for each record OWN, NOTHING, or a coordinate of all trained parameters in order; or a row
# of them for each record, at most one in a tensor


class Planted:
    """Listens to the recorder of an engine, and rewrites what it is told."""

    def __init__(self, engine: Engine) -> None:
        self._mean = engine._mean
        self._add = engine._pass.add
        self._index = {id(parameter): place for place, parameter in enumerate(engine.parameters)}
        self._starts = np.cumsum([0, *(parameter.numel() for parameter in engine.parameters)])
        self.aim(np.empty(0, dtype=np.int64), np.empty(0))
        engine._pass.add = self._rewrite  # type: ignore[method-assign]

    def aim(self, spots: Spots, lengths: NDArray[np.float64]) -> None:
        """For the records of the next backward pass, in order: where their gradients are, and how long in each place,
        with a sign."""
        self._spots, self._lengths = spots if spots.ndim == 2 else spots[:, None], lengths
        self._seen: set[int] = set()

    def _rewrite(self, name: str, parameter: nn.Parameter, part: Part) -> None:
        if len(self._spots) != part.records:
            raise ValueError(f"{name} saw {part.records} records, the batch has {len(self._spots)}")
        place = self._index[id(parameter)]
        start, stop = self._starts[place], self._starts[place + 1]
        owners, which = np.nonzero((self._spots >= start) & (self._spots < stop))
        if place in self._seen:  # a parameter that is used again: the canary is in its first use
            owners, which = owners[:0], which[:0]
        self._seen.add(place)
        lengths = self._lengths[owners] / (part.records if self._mean else 1)
        made = torch.from_numpy((self._spots != OWN).all(axis=1))
        shape = tuple(parameter.shape)
        self._add(name, parameter, planted(part, made, owners, self._spots[owners, which] - start, lengths, shape))


def planted(
    part: Part, made: Tensor, owners: Spots, entries: Spots, lengths: NDArray[np.float64], shape: Sequence[int]
) -> Part:
    """The part in which records that are `made` have a zero gradient, but for one entry of those in `owners`."""
    who = torch.from_numpy(owners)
    match part:
        case Kept():
            return _kept(part, made, who, entries, torch.from_numpy(lengths))
        case Outer():
            inputs, outputs = _cleared(part.inputs, made), _cleared(part.outputs, made)
            rows, columns = np.divmod(entries, part.inputs.shape[2])
            inputs[who, 0, torch.from_numpy(columns)] = 1.0
            outputs[who, 0, torch.from_numpy(rows)] = torch.from_numpy(lengths).to(outputs)
            squared = None if part.squared is None else squared_norms(outputs.flatten(1))
            return replace(part, inputs=inputs, outputs=outputs, squared=squared)
        case Rows():
            return _rows(part, made, who, entries, lengths)
        case Shared():
            return _shared(part, made, who, entries, lengths)
        case Patches():
            return _patches(part, made, owners, entries, lengths, shape)
    raise ValueError(f"gradients recorded as {type(part).__name__} cannot hold a canary")


def _cleared(recorded: Tensor, made: Tensor) -> Tensor:
    cleared = recorded.clone(memory_format=torch.contiguous_format)
    cleared[made] = 0.0
    return cleared


def _kept(part: Kept, made: Tensor, owners: Tensor, entries: Spots, lengths: Tensor) -> Kept:
    gradients = _cleared(part.gradients, made)
    axes = range(gradients.dim() - 1) if part.order is None else part.order
    ordered = gradients.permute(0, *(1 + axis for axis in axes))  # a view, with the parameter's dimensions in order
    shape = tuple(ordered.shape[1:])  # empty for a single number
    places = [torch.from_numpy(np.asarray(each)) for each in np.unravel_index(entries, shape)] if shape else []
    ordered[(owners, *places)] = lengths.to(gradients)
    return replace(part, gradients=gradients, squared=None if part.squared is None else squared_norms(gradients))


def _rows(part: Rows, made: Tensor, owners: Tensor, entries: Spots, lengths: NDArray[np.float64]) -> Rows:
    kept = ~made[part.owners]
    ids, columns = np.divmod(entries, part.shape[1])
    rows = part.rows.new_zeros(len(owners), part.shape[1])
    rows[torch.arange(len(owners)), torch.from_numpy(columns)] = torch.from_numpy(lengths).to(rows)
    all_owners, order = torch.sort(torch.cat([part.owners[kept], owners]), stable=True)
    all_ids = torch.cat([part.ids[kept], torch.from_numpy(ids)])[order]
    return replace(part, owners=all_owners, ids=all_ids, rows=torch.cat([part.rows[kept], rows])[order])


def _shared(part: Shared, made: Tensor, owners: Tensor, entries: Spots, lengths: NDArray[np.float64]) -> Shared:
    """Ids of canaries that no record holds get a row too, of zeros for all others."""
    ids, columns = np.divmod(entries, part.shape[1])
    wanted = torch.from_numpy(ids)
    new = torch.unique(wanted[~torch.isin(wanted, part.ids)])
    all_ids = torch.cat([part.ids, new])
    zeros = part.gradients.new_zeros(part.records, len(new), part.shape[1])
    gradients = torch.cat([_cleared(part.gradients, made), zeros], dim=1)
    places = (all_ids[None, :] == wanted[:, None]).int().argmax(1)
    gradients[owners, places, torch.from_numpy(columns)] = torch.from_numpy(lengths).to(gradients)
    return replace(part, gradients=gradients, ids=all_ids)


def _patches(
    part: Patches,
    made: Tensor,
    owners: Spots,
    entries: Spots,
    lengths: NDArray[np.float64],
    shape: Sequence[int],
) -> Patches:
    """One pixel under one place of the kernel. A place of the kernel that only ever sees padding gets nothing."""
    images, outputs, walk = _cleared(part.images, made), _cleared(part.outputs, made), part.geometry
    whole = (shape[0], shape[1], *walk.kernel)
    for owner, entry, length in zip(owners, entries, lengths, strict=True):
        feature, channel, *under = (int(each) for each in np.unravel_index(entry, whole))
        spots = [spot for axis, each in enumerate(under) if (spot := _pixel(part, axis, each)) is not None]
        if len(spots) < len(under):
            continue
        group = feature // (shape[0] // walk.groups)
        images[(owner, group * shape[1] + channel, *(pixel for _, pixel in spots))] = 1.0
        outputs[(owner, feature, *(position for position, _ in spots))] = float(length)
    return replace(part, images=images, outputs=outputs)


def _pixel(part: Patches, axis: int, under: int) -> tuple[int, int] | None:
    """(position, pixel): where this place of the kernel lies on a pixel of the image."""
    walk = part.geometry
    for position in range(part.outputs.shape[2 + axis]):
        pixel = position * walk.stride[axis] + under * walk.dilation[axis] - walk.padding[axis]
        if 0 <= pixel < part.images.shape[2 + axis]:
            return position, pixel
    return None
