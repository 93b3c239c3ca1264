"""Inverting activations: what record made them?

    known_pairs         a decoder trained on records that the attacker knows, and what crossed the cut for them
    on_a_copy           a decoder trained on public records, put through a copy of the network before the cut
    white_box           search for the most probable record, with the network known
    unsplit             search for records and network together, with only its architecture known

Records are [number, features]. Bits are -1 and 1. `flip` is the probability with which a bit was changed, which
everybody knows; None where activations crossed as floats.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tacit.audit.attacks.inversion import one_thread

Records = NDArray[np.float64]
Floats = NDArray[np.float32]
Shape = tuple[int, ...]
_PENALTIES = 10.0 ** np.arange(-4, 6)
_SHARPNESS = 4.0  # of the sigmoid that stands for the sign of an activation
_PRECISION = 0.05  # of floats, in activations: how much a fit may differ from them
_SMOOTHNESS = 1.0  # weight of the total variation
_TURN = 20  # steps of UnSplit at the records, then at the network
_DRAWS = 32  # of the noise on each public record
_SMALLEST = 1e-3  # part of the deviation that counts as no deviation


@dataclass(frozen=True, slots=True)
class Effort:
    """How long the attacks search."""

    decoder_steps: int = 300
    hidden: int = 256
    inversion_steps: int = 100
    unsplit_rounds: int = 4
    unsplit_starts: int = 4
    targets: int = 40  # records that are searched for one by one
    records: int | None = 1000  # most of the training set that is trained on; None for all
    seed: int = 0


QUICK = Effort()
FULL = Effort(
    decoder_steps=3000, hidden=512, inversion_steps=500, unsplit_rounds=20, unsplit_starts=8, targets=200, records=None
)


def known_pairs(known: Floats, records: Records, targets: Floats, effort: Effort = QUICK) -> Records:
    """What `targets` are of, by a decoder fitted to `known` activations of `records`.

    Linear with a ridge penalty, and with a hidden layer; the one that does better on a fifth of the pairs is taken.
    """
    scale = _Scale.of(known)
    x, aim = scale(known), scale(targets)
    count = len(x) * 4 // 5
    penalty, linear_error = _best_penalty(x, records, count)
    with one_thread():
        network = _trained_decoder(lambda _: (x[:count], records[:count]), effort)
        error = float(np.square(_run(network, x[count:]) - records[count:]).mean())
        if error < linear_error:
            return _run(network, aim)
    return _ridge(x, records, penalty)(aim)


def on_a_copy(
    activations: Floats,
    public: Records,
    protect: Callable[[Floats, int], Floats],
    targets: Floats,
    effort: Effort = QUICK,
) -> Records:
    """The same from public records alone, whose `activations` a copy of the network gave.

    `protect` does to them what is done to activations before they cross, with other noise for another number.
    """
    scale = _Scale.of(protect(activations, 0))
    drawn = [(scale(protect(activations, number)), public) for number in range(_DRAWS)]
    with one_thread():
        return _run(_trained_decoder(lambda step: drawn[step % _DRAWS], effort), scale(targets))


def white_box(
    network: nn.Module, shape: Shape, public: Records, targets: Floats, flip: float | None, effort: Effort = QUICK
) -> Records:
    """The most probable records: a normal distribution fitted to public ones, and the likelihood of what crossed.

    Source: the search is that of He, Zhang, Lee 2019, section 3.2, with a likelihood of noisy signs and a prior.
    """
    mean = torch.from_numpy(public.mean(axis=0)).float()
    basis = torch.from_numpy(_principal_axes(public)).float()
    aim = torch.from_numpy(targets)
    network = copy.deepcopy(network).eval().requires_grad_(False)
    places = torch.zeros((len(targets), basis.shape[0]), requires_grad=True)

    def made() -> Tensor:
        return mean + places @ basis

    def loss() -> Tensor:
        found = network(made().reshape(-1, *shape))
        return _surprise(found, aim, flip) + 0.5 * places.square().sum()

    with one_thread():
        _descend(places, loss, effort.inversion_steps)
    return np.asarray(made().detach().numpy(), dtype=np.float64)


def unsplit(
    architecture: nn.Module, shape: Shape, targets: Floats, flip: float | None, effort: Effort = QUICK
) -> Records:
    """Records and a network of this architecture that together make the activations that crossed.

    Nothing is known of weights or records, so that what is found is known at most up to an affine map of the pixels,
    and where the network begins by mixing all of them, not even that: score it accordingly.
    Source: Erdogan, Küpçü, Çiçek 2021 (UnSplit), algorithm 1: turns at the records, with a penalty of their total
    variation, and at the network.
    """
    tried = [
        _unsplit_from(effort.seed + start, architecture, shape, targets, flip, effort.unsplit_rounds)
        for start in range(effort.unsplit_starts)
    ]
    found, _ = min(tried, key=lambda each: each[1])
    return found


def _unsplit_from(
    seed: int, architecture: nn.Module, shape: Shape, targets: Floats, flip: float | None, rounds: int
) -> tuple[Records, float]:
    """Records from one random start, and how badly they fit: most starts end far from the truth, and fit worse."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = copy.deepcopy(architecture).eval()
        for module in network.modules():
            if callable(getattr(module, "reset_parameters", None)):
                module.reset_parameters()
        aim = torch.from_numpy(targets)
        images = torch.full((len(targets), *shape), 0.5) + 0.01 * torch.randn(len(targets), *shape)
    images.requires_grad_()
    smoothness = _SMOOTHNESS if flip is None else _SMOOTHNESS * _PRECISION
    weights = list(network.parameters())

    def loss() -> Tensor:
        return _surprise(network(images), aim, flip) / aim.numel() + smoothness * _total_variation(images)

    with one_thread():
        on_images, on_weights = torch.optim.Adam([images], lr=0.05), torch.optim.Adam(weights, lr=0.001)
        for _ in range(rounds):
            for optimizer in (on_images, on_weights):
                for _ in range(_TURN):
                    for value in (images, *weights):
                        value.grad = None
                    loss().backward()
                    optimizer.step()
        with torch.no_grad():
            apart = float(_surprise(network(images), aim, flip))
    return np.asarray(images.detach().numpy().reshape(len(targets), -1), dtype=np.float64), apart


def _surprise(found: Tensor, aim: Tensor, flip: float | None) -> Tensor:
    """Minus the logarithm of the probability of what crossed, summed."""
    if flip is None:
        return (found - aim).square().sum() / (2 * _PRECISION**2)
    certain = max(flip, 1e-3)  # the sign of an activation near 0 is not certain either during the search
    return -torch.log(certain + (1 - 2 * certain) * torch.sigmoid(_SHARPNESS * found * aim)).sum()


def _total_variation(images: Tensor) -> Tensor:
    if images.ndim < 3:
        return images.square().mean()
    down, right = images.diff(dim=-2), images.diff(dim=-1)
    return down.square().mean() + right.square().mean()


def _descend(values: Tensor, loss: Callable[[], Tensor], steps: int) -> None:
    optimizer = torch.optim.LBFGS([values], max_iter=steps, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)


@dataclass(frozen=True, slots=True, eq=False)
class _Scale:
    """Activations with mean 0 and deviation 1, all visits of a record in one row."""

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, activations: Floats) -> _Scale:
        rows = activations.reshape(len(activations), -1)
        deviation = rows.std(axis=0)
        return cls(rows.mean(axis=0), np.maximum(deviation, _SMALLEST * max(float(deviation.max()), _SMALLEST)))

    def __call__(self, activations: Floats) -> Floats:
        rows = activations.reshape(len(activations), -1)
        return np.asarray((rows - self.mean) / self.deviation, dtype=np.float32)


def _ridge(x: Floats, records: Records, penalty: float) -> Callable[[Floats], Records]:
    mean = records.mean(axis=0)
    square = x.astype(np.float64).T @ x + penalty * np.eye(x.shape[1])
    weights = np.linalg.solve(square, x.astype(np.float64).T @ (records - mean))
    return lambda aim: np.asarray(mean + aim @ weights)


def _best_penalty(x: Floats, records: Records, count: int) -> tuple[float, float]:
    errors = {
        float(penalty): float(
            np.square(_ridge(x[:count], records[:count], penalty)(x[count:]) - records[count:]).mean()
        )
        for penalty in _PENALTIES
    }
    return min(errors.items(), key=lambda found: found[1])


def _trained_decoder(draw: Callable[[int], tuple[Floats, Records]], effort: Effort) -> nn.Module:
    """A network with two hidden layers, on batches of what `draw` gives at each step."""
    rng = np.random.default_rng(effort.seed)
    x, records = draw(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(effort.seed)
        sizes = [x.shape[1], effort.hidden, effort.hidden]
        hidden = [m for a, b in pairwise(sizes) for m in (nn.Linear(a, b), nn.ReLU())]
        network = nn.Sequential(*hidden, nn.Linear(effort.hidden, records.shape[1]))
    with torch.no_grad():
        network[-1].bias.copy_(torch.from_numpy(records.mean(axis=0)))
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.002, weight_decay=0.01)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, effort.decoder_steps)
    for step in range(effort.decoder_steps):
        x, records = draw(step)
        batch = rng.integers(0, len(x), min(128, len(x)))
        loss = nn.functional.mse_loss(
            network(torch.from_numpy(x[batch])), torch.from_numpy(records[batch].astype(np.float32))
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        falling.step()
    return network


def _run(network: nn.Module, x: Floats) -> Records:
    with torch.no_grad():
        return np.asarray(network(torch.from_numpy(x)).numpy(), dtype=np.float64)


def _principal_axes(public: Records) -> Records:
    """Axes of the public records' spread, each as long as their deviation along it."""
    centred = public - public.mean(axis=0)
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(axes * (values / np.sqrt(max(1, len(public) - 1)))[:, None])
