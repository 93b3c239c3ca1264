"""What the parties of a regression on shares agree on before it begins."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal

from tacit.kinds.vertical_logistic.protocol import batches
from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.shared import fourier
from tacit.lockstep.schedule import Schedule

Model = Literal["logistic", "linear"]
HARMONICS = (30, 60)
REACH = 64.0  # largest label of a linear regression, in absolute value: standardise it


@dataclass(frozen=True)
class Terms:
    """The same at every party and at the dealer; `agreed` tells them apart.

    Args:
        parties: those that have features, in the order of their columns. The last one receives the dealer's words.
        dealer: the party without data; empty for two parties that have none (`two_party`).
        active: the one of `parties` that has the labels and, in the end, the intercept.
        rates: the learning rate of each epoch.
        order_seeds: the seed of each epoch's order of rows.
        outputs: 1, or the number of classes, one against the rest.
        weighted: rows count by their class: the active gives a weight for each row, and a step has one more opening.
        held_out: fraction of the rows that only figures are made of.
        figures: when a histogram of held-out scores is opened to the active.
        patience: epochs without a lower loss after which the training ends; needs figures of each epoch.
        mean_bound: what the mean of |x| over any batch may reach in any column; by default 16, or more for batches
            below 256 rows.
        buckets: of the histogram, a power of two.
    """

    parties: tuple[str, ...]
    dealer: str
    active: str
    rows: int
    rates: tuple[float, ...]
    order_seeds: tuple[int, ...]
    batch: int = 512
    l2: float = 0.0
    model: Model = "logistic"
    outputs: int = 1
    harmonics: int = 60
    weighted: bool = False
    seed: int = 0
    held_out: float = 0.2
    figures: Literal["epoch", "end", "never"] = "end"
    patience: int | None = None
    mean_bound: float | None = None
    buckets: int = 256

    def __post_init__(self) -> None:
        names = (*self.parties, self.dealer)
        if len(self.parties) < 2 or len(set(names)) != len(names) or (not self.dealer and len(self.parties) != 2):
            raise ValueError(
                f"a regression on shares needs two parties, or two or more and a dealer, got {', '.join(names)}"
            )
        if self.active not in self.parties:
            raise ValueError(f"the active {self.active} is none of the parties {', '.join(self.parties)}")
        if not self.rates or len(self.rates) != len(self.order_seeds):
            raise ValueError(
                f"{len(self.rates)} learning rates and {len(self.order_seeds)} seeds of orders: give one of each for "
                "each epoch"
            )
        if self.harmonics not in HARMONICS:
            raise ValueError(f"harmonics is {self.harmonics}: take one of {', '.join(map(str, HARMONICS))}")
        if self.outputs < 1 or (self.model == "linear" and self.weighted):
            raise ValueError(
                f"a {self.model} regression of {self.outputs} outputs{' with class weights' * self.weighted}: outputs "
                "must be 1 or more, and class weights belong to a logistic regression"
            )
        if not 2 <= self.rows < 1 << 32 or self.batch < 2:
            raise ValueError(f"{self.rows} rows in batches of {self.batch}: give at least 2, and fewer than 2^32")
        if self.patience is not None and (self.figures != "epoch" or self.held_out <= 0):
            raise ValueError("patience needs rows held out and figures of each epoch: set held_out and figures: epoch")
        if self.buckets & (self.buckets - 1) or not 16 <= self.buckets <= 1024:
            raise ValueError(f"buckets is {self.buckets}: take a power of two from 16 to 1024")

    @cached_property
    def split(self) -> tuple[Rows, Rows]:
        """(training rows, held-out rows), each in ascending order."""
        return batches.hold_out(self.rows, self.held_out, self.seed)

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows train, and how many are held out."""
        return len(self.split[0]), len(self.split[1])

    @cached_property
    def schedule(self) -> Schedule:
        """Which of the training rows each step takes."""
        rows, epochs = self.counts[0], len(self.rates)
        steps = batches.steps(rows, self.batch)
        least, larger = divmod(rows, steps)  # so many batches have one row more

        def cut(step: int) -> slice:
            first = step * least + min(step, larger)
            return slice(first, first + least + (step < larger))

        return Schedule(rows, epochs, steps, lambda epoch: batches.order(rows, self.order_seeds[epoch]), cut)

    @property
    def largest_batch(self) -> int:
        return batches.largest(self.counts[0], self.batch)

    @property
    def column_bound(self) -> float:
        """What the mean of |x| over any batch may reach in any column."""
        return max(16.0, 4096.0 / self.largest_batch) if self.mean_bound is None else self.mean_bound

    @property
    def own_words(self) -> int:
        """Words that the active opens under masks in addition to its features: weights of rows, labels for the loss."""
        loss = self.model == "logistic" and self.figures != "never" and self.counts[1] > 0
        return self.rows * (self.weighted + self.outputs * loss)

    def evaluates(self, position: int) -> bool:
        """Whether figures follow once so many steps are done."""
        if not self.counts[1] or self.figures == "never":
            return False
        return position == self.schedule.total or (self.figures == "epoch" and position % self.schedule.steps == 0)

    def agreed(self) -> bytes:
        """What all parties compare before they begin: these terms, and constants that differ in no bit."""
        said = json.dumps(asdict(self), sort_keys=True).encode()
        return hashlib.sha256(said + fourier.fingerprint(self.harmonics)).digest()
