"""Whether records keep apart: the gradient of a record must not depend on the other records of its batch.

Clipping rests on that. A weighted mean divides by the weights of all records, a contrastive loss compares them, mixup
adds them: one record more then changes what all others add, by more than the clipping norm. The gradients of one batch
do not show it. So the same batch is shown again, of the same size and with the generators of torch, numpy and Python
put back, with one record overwritten by a copy of another one: the norms of all others must stay as they were, and so
must the sum of their directions, because an absolute error has gradients that turn around and keep their norms. The
record of the largest norm overwrites that of the smallest: labels that count for more, or not at all, have such norms.
Then a random one overwrites three quarters of them: a statistic over the batch moves little with one record, and not
at all if it is the same for both. A sum in place of a mean does not show in that, nor that a record counts by its place
in the batch: at first a quarter of the batch is shown by itself, one place further up. With dropout its norms differ
for another reason, so that parts of several sizes are shown, until enough records tell whether their norms follow the
sizes.

The first batch is looked at, and later ones at secret times: one of the batches 1 to 9, one of 10 to 99, one of 100 to
999, and one of each thousand from then on. If one of the last batches before such a time has a norm that is twice as
unusual as any that was looked at, it is taken at once: rare labels are in few batches. Of 1000 batches or more, below
1% are shown again.

What is shown again adds nothing to the model, and the training is the same as without it, bit by bit.
Guarantee: none. A mistake is found if it shows in a batch that is looked at, by more than 1e-4 of a norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from tacit.randomness import secure_rng
from tacit.training.generators import Generators

Places = NDArray[np.int64]  # what is shown: which record of the batch stands at each place
Weighted = Callable[[Tensor], Tensor]  # the sum of the records' gradients of the pass at hand, each times a factor

MIXED = (
    "the gradient of a record changes with the other records of its batch, so clipping does not bound what one record "
    "changes: the loss or the model mixes records (a weighted mean, ignored labels, a comparison, a statistic over the "
    "batch, or as many random numbers as the records ask for). Compute a value for each record and take the mean of "
    "those over the batch; for cross entropy with ignore_index or weight: tacit.training.record_loss(logits, labels, "
    "...).mean()"
)
UNREPEATABLE = (
    "the same batch gave other gradients when it was shown again, with the generators of torch, numpy and Python put "
    "back, so it cannot be told whether records keep apart: draw from torch's default generator, count optimizer.steps "
    "in place of batches, keep nothing of a batch for later ones, and do what follows a step (clamp weights, train a "
    "generator) in optimizer.register_step_post_hook; or attach(..., check=False)"
)
_ROUNDING = 1e-4  # of a norm, among as many records: the kernels are the same, and rows of a product stay apart
_LEAST = 1e-6  # of the largest norm: below it a norm may be rounding alone
_NOTHING = 1e-10  # a norm of gradients that are all 0 is bounded by less
_ROUNDING_OF_SIZES = 1e-2  # of norms in batches of different sizes
_ENOUGH = 64  # records that were shown in parts with other random numbers: more tell no more
_CLEAR = 5.0  # deviations
_UNUSUAL = 2.0
_WINDOW = 32  # batches before a secret time in which an unusual one is taken instead
_FIRST_BLOCK, _LONGEST_BLOCK = 10, 1000


class Watch:
    """When a batch is shown again, and as what. The optimizer tells it the norms, the loader asks what to show.

    `rng`: of the secret times and the random pairs; others than the operating system's are for tests.
    """

    def __init__(self, rng: Generator | None = None) -> None:
        self.unseen = False  # whether no record could be overwritten
        self.after: Generators | None = None  # where generators stand when nothing more of a batch is shown
        self._rng = rng or secure_rng()
        self._batches = 0
        self._first, self._done, self._resized = True, False, False
        self._random = False  # whether random numbers were drawn while the batch was first shown
        self._logs: list[tuple[float, Tensor]] = []  # of ratios: of a batch and a part, and of their records' norms
        self._checked = (1.0, 1.0)  # how unusual what was looked at is: the largest norm, and the smallest
        self._norms: Tensor | None = None
        self._factors: Tensor | None = None  # 1 / norm of records that stay in their places, 0 of the others
        self._directions: Tensor | None = None  # the sum of their gradients, each over its norm
        self._wanted: list[list[Places]] = []  # showings to come, each with alternatives
        self._suspect = self._swapped = False
        self._block(1, _FIRST_BLOCK)

    def _block(self, start: int, end: int) -> None:
        self._end = end
        self._latest = int(self._rng.integers(start, end))
        self._from = max(start, self._latest - _WINDOW + 1)
        self._done = False

    @property
    def armed(self) -> bool:
        """Whether the next batch may be shown again."""
        return self._first or (not self._done and self._batches >= self._from)

    def asks(self) -> Places | None:
        """What is to be shown next, if anything."""
        return self._wanted[0][0] if self._wanted else None

    def look(self, norms: Tensor, weighted: Weighted | None = None, *, resize: bool = False) -> None:
        """A batch was shown for the first time: decide whether it is shown again. `resize`: in another size too."""
        self.forget()
        number, armed = self._batches, self.armed
        self._batches += 1
        if armed and len(norms) > 1:
            unusual = _unusual(norms)
            more = any(new >= _UNUSUAL * old for new, old in zip(unusual, self._checked, strict=True))
            if self._first or number >= self._latest or more:
                self._norms = norms.clone()
                self._wanted = self._showings(norms, resize or not self._resized)
                self._finished = unusual, self._first, number
                if weighted is not None:
                    self._factors = _units(norms, [each[0] for each in self._wanted])
                    self._directions = weighted(self._factors)
                return
        self._advance()

    def drew(self, random: bool, after: Generators | None = None) -> None:
        """Whether random numbers were drawn while the batch was first shown. If not, one of its parts tells enough."""
        whole, self._random, self.after = self._norms, random, after
        if whole is not None and not random:
            swaps = [showing for showing in self._wanted if len(showing[0]) == len(whole)]
            if len(swaps) < len(self._wanted):
                self._wanted = [*swaps, [np.arange(1, 1 + max(1, len(whole) // 4))]]

    def take(self, norms: Tensor | None, weighted: Weighted | None = None) -> None:
        """What was asked for was shown: ValueError if its norms differ. None where they were not finite."""
        whole, places = self._norms, self._wanted[0][0]
        assert whole is not None  # noqa: S101
        if len(places) < len(whole):
            if norms is None:
                raise ValueError(MIXED)
            self._resize(whole[places], norms, len(whole) / len(places))
        else:
            same = torch.from_numpy(places == np.arange(len(places))).to(whole.device)
            differ = norms is None or _differ(whole[same], norms[same]) or self._turned(same, weighted)
            if self._suspect:
                raise ValueError(UNREPEATABLE if differ else MIXED)
            self._suspect, self._swapped = differ, True
        self._wanted.pop(0)
        if self._suspect:
            self._wanted.insert(0, [np.arange(len(whole))])
        self._settle()

    def skip(self) -> None:
        """What was asked for cannot be shown in the same shapes: take an alternative, if there is one."""
        self._wanted[0].pop(0)
        if not self._wanted[0]:
            self._wanted.pop(0)
        self._settle()

    def leave(self, after: Generators) -> None:
        """Put the generators back to where they stood when the model had moved; to `after` if it was abandoned."""
        (after if self.after is None else self.after).restore()
        self.after = None

    def forget(self) -> None:
        """The sample was abandoned: what was to be shown is not."""
        self._norms, self._wanted = None, []
        self._factors = self._directions = self.after = None
        self._suspect = self._swapped = self.unseen = False

    def _turned(self, same: Tensor, weighted: Weighted | None) -> bool:
        """Whether the sum of directions has changed, where it is of records that are the same."""
        factors, before = self._factors, self._directions
        if weighted is None or factors is None or before is None or bool(factors[~same].any()):
            return False
        return float((weighted(factors) - before).norm()) > _ROUNDING * int((factors > 0).sum())

    def _resize(self, whole: Tensor, part: Tensor, apart: float) -> None:
        """The same records in a batch and in a part of it that is `apart` times smaller."""
        if not self._random:
            scale = float(torch.maximum(whole, part).max())
            if self._norms is None or scale <= max(_NOTHING, _LEAST * float(self._norms.max())):
                return  # a loss that these records do not touch: the norms are bounds of rounding
            self._resized = True
            if bool(((whole - part).abs() <= _ROUNDING_OF_SIZES * scale).all()):
                return
            ratio = float((whole.sum() / part.sum().clamp(min=1e-300)).clamp(min=1e-300))
            raise ValueError(_scaled(apart) if abs(abs(math.log(ratio)) / math.log(apart) - 1) < 0.2 else MIXED)
        there = (whole > 0) & (part > 0)
        self._logs.append((math.log(apart), (whole[there] / part[there]).log()))
        self._resized = sum(len(logs) for _, logs in self._logs) >= _ENOUGH
        if len(self._wanted) == 1 and _follows_sizes(self._logs):
            raise ValueError(_scaled(apart))

    def _settle(self) -> None:
        if self._wanted:
            return
        unusual, first, number = self._finished
        self.unseen = first and not self._swapped
        self._checked = max(unusual[0], self._checked[0]), max(unusual[1], self._checked[1])
        self._first = False
        self._done = not first or number >= self._latest
        self._norms = self._factors = self._directions = None
        self._advance()

    def _advance(self) -> None:
        if self._batches >= self._end:
            self._block(self._end, min(10 * self._end, self._end + _LONGEST_BLOCK))

    def _showings(self, norms: Tensor, resize: bool) -> list[list[Places]]:
        largest, smallest = int(norms.argmax()), int(norms.argmin())
        if largest == smallest:  # all norms are equal
            largest, smallest = 0, 1
        count = len(norms)
        extremes = [_swap(count, largest, smallest), _swap(count, smallest, largest)]
        fewer = [self._overwritten(count, max(1, count * quarters // 4)) for quarters in (3, 2, 1, 0)]
        swaps = [[*extremes, self._overwritten(count, 1)], fewer]
        if not resize:
            return swaps
        cuts = sorted({0, count // 2, 3 * count // 4, 7 * count // 8, count})
        kept = swaps if self._first else [swaps[int(self._rng.integers(2))]]
        return kept + [[np.arange(*ends)] for ends in pairwise(cuts)]

    def _overwritten(self, count: int, many: int) -> Places:
        """A random record in the place of `many` other ones."""
        source, *overwritten = self._rng.choice(count, 1 + many, replace=False)
        places = np.arange(count)
        places[overwritten] = source
        return places


def _units(norms: Tensor, showings: list[Places]) -> Tensor:
    """1 / norm of the records that stay in their places whenever the whole batch is shown, 0 of the others."""
    count = len(norms)
    kept = [torch.from_numpy(places == np.arange(count)) for places in showings if len(places) == count]
    chosen = torch.stack(kept).all(0).to(norms.device) & (norms > _ROUNDING * norms.max())
    return torch.where(chosen, 1 / norms, 0.0)


def _swap(count: int, source: int, overwritten: int) -> Places:
    places = np.arange(count)
    places[overwritten] = source
    return places


def _follows_sizes(found: list[tuple[float, Tensor]]) -> bool:
    """Whether the norms of records in parts of a batch follow the sizes of the parts, as with a wrong reduction.

    With a right one, the norms of a record among many and among few differ by chance alone, and either may be the
    larger: the logarithms of their ratios are symmetric around 0.
    """
    relative = torch.cat([logs / apart for apart, logs in found])
    if len(relative) == 0 or not bool(relative.any()):
        return False
    mean = float(relative.mean())
    deviations = float(relative.sum() / relative.square().sum().sqrt())
    one_way = all(float(logs.sum()) * mean > 0 for _, logs in found if len(logs))
    return abs(deviations) >= _CLEAR and 0.6 < abs(mean) < 1.4 and one_way


def _scaled(apart: float) -> str:
    return (
        f"the gradients of the same records differ by the factor {apart:.3g} in batches that differ by it in size: the "
        "loss is summed over records and attach expects their mean, or the other way round. Take the mean, or "
        "attach(..., reduction='sum')"
    )


def _differ(before: Tensor, after: Tensor) -> bool:
    largest = torch.maximum(before, after)
    return bool(((before - after).abs() > _ROUNDING * largest + _LEAST * largest.max()).any())


def _unusual(norms: Tensor) -> tuple[float, float]:
    """How far the largest and the smallest norm are from the median, as ratios."""
    middle, largest, smallest = float(norms.median()), float(norms.max()), float(norms.min())
    if largest == 0:
        return 1.0, 1.0
    return largest / middle if middle else math.inf, middle / smallest if smallest else math.inf
