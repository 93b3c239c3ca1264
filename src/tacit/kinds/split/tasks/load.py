"""The parts of a network that a file of kind `split` names: a built-in task's, or those of the user's own function."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.config.task import made, module_of
from tacit.kinds.split.initial_weights import first_weights
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.task import Part, Rows, Seat, expected_part, modules

BUILT_IN = {
    "split_cancer": "tacit.kinds.split.tasks.cancer",
    "split_digits": "tacit.kinds.split.tasks.digits",
    "text": "tacit.kinds.split.tasks.text",
}


def make_part(settings: Settings, party: str, *, secret: bool = False) -> Part:
    """This party's part of the network and its records. Nothing of the other parties' is loaded.

    Where its first weights are `secret`, torch draws from the operating system.
    """
    seat = Seat.of(settings, party, secret=secret)
    with first_weights(seat, settings.seed) if secret else nullcontext():  # also of a task that does not ask for it
        part: Part = made(settings.task, BUILT_IN, "make_parts", {"seat": seat}, settings.task_options, ())
    expected = expected_part(seat)
    if not isinstance(part, expected):
        raise ValueError(
            f"task {settings.task!r} made a {type(part).__name__} for {party}, a {seat.role} in topology "
            f"{seat.topology}: {expected.__name__} is needed"
        )
    return part


def load_part(part: Part, arrays: Mapping[str, NDArray[Any]]) -> Part:
    """The same part with trained weights."""
    for name, network in modules(part).items():
        own = {key[len(name) + 1 :]: value for key, value in arrays.items() if key.startswith(f"{name}.")}
        try:
            network.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in own.items()})
        except RuntimeError as error:
            raise ValueError(f"the stored weights do not fit the {name}: was the task changed? {error}") from None
    return part


def read_rows(settings: Settings, party: str, source: Path) -> Rows:
    """New records of this party from a file, as its task's `read_rows(seat, source, **task_options)` reads them."""
    module, _ = module_of(settings.task, BUILT_IN, "make_parts")
    reader = getattr(module, "read_rows", None)
    if not callable(reader):
        raise ValueError(
            f"task {settings.task!r} has no function read_rows(seat, source, **task_options), which reads new records"
        )
    if not source.is_file():
        raise ValueError(f"{source}: there is no such file, with the records of {party}")
    rows: Rows = reader(Seat.of(settings, party), source, **settings.task_options)
    return rows
