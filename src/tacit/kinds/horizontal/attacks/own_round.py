"""A round of the file's own federation, recorded: does the coordinator read its clients' records out of it?

The scene of `gradients` favours the attacker: one record a client, one step. Here everything is as the file has it:
its clients, its model, its batches and epochs. The attack is the closed form for the first layer, on each upload and
on the sum. It fits the built-in tasks, whose records are vectors from 0 to 1 and known here.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacit.audit.attacks.inversion import Layer, Records, invert_linear
from tacit.audit.finding import Finding, Pictures, Score
from tacit.kinds.horizontal.attacks.gradients import Inverted, nearest
from tacit.kinds.horizontal.attacks.view import ServerView, record
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Task

_MOST_RECORDS = 400  # that are compared
_SHOWN = 16
_LAYERS = (("0.weight", "0.bias", False), ("weights", "bias", True), ("weights1", "bias1", True))  # whether [in, out]


@runtime_checkable
class Shown(Protocol):
    """A task that tells the audit what its clients hold."""

    def held(self, client: int) -> NDArray[Any]: ...

    def public(self) -> NDArray[Any]: ...


def fits(task: Task) -> bool:
    """Whether the attack can be made and judged."""
    return isinstance(task, Shown) and first_layer(task.model()) is not None


def first_layer(arrays: Arrays) -> Layer | None:
    """The layer that sees the records, in a model or a gradient of a built-in network."""
    for weights, bias, turned in _LAYERS:
        if weights in arrays and bias in arrays:
            matrix = np.asarray(arrays[weights], dtype=np.float64)
            return Layer(matrix.T if turned else matrix, np.asarray(arrays[bias], dtype=np.float64))
    return None


def audit_own_round(settings: Settings, task: Task, *, protection: str, seed: int) -> list[Finding]:
    """Attack one round as the file has it, without its protection and with it: each upload, and the sum."""
    clear = settings.model_copy(update={"encrypt": type(settings.encrypt)()})
    off = record(clear, task)
    on = record(settings, task) if settings.updates.protects else None
    found = []
    for target in ("each upload", "the sum"):
        without = _inverted(off, task, target, seed)
        with_it = None if on is None else _inverted(on, task, target, seed)
        found.append(_finding(settings, target, without, with_it, protection))
    return found


def _inverted(view: ServerView, task: Task, target: str, seed: int) -> Inverted:
    if not isinstance(task, Shown):
        raise ValueError(f"{type(task).__name__} does not tell what its clients hold: give it held() and public()")
    uploads = view.uploads()
    chosen, records = [], 0
    for client in sorted(uploads):
        if records >= _MOST_RECORDS:
            break
        chosen.append(client)
        records += len(task.held(client))
    if target == "the sum":
        held = np.concatenate([task.held(client) for client in chosen])
        groups = [(held, _candidates(view, view.mean_update))]
    else:
        groups = [(np.asarray(task.held(client)), _candidates(view, uploads[client])) for client in chosen]
    public = np.asarray(task.public(), dtype=np.float64)
    rng = np.random.default_rng([seed, 23])
    found = []
    for originals, candidates in groups:
        guesses = public[rng.choice(len(public), min(len(candidates), len(public)), replace=False)]
        exact = originals.astype(np.float64)
        found.append((exact, nearest(exact, candidates), nearest(exact, guesses)))
    return Inverted(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _candidates(view: ServerView, update: Any) -> Records:
    layer = first_layer(view.arrays(-np.asarray(update, dtype=np.float64)))
    if layer is None:
        raise ValueError("the model has no first layer that is known here")
    return invert_linear(layer)


def _finding(settings: Settings, target: str, off: Inverted, on: Inverted | None, protection: str) -> Finding:
    def scored(inverted: Inverted | None) -> Score | None:
        return None if inverted is None else inverted.recovery()

    train = settings.train
    also = () if on is None else ((off.error(), on.error()),)
    return Finding(
        attack=f"the file's own round: records out of {target}, closed form",
        adversary="server, honest but curious",
        sees="the messages of each client" if target == "each upload" else "the sum of all updates",
        protection=f"{protection}; as the file has it: {settings.sampled} clients, {train.epochs} local epochs of "
        f"batches of {train.batch}",
        proved=settings.updates.claim(settings),
        off=scored(off),
        on=scored(on),
        also=also,
        pictures=_pictures(off, on),
        not_tested=("later rounds of the file's own federation", "other attacks than the closed form on its own model"),
    )


def _pictures(off: Inverted, on: Inverted | None) -> Pictures | None:
    """For records that are square images."""
    side = math.isqrt(off.originals.shape[1])
    if side * side != off.originals.shape[1]:
        return None
    shape = (-1, side, side)
    shown = off.originals[:_SHOWN].reshape(shape)
    recovered = None if on is None else on.recovered[:_SHOWN].reshape(shape)
    return Pictures(shown, off.recovered[:_SHOWN].reshape(shape), recovered)
