"""What membership inference attacks: a small network on digits, trained plainly or by private SGD. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks.membership import Indices, Losses, Predict
from tacit.dp.accounting import Ledger
from tacit.dp.claim import Claim
from tacit.dp.release import GaussianEvent
from tacit.randomness import seeded_rng

_LABELS_CHANGED = 0.1  # of the pool: records that only a model that saw them can get right


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the network is trained. `noise_multiplier` None: plain SGD, without clipping."""

    records: int = 400  # in the pool, of which each model sees about half
    hidden: int = 64
    steps: int = 300
    batch: int = 64  # expected: every record is in each batch by a coin of its own
    learning_rate: float = 1.0
    clip: float = 1.0
    noise_multiplier: float | None = None

    @property
    def sampling_probability(self) -> float:
        return min(1.0, self.batch / (self.records / 2))

    def claim(self, delta: float) -> Claim | None:
        """What is proved of one training."""
        if self.noise_multiplier is None:
            return None
        ledger = Ledger("record", "add-remove")
        event = GaussianEvent(self.noise_multiplier, "record", "add-remove", self.sampling_probability)
        ledger.spend(event, self.steps)
        return Claim(ledger.epsilon(delta), delta, "record", "add-remove")


class Digits:
    """A pool of digits to train on, a tenth of them with another label, and the rest to measure accuracy on."""

    def __init__(self, recipe: Recipe, seed: int = 0) -> None:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        order = np.random.default_rng([seed, 3]).permutation(len(labels))
        x, y = (images[order] / 16).astype(np.float32), labels[order].astype(np.int64)
        changed = int(_LABELS_CHANGED * recipe.records)
        y[:changed] = (y[:changed] + 1 + np.random.default_rng([seed, 4]).integers(0, 9, changed)) % 10
        self.recipe = recipe
        self._pool = x[: recipe.records], y[: recipe.records]
        self._rest = x[recipe.records :], y[recipe.records :]
        self.accuracies: list[float] = []  # of the models trained so far, on digits of nobody's

    def train(self, chosen: Indices, seed: int) -> Predict:
        """Train on the chosen records of the pool."""
        import torch

        network = _network(self.recipe.hidden, seed)
        x, y = (torch.from_numpy(part[chosen]) for part in self._pool)
        gradient = (
            _plain(network, x, y) if self.recipe.noise_multiplier is None else _private(network, x, y, self.recipe)
        )
        rng, noise = np.random.default_rng([seed, 5]), seeded_rng(seed)
        for _ in range(self.recipe.steps):
            batch = np.flatnonzero(rng.random(len(chosen)) < self.recipe.sampling_probability)
            gradients = gradient(batch, noise)
            with torch.no_grad():
                for parameter, slope in zip(network.parameters(), gradients, strict=True):
                    parameter -= self.recipe.learning_rate / self.recipe.batch * slope
        network.eval()
        self.accuracies.append(_accuracy(network, *self._rest))
        return lambda asked: _losses(network, self._pool[0][asked], self._pool[1][asked])


Gradient = Callable[[Indices, np.random.Generator], list[Any]]  # the sum over a batch, with noise or without


def _network(hidden: int, seed: int) -> Any:
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))


def _plain(network: Any, x: Any, y: Any) -> Gradient:
    import torch

    def gradient(batch: Indices, noise: np.random.Generator) -> list[Any]:
        loss = torch.nn.functional.cross_entropy(network(x[batch]), y[batch], reduction="sum")
        return list(torch.autograd.grad(loss, list(network.parameters())))

    return gradient


def _private(network: Any, x: Any, y: Any, recipe: Recipe) -> Gradient:
    """Each record's gradient clipped, and Gaussian noise; the noise alone for an empty batch.

    The noise is that of a simulation, in floats: what is measured is its effect, and nothing of it is released.
    """
    import torch

    from tacit.training import Engine

    engine = Engine(network, reduction="sum")
    scale = (recipe.noise_multiplier or 0.0) * recipe.clip

    def gradient(batch: Indices, noise: np.random.Generator) -> list[Any]:
        drawn = noise.standard_normal(engine.sum.numel(), dtype=np.float32) * np.float32(scale)
        engine.sum.copy_(torch.from_numpy(drawn))
        if len(batch):
            network.train()
            torch.nn.functional.cross_entropy(network(x[batch]), y[batch], reduction="sum").backward()
            engine.add_clipped(engine.factors(engine.norms(), recipe.clip))
        return list(engine.views)

    return gradient


def _losses(network: Any, x: NDArray[Any], y: NDArray[Any]) -> Losses:
    import torch

    with torch.no_grad():
        scores = network(torch.from_numpy(x)).double()
        return np.asarray(torch.nn.functional.cross_entropy(scores, torch.from_numpy(y), reduction="none").numpy())


def _accuracy(network: Any, x: NDArray[Any], y: NDArray[Any]) -> float:
    import torch

    with torch.no_grad():
        return float((network(torch.from_numpy(x)).argmax(1).numpy() == y).mean())
