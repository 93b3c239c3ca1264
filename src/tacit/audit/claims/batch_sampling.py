"""Whether the batches of a loader are Poisson samples: each record in each batch by an independent coin.

    observe(batch_sampler, records, rate)   draws batches of indices, and says what they are

Under Poisson sampling the counts below are binomial, whatever the data. A count that is out of reach for it tells
another sampler apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from tacit.audit.bounds import clopper_pearson

Kind = Literal["poisson", "shuffled", "fixed", "other"]
_SIGNIFICANT = 1e-6  # of all tests together: a Poisson sampler is called another one in one audit of a million
_MOST_STEPS = 5000
_WANTED = 5000  # records times epochs
_FEWEST_EPOCHS = 5
_REMEMBERED = 64  # batches of the first epoch that later ones are compared with


@dataclass(frozen=True, slots=True)
class Sampling:
    """How batches were drawn."""

    kind: Kind
    steps: int  # of an epoch
    epochs: int  # that were observed, at least in part
    rate: float  # of records in a batch
    rate_low: float  # at least, if the sampling is Poisson
    departures: tuple[str, ...]  # from Poisson sampling, each a sentence
    repeats: bool  # whether a record was in one batch several times


def observe(sampler: Iterable[Sequence[int]], records: int, rate: float, confidence: float) -> Sampling:
    """Draw epochs of batches and compare them with Poisson samples of `rate`."""
    steps = len(sampler)  # type: ignore[arg-type]
    window = min(steps, _MOST_STEPS)
    epochs = max(1, min(max(_FEWEST_EPOCHS, -(-_WANTED // records)), _MOST_STEPS // window))
    sizes, times = [], []
    repeats, same = False, True
    first: list[NDArray[np.int64]] = []
    for epoch in range(epochs):
        seen = np.zeros(records, dtype=np.int64)
        for step, batch in enumerate(itertools.islice(iter(sampler), window)):
            indices = np.sort(np.asarray(batch, dtype=np.int64))
            sizes.append(len(indices))
            repeats = repeats or bool((indices[1:] == indices[:-1]).any())
            np.add.at(seen, indices, 1)
            if step < _REMEMBERED and epoch == 0:
                first.append(indices)
            elif step < len(first):
                same = same and np.array_equal(first[step], indices)
        times.append(seen)
    counts = np.concatenate(times)
    departures = _departures(np.asarray(sizes), counts, records, window, rate)
    if repeats:
        departures.append("a record is in one batch several times")
    total, trials = int(sum(sizes)), records * len(sizes)
    kind: Kind = "poisson"
    if departures:
        once = counts.max() <= 1 and not repeats
        kind = "other" if not once else "fixed" if same and epochs > 1 else "shuffled"
    low = clopper_pearson(min(total, trials), trials, confidence)[0]
    return Sampling(kind, steps, epochs, total / trials, low, tuple(departures), repeats)


def _departures(
    sizes: NDArray[np.int64], counts: NDArray[np.int64], records: int, window: int, rate: float
) -> list[str]:
    """Counts that Poisson sampling does not give, each with what it expects."""
    size = binom(records, rate)
    deviation = size.std()
    near = _between(size, records * rate - deviation, records * rate + deviation)
    tests = (
        (
            "records are in several batches of an epoch",
            int((counts > 1).sum()),
            len(counts),
            float(binom.sf(1, window, rate)),
        ),
        (
            "batches are larger than the expected size",
            int((sizes > records * rate).sum()),
            len(sizes),
            float(size.sf(np.floor(records * rate))),
        ),
        (
            "batches are within one deviation of the expected size",
            int((np.abs(sizes - records * rate) <= deviation).sum()),
            len(sizes),
            near,
        ),
    )
    said = []
    for what, seen, of, expected in tests:
        tails = float(binom.cdf(seen, of, expected)), float(binom.sf(seen - 1, of, expected))
        if 2 * min(tails) < _SIGNIFICANT / len(tests):
            said.append(f"{seen / of:.1%} of {what}, and {expected:.1%} under Poisson sampling")
    return [
        sentence.replace("of records", "of the records").replace("of batches", "of the batches") for sentence in said
    ]


def _between(size: object, low: float, high: float) -> float:
    cdf = size.cdf  # type: ignore[attr-defined]
    return float(cdf(np.floor(high)) - cdf(np.ceil(low) - 1))
