"""Canaries at the cut of a split training: the leader's own code and networks, and a loss that is easiest to recognise.

Each record's loss is a large multiple of its scores, plus or minus by a coin: its gradient is far above the clipping
norm, and points one way or the other. The leader clips it, adds noise from the operating system and sends it, as in a
real training; the follower guesses the coin from what arrives. Needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.audit.attacks.mechanisms import Effort, Pair, judged
from tacit.audit.finding import Finding
from tacit.audit.separation import columns_of
from tacit.audit.tradeoff import gaussian_curve
from tacit.dp.claim import Claim
from tacit.dp.gaussian import gaussian_epsilon
from tacit.kinds.split.attacks.recording import at_most, record_cut, without_test
from tacit.kinds.split.common_terms import schedule_of
from tacit.kinds.split.settings import Settings, Simulation
from tacit.kinds.split.task import Ends, Part, Top
from tacit.kinds.split.tensors import GradientNoise

Floats = NDArray[np.float64]
_LARGE = 1e6  # times the scores: the gradient of each record is clipped
_STILL = 1e-9  # learning rate: the networks stay what they are
_MOST_RECORDS = 400
_WIDEST = 512  # numbers of a cut that are scored one by one: as many, evenly spaced


def audit_gradients(
    settings: Settings, parts: Mapping[str, Part], noise: GradientNoise, rng: Generator, effort: Effort
) -> Finding:
    """Audit the gradients of one visit that each follower receives. `samples` are records, over all visits."""
    few = at_most(without_test(parts), _MOST_RECORDS)
    lead = few[settings.leader]
    if not isinstance(lead, Top | Ends):
        raise ValueError(f"{settings.leader} has the part of a follower")
    records = len(lead.train)
    visits = max(1, -(-effort.samples // records))
    asked = _settings(settings, noise, visits)
    coins = rng.integers(0, 2, records)
    few[settings.leader] = replace(lead, train=replace(lead.train, labels=coins), loss=_loss, metrics=None)
    seen: list[tuple[Tensor, ...]] = []
    network: nn.Module = lead.network if isinstance(lead, Top) else lead.head
    hook = network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs))
    try:
        recording = record_cut(asked, few, seeded=False)
    finally:
        hook.remove()
    names = list(settings.followers)
    pairs = [
        _pair(recording.view(name, settings.leader).gradients(), _clean(asked, seen, place, records), coins)
        for place, name in enumerate(names)
    ]
    delta = settings.gradients.delta
    claim = Claim(gaussian_epsilon(noise.noise_multiplier, delta), delta, "record", "replace-one")
    return judged(
        "distinguish two gradients of a record at the cut",
        claim,
        gaussian_curve(noise.noise_multiplier),
        pairs,
        effort,
        gaussian=True,
        names=[f"what {name} receives" for name in names],
    )


def _settings(settings: Settings, noise: GradientNoise, visits: int) -> Settings:
    """The file with so many visits of each record, the noise that it has for its own, and nothing else protected."""
    train = settings.train.model_copy(update={"epochs": visits, "steps": None, "learning_rate": _STILL, "save": None})
    given = settings.gradients.model_copy(update={"noise_multiplier": noise.noise_multiplier, "epsilon": None})
    nothing = {"embedding_dp": None, "label_dp": None, "budget": None, "simulation": Simulation()}
    return settings.model_copy(update={"train": train, "gradients": given, **nothing})


def _loss(scores: Tensor, coins: Tensor) -> Tensor:
    """The mean over records of each one's scores, for or against by its coin."""
    rows = scores.reshape(len(scores), -1)
    weights = torch.linspace(1.0, 2.0, rows.shape[1], dtype=rows.dtype)
    return _LARGE * ((rows @ weights) * (2 * coins.to(rows.dtype) - 1)).mean()


def _clean(settings: Settings, seen: list[tuple[Tensor, ...]], place: int, records: int) -> Floats:
    """The gradients that the leader computed, before clipping and noise: [visit, record, number]."""
    schedule = schedule_of(settings, records)
    first = seen[0][place]
    found = np.empty((schedule.epochs, records, first[0].numel()))
    for (step, batch), inputs in zip(schedule.from_step(0), seen, strict=True):
        gradient = inputs[place].grad
        if gradient is None:
            raise ValueError("no gradient came back to the cut: the scores do not depend on what crosses it")
        found[step // schedule.steps, batch] = gradient.reshape(len(batch), -1).numpy()
    return found


def _pair(received: NDArray[np.float32], clean: Floats, coins: NDArray[np.int64]) -> Pair:
    """Scores of what arrived, by the direction that each record's gradient has for a coin of 1.

    Assumes: coins are fair. The projection is distributed alike for all records; the other scores differ from record to
    record, and only the coins make the records of both sides alike.
    """
    signs = 2.0 * coins - 1
    width = clean.shape[2]
    places = np.unique(np.linspace(0, width - 1, min(width, _WIDEST)).astype(np.int64))
    rows = received.reshape(*clean.shape).astype(np.float64)
    direction = clean * signs[None, :, None]
    direction /= np.maximum(np.linalg.norm(direction, axis=2, keepdims=True), 1e-300)
    projected = (rows * direction).sum(axis=2)
    turned = rows[..., places] * np.sign(direction[..., places])
    apart = np.abs(direction[..., places]).mean(axis=(0, 1))
    chosen = [np.flatnonzero(coins == coin) for coin in (0, 1)]
    one_rows, other_rows = (turned[:, each].reshape(-1, len(places)) for each in chosen)
    learned = columns_of(one_rows, other_rows, apart)
    one, other = (
        np.concatenate([projected[:, each].reshape(-1, 1), columns], axis=1)
        for each, columns in zip(chosen, learned, strict=True)
    )
    return one, other
