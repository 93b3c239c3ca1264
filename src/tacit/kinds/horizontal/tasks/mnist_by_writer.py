"""MNIST with its writers: a natural split, each client one writer. From an npz given by `path`.

The file holds `x, y, writer` for training and `x_test, y_test` for the coordinator. Options: `path`, and `split`:
writer, or iid, which deals all images out evenly to any number of clients.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from tacit import partition
from tacit.kinds.horizontal.task import Task
from tacit.kinds.horizontal.tasks.softmax import SoftmaxTask

_ARRAYS = ("x", "y", "writer", "x_test", "y_test")


def make_task(clients: int, seed: int, path: str, split: Literal["writer", "iid"] = "writer") -> Task:
    if not Path(path).is_file():
        raise ValueError(f"task_options.path: there is no file {path}")
    with np.load(path, allow_pickle=False) as file:
        missing = [name for name in _ARRAYS if name not in file]
        if missing:
            raise ValueError(f"{path} lacks the arrays {', '.join(missing)}")
        images, labels, writers, test_images, test_labels = (file[name] for name in _ARRAYS)
    x = images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
    y = labels.astype(np.int64)
    rng = np.random.default_rng([seed, partition.SPLIT])
    match split:
        case "writer":
            known = np.unique(writers)
            if clients > len(known):
                raise ValueError(f"{clients} clients, but the file has {len(known)} writers: take fewer, or split: iid")
            chosen = rng.choice(known, clients, replace=False)
            parts = [np.flatnonzero(writers == writer) for writer in np.sort(chosen)]
        case "iid":
            parts = partition.iid(len(y), clients, rng)
        case _:
            raise ValueError(f"split must be writer or iid, got {split!r}")
    test_x = test_images.reshape(len(test_images), -1).astype(np.float32) / np.float32(255)
    data = [(x[part], y[part]) for part in parts]
    return SoftmaxTask(data, (test_x, test_labels.astype(np.int64)), classes=10)
