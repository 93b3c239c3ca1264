"""The parts of a network that a file of kind `split` names: a built-in task's, or those of the user's own function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.config.task import made, module_of
from tacit.kinds.split.initial_weights import first_weights
from tacit.kinds.split.settings import Settings
from tacit.kinds.split.task import Kept, Part, Rows, Seat, Shape, Unfitted, expected_part, modules
from tacit.lockstep.alignment import common_here

BUILT_IN = {
    "split_cancer": "tacit.kinds.split.tasks.cancer",
    "split_digits": "tacit.kinds.split.tasks.digits",
    "table": "tacit.kinds.split.tasks.tabular",
    "text": "tacit.kinds.split.tasks.text",
}


def task_part(settings: Settings, seat: Seat) -> Part | Unfitted:
    """What the task makes for this party. Nothing of the other parties' is loaded."""
    with _drawing(seat, settings):
        part: Part | Unfitted = made(settings.task, BUILT_IN, "make_parts", {"seat": seat}, settings.task_options, ())
    if not isinstance(part, Unfitted):
        return _expected(settings, seat, part)
    if part.left_out and not settings.align:
        raise ValueError(
            f"{part.where}: {part.left_out} rows are left out (an id that comes twice, or no label), and without align "
            "the rows of all parties must be the same people in the same order: set align: true, or correct them"
        )
    return part


def fitted_part(
    settings: Settings, seat: Seat, part: Unfitted, rows: NDArray[np.int64], kept: Kept | None = None
) -> Part:
    """The part of a party whose records that all have are these; `kept` if it was made before."""
    with _drawing(seat, settings):
        return _expected(settings, seat, part.fit(rows, kept))


def make_part(settings: Settings, party: str, *, secret: bool = False) -> Part:
    """This party's part of the network and its records, if all parties are in this process.

    Nothing of the other parties' is loaded, unless it must be known which records all have. Where its first weights are
    `secret`, torch draws from the operating system.
    """
    seat = Seat.of(settings, party, secret=secret)
    part = task_part(settings, seat)
    if not isinstance(part, Unfitted):
        return part
    rows = np.arange(len(part.ids))
    if settings.align:
        others = {name: task_part(settings, Seat.of(settings, name)) for name in settings.parties if name != party}
        ids = {party: part.ids} | {name: each.ids for name, each in others.items() if isinstance(each, Unfitted)}
        rows = common_here(ids, settings.leader)[party]
    return fitted_part(settings, seat, part, rows)


def stored_part(settings: Settings, seat: Seat, arrays: Mapping[str, NDArray[Any]], kept: Kept) -> Part:
    """A party's part as it was stored: with trained weights, and what it `kept`."""
    if kept:
        restore = _function(settings, "restored_part", "makes a part of what was stored")
        part = _expected(settings, seat, restore(seat, kept, **settings.task_options))
    else:
        found = task_part(settings, seat)
        if isinstance(found, Unfitted):
            raise ValueError("the stored model has no transforms: take it from a copy, or train it anew")
        part = found
    return load_part(part, arrays)


def _drawing(seat: Seat, settings: Settings) -> Any:
    """Where first weights are a secret, torch draws them so; also for a task that does not ask for it."""
    return first_weights(seat, settings.seed) if seat.secret else nullcontext()


def _expected(settings: Settings, seat: Seat, part: Part) -> Part:
    expected = expected_part(seat)
    if not isinstance(part, expected):
        raise ValueError(
            f"task {settings.task!r} made a {type(part).__name__} for {seat.party}, a {seat.role} in topology "
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


def read_rows(settings: Settings, seat: Seat, source: Path, kept: Kept) -> Rows:
    """New records of this party from a file, as its task's `read_rows(seat, source, **task_options)` reads them."""
    reader = _function(settings, "read_rows", "reads new records", "seat, source, **task_options")
    if not source.is_file():
        raise ValueError(f"{source}: there is no such file, with the records of {seat.party}")
    more = {"kept": kept} if kept else {}
    rows: Rows = reader(seat, source, **more, **settings.task_options)
    return rows


def declared_cuts(settings: Settings) -> Mapping[str, Shape] | None:
    """The cuts that a task names without records, by its `cuts(seat, **task_options)`; None if it has no such."""
    module, _ = module_of(settings.task, BUILT_IN, "make_parts")
    found = getattr(module, "cuts", None)
    if not callable(found):
        return None
    cuts: Mapping[str, Shape] = found(Seat.of(settings, settings.leader), **settings.task_options)
    return cuts


def _function(
    settings: Settings, name: str, does: str, arguments: str = "seat, kept, **task_options"
) -> Callable[..., Any]:
    module, _ = module_of(settings.task, BUILT_IN, "make_parts")
    found = getattr(module, name, None)
    if not callable(found):
        raise ValueError(f"task {settings.task!r} has no function {name}({arguments}), which {does}")
    function: Callable[..., Any] = found
    return function
