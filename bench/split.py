"""EmbeddingDP against the seed's way, and a step of a split network against one of the same network in one piece.

EmbeddingDP, on one core: from float32 activations to packed bits for the wire. The seed's way is that of MindSpore
Federated: one float64 uniform an activation, compared with p or q; its bits are packed too, so that both end alike.
A split step: both parties in this process, messages as the bytes that a network would carry, nothing protected; at most
1.2 times the step in one piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.measure import CPU, WALL, Options, Row, Side, interleave, rate_row, time_row
from tacit.kinds.split.embedding_dp import EmbeddingDP
from tacit.randomness import secure_rng

EPS = (None, 0.0, 1.0, 5.0, 10.0)
LARGEST_RATIO = 1.2
STEPS = 4  # in a call: a training begins and ends with a few messages more


def run(options: Options) -> list[Row]:
    from bench.split_networks import cnn, gpt  # needs torch

    rows = []
    left = len(EPS) + 2
    count = 1 << 20 if options.quick else 1 << 23
    activations = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    rng, uniform = secure_rng(), np.random.default_rng(1)
    for eps in EPS:
        protection = EmbeddingDP(eps)
        pair = interleave(
            Side(lambda protection=protection: protection.pack(activations, rng), work=count),
            None if eps is None else Side(lambda eps=eps: seeds_way(activations, eps, uniform), work=count),
            options.budget.share(left),
            clock=CPU,
        )
        name = "EmbeddingDP, 1 bit only" if eps is None else f"EmbeddingDP, eps {eps:g}"
        rows.append(rate_row(name, pair, unit="activations", floor=150e6, judged="ours"))
        if eps is not None:
            rows.append(rate_row(f"{name}, over the seed's way", pair, unit="activations", floor=4))
        left -= 1
    rows += _step_rows("CNN 28 x 28, batch 256", *cnn(STEPS), options, 2)
    if options.quick:
        rows += _step_rows("GPT, 1 layer, d 128, 8 x 128", *gpt(STEPS, layers=1, batch=8), options, 1)
    else:
        rows += _step_rows("GPT, 4 layers, d 128, 32 x 128", *gpt(STEPS), options, 1)
    return rows


def seeds_way(activations: Any, eps: float, uniform: np.random.Generator) -> Any:
    """One float64 uniform an activation."""
    p = math.exp(eps / 2) / (math.exp(eps / 2) + 1)
    bits = activations > 0
    return np.packbits(uniform.random(activations.shape) < np.where(bits, p, 1 - p))


def _step_rows(
    name: str, split: Callable[[], object], whole: Callable[[], object], options: Options, left: int
) -> list[Row]:
    """In time of the processor, which is judged, and by the wall clock: alike on a machine that does nothing else."""
    rows = []
    for clock, words, floor in ((CPU, "", None if options.quick else 1 / LARGEST_RATIO), (WALL, ", wall clock", None)):
        budget = options.budget.share(2 * left if clock is CPU else 2 * left - 1)
        rounds = 5 if options.quick else 9
        pair = interleave(Side(split, STEPS), Side(whole, STEPS), budget, rounds=rounds, summary=min, clock=clock)
        rows.append(time_row(f"a split step, {name}{words}", pair, floor=floor))
    return rows
