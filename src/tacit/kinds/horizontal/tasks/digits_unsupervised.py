"""The digits of `digits` without their labels: clients find out by themselves which images are alike.

Options: `split` and `alpha` as for digits, and those of the network: `classes`, `hidden`, `doubt` and `balance` (see
`tacit.kinds.horizontal.tasks.clustering`). The coordinator, who owns the held-back images and their labels, measures
loss and purity.
"""

from __future__ import annotations

from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.tasks.clustering import Clustering, ClusteringTask
from tacit.kinds.horizontal.tasks.digits import Split, dealt_out


def make_task(
    clients: int,
    seed: int,
    split: Split = "iid",
    alpha: float = 0.5,
    classes: int = 10,
    hidden: int = 32,
    doubt: float = 1.0,
    balance: float = 4.0,
) -> Task:
    data, test = dealt_out(clients, seed, split, alpha)
    return ClusteringTask([x for x, _ in data], test, seed, Clustering(classes, hidden, doubt, balance))
