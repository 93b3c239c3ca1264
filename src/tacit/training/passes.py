"""What backward passes record, until it is used."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from weakref import ref

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointFunction

from tacit.training.arguments import Arguments
from tacit.training.left_out import without
from tacit.training.margins import gamma
from tacit.training.owner_gradients import gathered
from tacit.training.recorded import Part, absolute_norms, join, squared_norms_of, stack, tensors_of, widened


class Pass:
    """What the backward passes since the last step recorded. The recorder of all layers.

    Several passes are of different records: each has its own, which come one after the other.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], names: Sequence[str], memory: int) -> None:
        self.memory = memory // 4  # of what is computed in spans of records and not kept
        self.anchor = torch.zeros(0, device=parameters[0].device, requires_grad=True)
        self.expected: int | None = None
        self.arguments: list[Arguments] = []
        self._index = {parameter: i for i, parameter in enumerate(parameters)}
        self._names = names
        self._keep = memory
        self._shelf: list[Tensor] = []  # memory of earlier passes, in the order in which it was taken
        self._scratch = torch.empty(0)
        self.clear()

    def clear(self) -> None:
        self._parts: list[list[Part]] = [[] for _ in self._names]
        self._earlier: list[list[Part | None]] = []
        self._joined: list[Part | None] | None = None
        self._held: list[tuple[ref[Tensor], int]] = []  # what parts hold, and how often it was written before
        self.sizes: list[int] = []  # of the passes, in records
        self.owners: int | None = None  # whose gradients the records' were gathered to
        self._first = ""
        self._kept = 0
        self._taken = 0
        self._task = -1
        if sum(each.nbytes for each in self._shelf) > _with_room(self._keep):
            self._shelf = []  # layers took it in another order each time, so that each place got that of the largest

    def take(self, like: Tensor, *shape: int) -> Tensor:
        """Memory for gradients that are kept until the pass is cleared. Fresh memory would cost as much as its use."""
        size, place = math.prod(shape), self._taken
        self._taken += 1
        if place == len(self._shelf):
            self._shelf.append(like.new_empty(0))
        found = self._shelf[place] = _large_enough(self._shelf[place], like, size)
        return found[:size].view(shape)

    def scratch(self, like: Tensor, size: int) -> Tensor:
        """Memory of so many numbers for what is used before the next call of this."""
        self._scratch = _large_enough(self._scratch, like, size)
        return self._scratch[:size]

    def reserve(self, size: int) -> bool:
        """Whether `size` more bytes of gradients may be kept in this pass; if so they count as kept."""
        if self._kept + size > self._keep:
            return False
        self._kept += size
        return True

    def takes(self, parameter: Tensor) -> bool:
        return parameter in self._index

    def add(self, name: str, parameter: nn.Parameter, part: Part) -> None:
        task = torch._C._current_graph_task_id()
        if task != self._task:
            self._begin(part.records, name, task)
        if part.records != self.sizes[-1]:
            raise ValueError(
                f"{name} saw {part.records} records and {self._first} saw {self.sizes[-1]}: the first dimension of "
                "each layer's input must be that of the records (for inputs that all records share, such as positions, "
                "expand them to one row a record)"
            )
        wide = torch.promote_types(parameter.dtype, torch.float32)
        kept = part if _is_wide(part, wide) else widened(part, wide)
        self._held += [(ref(each), each._version) for each in tensors_of(kept)]
        self._parts[self._index[parameter]].append(kept)

    def _begin(self, records: int, name: str, task: int) -> None:
        """Another backward pass: what the last one recorded is complete."""
        if self._joined is not None:
            raise RuntimeError(
                "a backward pass after the last one was looked at: call optimizer.step() after the passes of a batch"
            )
        _refuse_reentrant()
        if self.sizes:
            self._earlier.append(self._join_last())
            self._parts = [[] for _ in self._names]
        self.sizes.append(records)
        self._first, self._task = name, task

    @property
    def records(self) -> int:
        return sum(self.sizes)

    def counts(self, like: Tensor) -> Tensor:
        """For each record how many were in its pass."""
        sizes = torch.tensor(self.sizes, device=like.device)
        return sizes.repeat_interleave(sizes).to(torch.float64)

    def join(self) -> list[Part | None]:
        """One part for each parameter, None where no gradient reached it."""
        self._refuse_overwritten()
        if self._joined is None:
            last, self._parts = self._join_last(), []
            if not self._earlier:
                self._joined = last
            else:
                passes = zip(*self._earlier, last, strict=True)
                pairs = zip(passes, self._index, strict=True)
                self._joined = [stack(each, self.sizes, parameter.numel()) for each, parameter in pairs]
        return self._joined

    def gather(self, starts: tuple[int, ...], weights: Tensor) -> None:
        """From here on gradients are those of owners: weighted sums over their records, see `owner_gradients`."""
        pairs = zip(self.join(), self._index, strict=True)
        self._joined = [
            None if part is None else gathered(part, starts, weights, parameter.numel(), self.memory)
            for part, parameter in pairs
        ]
        self.owners = len(starts) - 1

    def leave_out(self, chosen: Tensor) -> None:
        """From here on the gradients of the records, or owners, at which `chosen` is true are 0."""
        self._joined = [None if part is None else without(part, chosen) for part in self.join()]

    def _refuse_overwritten(self) -> None:
        """A part holds the inputs of a layer as they were given. One buffer for several passes would give the records
        of all passes the inputs of the last one."""
        held = [(tensor(), version) for tensor, version in self._held]
        if any(tensor is not None and tensor._version != version for tensor, version in held):
            raise RuntimeError(
                "what a layer was given was overwritten between the backward pass and optimizer.step(): step first, "
                "and give each of several passes a tensor of its own"
            )

    def _join_last(self) -> list[Part | None]:
        wide = [(torch.promote_types(each.dtype, torch.float32), each.numel()) for each in self._index]
        pairs = zip(wide, self._parts, strict=True)
        return [join(parts, size, dtype, self) if parts else None for (dtype, size), parts in pairs]

    def totals(self, groups: Sequence[int]) -> Tensor:
        """Upper bounds of the records' L2 norms over each group of parameters, [groups, records], in float64."""
        pairs = list(zip(groups, self.join(), strict=True))
        parts = [[part for own, part in pairs if own == group and part is not None] for group in range(max(groups) + 1)]
        like = next(part for each in parts for part in each).squared_norms()
        rows = []
        for each in parts:
            sums = squared_norms_of(each) if each else [torch.zeros_like(like)]
            rows.append(torch.stack(sums).sum(0).mul_(1 + 2 * gamma(len(sums) + 4)).sqrt_())
        return torch.stack(rows)

    def total(self, order: int) -> Tensor:
        """Upper bounds of the records' norms, in float64."""
        present = [(p, part) for p, part in zip(self._index, self.join(), strict=True) if part is not None]
        if order == 1:
            sums = [absolute_norms(part, parameter.numel(), self.memory) for parameter, part in present]
        else:
            sums = squared_norms_of([part for _, part in present])
        total = torch.stack(sums).sum(0).mul_(1 + 2 * gamma(len(sums) + 4))
        return total if order == 1 else total.sqrt_()


def _large_enough(memory: Tensor, like: Tensor, size: int) -> Tensor:
    if memory.numel() >= size and memory.dtype == like.dtype and memory.device == like.device:
        return memory
    return like.new_empty(_with_room(size))


def _with_room(size: int) -> int:
    """More by an eighth: samples differ in size."""
    return size + size // 8


def _refuse_reentrant() -> None:
    """ValueError in a backward pass inside another one: its records would be taken for others than those outside."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code is CheckpointFunction.backward.__code__:
            raise ValueError(
                "layers are checkpointed with use_reentrant=True, which makes a backward pass of its own of each: take "
                "use_reentrant=False, in transformers by gradient_checkpointing_kwargs={'use_reentrant': False}"
            )


def _is_wide(part: Part, wide: torch.dtype) -> bool:
    """Whether no number of a part is shorter than `wide`: those of torch.bfloat16 are, and have no useful margins."""
    return all(each.dtype.itemsize >= wide.itemsize for each in tensors_of(part))
