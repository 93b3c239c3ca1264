"""Where batches come from: records of a dataset, read by index and collated, in place of the user's loader."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from tacit.training.generators import Generators, seeded
from tacit.training.plan import Plan
from tacit.training.workers import USED, Workers

Indices = NDArray[np.int64]
Items = list[Any] | Indices  # records as the dataset gives them; of tensors, only where they are

_COLLATION = (
    "the collation changes other records of a batch with one of them: it mixes records (mixup, cutmix), how many "
    "random numbers it draws depends on them, or it draws from a generator of its own. Collate each record by itself, "
    "and draw random numbers in the dataset's __getitem__"
)
_DEEPEST = 8  # an object may hold itself
_UNUSED: dict[str, Any] = {  # arguments of a DataLoader that nothing here would use, with their defaults
    "num_workers": 0,
    "pin_memory": False,
    "pin_memory_device": "",
    "timeout": 0,
    "worker_init_fn": None,
    "multiprocessing_context": None,
    "prefetch_factor": None,
    "persistent_workers": False,
    "generator": None,
    "in_order": True,
}


@dataclass(frozen=True, slots=True)
class Source:
    """Records of a dataset, and how they become a batch."""

    read: Callable[[Indices], Items]
    collate: Callable[[Any], Any]
    own: bool = False  # whether the collation is the user's: it may mix records, or change those that it is given

    def batch(self, items: Items) -> Any:
        if not self.own:
            return self.collate(items)
        return self.collate([_fresh(item) for item in items])

    def changed(self, items: Items, places: Indices, collating: Generators) -> Any:
        """The batch with the records `places` of `items`; None if a batch of the same size has other shapes.

        ValueError if a record is changed by the collation where another one was overwritten. `collating`: where the
        generators stood when `items` were collated.
        """
        chosen = items[places] if isinstance(items, np.ndarray) else [items[place] for place in places]
        if not self.own:
            return self.collate(chosen)
        collating.restore()
        again = self.batch(chosen)
        if len(places) < len(items):
            return again
        collating.restore()
        return again if _kept(self.batch(items), again, places) else None


def _kept(whole: Any, again: Any, places: Indices) -> bool:
    """Whether two batches have the same shapes. Where they do, the records that are in both must be the same."""
    before, after = list(_leaves(whole)), list(_leaves(again))
    if [(path, _shape(leaf)) for path, leaf in before] != [(path, _shape(leaf)) for path, leaf in after]:
        return False
    same = torch.from_numpy(np.flatnonzero(places == np.arange(len(places))))
    for (_, one), (_, two) in zip(before, after, strict=True):
        if isinstance(one, Tensor) and one.dim() and len(one) == len(places):
            one, two = one[same.to(one.device)], two[same.to(two.device)]
            if not bool(((one == two) | (one.isnan() & two.isnan())).all()):
                raise ValueError(_COLLATION)
    return True


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """What a batch holds, with where it is: inside of mappings, sequences and objects of a class of one's own."""
    inside: Iterable[tuple[Any, Any]] | None = None
    if isinstance(value, Mapping):
        inside = value.items()
    elif isinstance(value, list | tuple):
        inside = enumerate(value)
    elif isinstance(value, Tensor | np.ndarray | type) or len(path) >= _DEEPEST:
        pass
    elif dataclasses.is_dataclass(value):  # it may have slots in place of a dictionary
        inside = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    elif hasattr(value, "__dict__"):
        inside = vars(value).items()
    if inside is None:
        yield path, value
        return
    for key, each in inside:
        yield from _leaves(each, (*path, key))


def digest(data: Any, indices: Iterable[int], seed: int) -> bytes:
    """What some records of a dataset hold: equal in processes in which they are the same.

    Random changes of a record come out alike, from the default generators. A dataset that draws from a generator of
    its own, so that a record is another one when it is read again, has no digest: b"".
    """
    data, before, found = data.dataset if isinstance(data, DataLoader) else data, Generators.now(), hashlib.blake2b()
    try:
        for index in indices:
            twice = []
            for _ in range(2):
                seeded(seed)
                twice.append(b"".join(map(_bytes, _leaves(data[int(index)]))))
            if twice[0] != twice[1]:
                return b""
            found.update(hashlib.blake2b(twice[0]).digest())
    finally:
        before.restore()
    return found.digest()


def _bytes(leaf: tuple[tuple[Any, ...], Any]) -> bytes:
    """Of objects that are neither numbers nor texts only the type."""
    path, value = leaf
    if isinstance(value, Tensor) and value.layout == torch.strided:
        value = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        return repr((path, value.dtype, value.shape)).encode() + value.tobytes()
    plain = isinstance(value, int | float | complex | str | bytes | None)
    return repr((path, value if plain else type(value).__name__)).encode()


def _fresh(item: Any) -> Any:
    """A record that a collation may change in place: the same one is collated again when it is shown again."""
    if isinstance(item, Tensor):
        return item.clone()
    if isinstance(item, np.ndarray):
        return item.copy()
    if type(item) is tuple:
        return tuple(map(_fresh, item))
    if isinstance(item, MutableMapping | list):
        made = copy.copy(item)
        for key in list(made) if isinstance(made, MutableMapping) else range(len(made)):
            made[key] = _fresh(made[key])
        return made
    return item


def _shape(leaf: Any) -> Any:
    return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, Tensor | np.ndarray) else type(leaf)


def source(plan: Plan, data: Any) -> Source:
    """The records of `data`, a dataset or a DataLoader of one. ValueError where it asks for what is not done here."""
    collate: Callable[[list[Any]], Any] = default_collate
    workers = None
    if isinstance(data, DataLoader):
        _refuse_unused(plan, data)
        collate = data.collate_fn or default_collate
        workers = Workers(data) if data.num_workers else None
        data = data.dataset
    if isinstance(data, IterableDataset) or not hasattr(data, "__getitem__") or not hasattr(data, "__len__"):
        raise ValueError(
            "the data must have a length and be read by index, because a sample is drawn from all of it: make a "
            "dataset with __len__ and __getitem__ of it, such as torch.utils.data.TensorDataset"
        )
    if len(data) != plan.records:
        raise ValueError(
            f"the data has {len(data)} records, the plan is for {plan.records}: make it with records=len(data) (and "
            "put tensors into a TensorDataset)"
        )
    own = collate is not default_collate
    if workers is not None:
        return Source(workers.read, collate, own)
    if not own and _of_tensors(data):
        tensors: tuple[Tensor, ...] = data.tensors
        return Source(lambda i: i, lambda i: [tensor.index_select(0, torch.from_numpy(i)) for tensor in tensors])
    return Source(lambda indices: [data[int(index)] for index in indices], collate, own)


def _refuse_unused(plan: Plan, loader: DataLoader[Any]) -> None:
    """ValueError for arguments that would be ignored: samples are the plan's, and are read in this process."""
    if loader.drop_last:
        raise ValueError("the loader drops records (drop_last): give the dataset itself, or drop_last=False")
    iterated = isinstance(loader.dataset, IterableDataset)  # refused by its own sentence
    sampler = loader.sampler
    plain = type(sampler) is SequentialSampler or (type(sampler) is RandomSampler and _each_once(sampler))
    if not iterated and not (plain and type(loader.batch_sampler) in (BatchSampler, type(None))):
        kind = type(loader.batch_sampler if plain else sampler).__name__
        raise ValueError(f"the loader samples by {kind}, the plan by itself: give the dataset itself")
    given = loader.batch_size
    if not iterated and (given is None or given not in (1, plan.batch, plan.physical)):  # 1 by default
        raise ValueError(
            f"the loader has batch_size={given}, the plan batch={plan.batch}: give the loader the same "
            "size, or give the dataset itself"
        )
    used = (
        USED
        if loader.num_workers and not (loader.collate_fn is default_collate and _of_tensors(loader.dataset))
        else ()
    )
    given_names = [name for name, default in _UNUSED.items() if getattr(loader, name, default) != default]
    unused = [name for name in given_names if name not in used]
    if unused:
        raise ValueError(
            f"the loader's {unused[0]}={getattr(loader, unused[0])!r} would be ignored, because the plan draws samples "
            "and reads them as they are drawn: leave it out, or give the dataset itself"
        )


def _of_tensors(data: Any) -> bool:
    """Whether rows of tensors are all that is read."""
    return getattr(type(data), "__getitem__", None) is TensorDataset.__getitem__


def _each_once(sampler: RandomSampler) -> bool:
    return not sampler.replacement and sampler.num_samples == len(sampler.data_source)
