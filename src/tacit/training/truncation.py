"""How often a Poisson sample is too large for a batch of a fixed size.

A training that cuts such samples is another one than that which is priced only when it cuts one. So it is at most that
probability away in statistical distance, at each step, which a plan puts into its events as slack.
Source: Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, Scalable DP-SGD: Shuffling vs. Poisson Subsampling.
"""

from __future__ import annotations

import math


def log2_exceeding(trials: int, probability: float, most: int) -> float:
    """log2 of an upper bound of the probability that a binomial number is above `most`."""
    if most >= trials:
        return -math.inf
    from scipy.stats import binom  # 0.4 s, for plans with such a batch only

    return float(binom.logsf(most, trials, probability)) / math.log(2) + 1e-6  # what scipy may round


def smallest_size(trials: int, probability: float, log2_most: float) -> int:
    """The smallest size of a batch that a binomial number exceeds with at most the probability 2^log2_most."""
    low, high = 0, trials  # `high` is never exceeded
    while low < high:
        middle = (low + high) // 2
        if log2_exceeding(trials, probability, middle) <= log2_most:
            high = middle
        else:
            low = middle + 1
    return high
