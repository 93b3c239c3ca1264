"""A small torch network on flat features: one way to fill `fit`. Needs the extra `torch`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork
from tacit.kinds.horizontal.tasks.softmax import Features, Labels

try:
    import torch
    from torch import nn
except ModuleNotFoundError as error:
    raise ValueError("network: mlp needs torch: pip install 'tacit-learning[torch]'") from error


class MlpTask:
    """Clients with features and labels, and a network with one hidden layer."""

    def __init__(
        self,
        parts: Sequence[tuple[Features, Labels]],
        test: tuple[Features, Labels],
        classes: int,
        seed: int,
        hidden: int = 32,
    ) -> None:
        self._parts = parts
        self._test = test
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._network = nn.Sequential(nn.Linear(test[0].shape[1], hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def held(self, client: int) -> Features:
        """What a client holds: the audit compares it with what an attacker recovers."""
        return self._parts[client][0]

    def public(self) -> Features:
        """What the coordinator has of its own."""
        return self._test[0]

    def model(self) -> Arrays:
        return {name: tensor.numpy().copy() for name, tensor in self._network.state_dict().items()}

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        x, y = (torch.from_numpy(part) for part in self._parts[client])
        start = {name: torch.from_numpy(np.array(array)) for name, array in model.items()}
        self._network.load_state_dict(start)
        optimizer = torch.optim.SGD(self._network.parameters(), lr=work.train.learning_rate)
        loss = 0.0
        for _ in range(work.train.epochs):
            total = 0.0
            order = torch.from_numpy(work.rng.permutation(len(y)))
            for batch in order.split(work.train.batch):
                optimizer.zero_grad()
                cost = nn.functional.cross_entropy(self._network(x[batch]), y[batch])
                total += cost.item() * len(batch)
                if work.train.proximal_mu:
                    pull = sum(((p - start[n]) ** 2).sum() for n, p in self._network.named_parameters())
                    cost = cost + work.train.proximal_mu / 2 * pull
                cost.backward()
                optimizer.step()
            loss = total / len(y)
        return Fitted(self.model(), len(y), loss)

    def evaluate(self, model: Arrays) -> dict[str, float]:
        x, y = (torch.from_numpy(part) for part in self._test)
        self._network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in model.items()})
        with torch.no_grad():
            scores = self._network(x)
        accuracy = float((scores.argmax(1) == y).float().mean())
        return {"loss": float(nn.functional.cross_entropy(scores, y)), "accuracy": accuracy}
