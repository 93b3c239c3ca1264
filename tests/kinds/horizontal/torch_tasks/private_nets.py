"""Torch tasks that can be trained privately, for files."""

from __future__ import annotations

import torch

from tests.kinds.horizontal.torch_tasks.nets import cross_entropy, plain_net, records, task_of


def many(client):
    """200 records and some more, another number for each client."""
    return records(client, 200 + client)


def owned(client):
    """The same as a dictionary with persons, of 1 to 4 records each."""
    x, y = many(client)
    persons = [person for person in range(len(y)) for _ in range(1 + person % 4)][: len(y)]
    return {"x": x, "y": y, "person": torch.tensor(persons)}


def loss_of_owned(module, batch):
    return cross_entropy(module, (batch["x"], batch["y"]))


task = task_of(model=plain_net, data=many)
owned_task = task_of(model=plain_net, data=owned, loss=loss_of_owned)
