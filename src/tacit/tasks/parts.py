"""The parts of a network that a file of kind `split` names: a built-in task's, or those of the user's own function."""

from __future__ import annotations

import importlib
import inspect

from tacit.split.parts import Part, Seat, expected_part
from tacit.split.settings import Settings

BUILT_IN = {
    "split_cancer": "tacit.tasks.split_cancer",
    "split_digits": "tacit.tasks.split_digits",
    "text": "tacit.tasks.text",
}


def make_part(settings: Settings, party: str) -> Part:
    """This party's part of the network and its records. Nothing of the other parties' is loaded."""
    name = settings.task
    seat = Seat.of(settings, party)
    if ":" in name:
        module_name, _, function = name.partition(":")
    elif name in BUILT_IN:
        module_name, function = BUILT_IN[name], "make_parts"
    else:
        raise ValueError(f"task {name!r} is not known: take one of {', '.join(BUILT_IN)}, or package.module:make_parts")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ValueError(f"task {name!r} needs the module {error.name!r}, which is not installed") from error
    maker = getattr(module, function, None)
    if not callable(maker):
        raise ValueError(f"task {name!r}: the module {module_name} has no function {function}")
    try:
        inspect.signature(maker).bind(seat, **settings.task_options)
    except TypeError as error:
        raise ValueError(f"task {name!r} does not take these task_options: {error}") from None
    try:
        part: Part = maker(seat, **settings.task_options)
    except ValueError as error:
        raise ValueError(f"task {name}: {error}") from error
    expected = expected_part(seat)
    if not isinstance(part, expected):
        raise ValueError(
            f"task {name!r} made a {type(part).__name__} for {party}, a {seat.role} in topology {seat.topology}: "
            f"{expected.__name__} is needed"
        )
    return part
