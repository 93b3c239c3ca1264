"""One training in several processes: each rank takes its part of every sample, and all take the same noisy step.

    torch.distributed.init_process_group("gloo", timeout=timedelta(minutes=2))      # `torchrun` says who is who
    model, optimizer, loader = plan.attach(model, optimizer, data, distributed=True)

`data` is the same whole dataset on every rank. All ranks draw the same sample of it, from a key to which each of them
adds 32 bytes of its operating system, and rank r of w takes each w-th record of the sample, or each w-th owner with
all its records. A rank clips its records, and the sums of all ranks are added up. Floating-point noise is drawn once
for each number: every rank has a part of the vector that it fills with noise before its first gradient. Exact noise is
drawn by rank 0 for the whole sum.

Before an exchange the ranks meet: each says where it is, and digests of what must be alike. So ranks that are apart
stop before anything of a sample is added up, and a rank that raises an error tells the others.

Guarantee: that of the same training in one process, for all models together. In a sample is each unit with the
    probability of the plan, in one rank only; noise of the plan's multiplier is in what is released, once.
Assumes: ranks are one trust domain. Sums without noise, and the key of the samples, pass between them as torch sends
    them, which is without encryption: take one machine, or a network that only they can read. Record i is the same
    record on all ranks, of which some are compared: one in two places might be in a sample twice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor, nn

from tacit.errors import PeerAway, PeerError
from tacit.randomness import secure_rng, shared_rng
from tacit.training.checks import refuse_replicas

_SEED_WORDS = 4  # of 64 bits
_COMPARED = 16  # records
_WORDS = 8  # of a message
_PLACES = ("attach", "the end of attach", "a step", "the end of an epoch", "an error")
_JOIN, _ATTACHED, _STEP, _EPOCH, _FAILED = range(len(_PLACES))


class NoiseSource(Protocol):
    def normal(self, flat: Tensor, deviation: float) -> None: ...


class Alone:
    """The only process of a training."""

    rank, world = 0, 1

    def refuse_others(self) -> None:
        """ValueError if there are other processes that are not a part of the training."""
        refuse_replicas()

    def sampling(self) -> Generator:
        """The generator from which samples are drawn."""
        return secure_rng()

    def step(self, facts: Mapping[str, bytes], counts: Sequence[int]) -> list[int]:
        """All ranks have taken their part of a sample: the sums of their counts."""
        return list(counts)

    def epoch(self, model: nn.Module) -> None:
        """An epoch is over; ValueError if the models are not the same to the last bit."""

    def failed(self) -> None:
        """This rank raises an error, of which the others are told."""

    def add_up(self, numbers: Tensor) -> None:
        """Replace numbers by their sums over all ranks, the same on all."""

    def share(self, numbers: Tensor) -> None:
        """Replace numbers by those of rank 0."""


class Ranks(Alone):
    """The processes of torch's process group. To be made on all of them."""

    def __init__(self) -> None:
        self._group = torch.distributed
        _refuse_unfit_group()
        self.rank, self.world = self._group.get_rank(), self._group.get_world_size()
        self._told = False  # whether the others know already that this rank cannot continue
        seeds = self._meet(_JOIN, [int(each) for each in np.frombuffer(os.urandom(8 * _SEED_WORDS), np.int64)])
        self._secret = np.array(seeds, np.int64).tobytes()

    def refuse_others(self) -> None:
        if not self._group.is_initialized() or self._group.get_world_size() != self.world:
            raise ValueError("the process group was changed after attach: attach again, with all ranks of the new one")

    def sampling(self) -> Generator:
        return shared_rng(self._secret)

    def some(self, records: int) -> tuple[list[int], int]:
        """Places of records that all ranks compare, and a seed of 32 bits."""
        drawn = shared_rng(b"records" + self._secret)
        return drawn.integers(0, records, _COMPARED).tolist(), int(drawn.integers(0, 2**32))

    def attached(self, facts: Mapping[str, bytes]) -> None:
        """All ranks have attached; ValueError where something is not alike."""
        self._compare(_ATTACHED, facts)

    def step(self, facts: Mapping[str, bytes], counts: Sequence[int]) -> list[int]:
        rows = self._compare(_STEP, facts, counts)
        return [sum(column) for column in zip(*rows, strict=True)]

    def epoch(self, model: nn.Module) -> None:
        self._compare(_EPOCH, {"the weights of the model after an epoch": weights(model)})

    def failed(self) -> None:
        if self._told:
            return
        try:
            self._meet(_FAILED, [])
        except (PeerError, ValueError):  # the others have errors of their own
            return

    def add_up(self, numbers: Tensor) -> None:
        self._exchange(lambda: self._group.all_reduce(numbers))

    def share(self, numbers: Tensor) -> None:
        self._exchange(lambda: self._group.broadcast(numbers, 0))

    def _compare(self, place: int, facts: Mapping[str, bytes], counts: Sequence[int] = ()) -> list[list[int]]:
        """Meet with digests of what must be alike, and return the counts of each rank."""
        digests = [int.from_bytes(hashlib.blake2b(each).digest()[:8], "big", signed=True) for each in facts.values()]
        rows = self._meet(place, [*digests, *counts])
        for column, name in enumerate(facts):
            if len({row[column] for row in rows}) > 1:
                self._told = True
                raise ValueError(f"the {self.world} ranks differ in {name}: {_REMEDIES.get(name, _DIVERGED)}")
        return [row[len(facts) : len(facts) + len(counts)] for row in rows]

    def _meet(self, place: int, words: Sequence[int]) -> list[list[int]]:
        """What each rank says. An error if one of them is somewhere else, on all ranks."""
        row = torch.tensor([place, *words, *[0] * (_WORDS - 1 - len(words))], dtype=torch.int64)
        rows = [torch.empty_like(row) for _ in range(self.world)]
        self._exchange(lambda: self._group.all_gather(rows, row))
        found = [each.tolist() for each in rows]
        places = [each[0] for each in found]
        if place != _FAILED and _FAILED in places:
            self._told = True
            raise PeerError(
                f"rank {places.index(_FAILED)} raised an error, which its own output shows, and without it there is no "
                "step: nothing of the sample at hand is released"
            )
        if len(set(places)) > 1:
            self._told = True
            listed = ", ".join(f"rank {rank} is at {_PLACES[each]}" for rank, each in enumerate(places))
            raise ValueError(f"the ranks are not at the same place ({listed}): run the same loop on all of them")
        self._told = place == _FAILED
        return [each[1:] for each in found]

    def _exchange(self, call: Any) -> None:
        try:
            call()
        except RuntimeError as error:
            self._told = True
            raise PeerAway(
                f"another of the {self.world} ranks ended or did not answer in time, and without it there is no step: "
                "nothing of the sample at hand is released. Start all of them again, and restore the last state"
            ) from error


class OwnPart:
    """Noise in this rank's part of a vector, and zeros elsewhere: noise of all ranks together is there once."""

    def __init__(self, part: slice, source: NoiseSource | None) -> None:
        self._part, self._source = part, source

    def normal(self, flat: Tensor, deviation: float) -> None:
        flat[: self._part.start].zero_()
        flat[self._part.stop :].zero_()
        if self._source is not None:
            self._source.normal(flat[self._part], deviation)


def part_of(ranks: Alone, size: int) -> slice:
    """The numbers of a vector that this rank adds noise to."""
    return slice(ranks.rank * size // ranks.world, (ranks.rank + 1) * size // ranks.world)


def weights(model: nn.Module) -> bytes:
    """A digest of all numbers that a model stores, with their names and shapes."""
    digest = hashlib.blake2b()
    for name, tensor in model.state_dict().items():
        if isinstance(tensor, Tensor):
            numbers = tensor.detach().cpu().contiguous()
            digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
            digest.update(numbers.view(-1).view(torch.uint8).numpy().data)
    return digest.digest()


def structure(model: nn.Module) -> bytes:
    """The names, shapes and formats of what is trained."""
    trained = [(n, str(p.dtype), list(p.shape)) for n, p in model.named_parameters() if p.requires_grad]
    return json.dumps([type(model).__name__, trained]).encode()


def plainly(value: Any) -> bytes:
    """Settings as bytes that are equal where the settings are."""
    return json.dumps(value, sort_keys=True, default=_plain).encode()


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor | np.ndarray) else repr(value)


_REMEDIES = {
    "the plan": "make the same plan on all; `records` counts the whole dataset, which every rank is given",
    "the model": "make the same model on all, with the same layers frozen",
    "the weights of the model": "call torch.manual_seed with one number on all before the model is made, or load one "
    "file on all",
    "the records": "give the same dataset in the same order on all: sort the names of files, and split or shuffle it "
    "by a generator of one seed",
    "the owners of records": "give the same dataset and the same owners on all",
    "the settings of attach": "give the same reduction, loss_scale, check, leave_out and budgets of monitors on all",
    "the settings of the optimizer": "make the same optimizer on all. A scheduler that steps with each batch steps "
    "more often on a rank with more batches: call it once an epoch, or in optimizer.register_step_post_hook",
    "the steps that were taken": "restore the same state on all, and run the same loop",
    "the sample": "restore the same state on all, and iterate over the loader on all",
}
_DIVERGED = (
    "something other than the optimizer moved them, or a hook draws random numbers: do the same on all ranks, and run "
    "them on machines and releases that are alike"
)


def _refuse_unfit_group() -> None:
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        raise ValueError(
            "distributed=True needs the processes to know each other: call "
            "torch.distributed.init_process_group('gloo') before attach, and start them with torchrun"
        )
    if "gloo" not in str(distributed.get_backend()):
        raise ValueError(
            f"the process group is of {distributed.get_backend()}, and ranks train on CPUs: call "
            "init_process_group('gloo')"
        )
