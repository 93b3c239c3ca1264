"""What a user writes: how a client trains, and how the coordinator judges a model.

A model is a dict of numpy arrays. A task is made by a function `make_task(clients, seed, **task_options)`, named in the
file as `package.module:make_task`; built-in ones are named by one word. Torch is one way to fill `fit`, never required.

    class MyTask:
        def model(self) -> Arrays: ...                                  # the model before the first round
        def fit(self, client, model, work) -> Fitted: ...               # train on the client's own data
        def evaluate(self, model) -> dict[str, float]: ...              # optional; on the coordinator's own data

A model without labels is judged by what it infers. Such a task also has

        classes: int                                                    # the length of an inference vector
        def infer(self, client, model, count) -> array: ...             # rows of probabilities, of `count` samples

A client may keep arrays of its own from round to round, such as the head of a network (FedPer): what `fit` returns as
`Fitted.kept` is stored at the client and handed to its next `fit` as `work.kept`. It is never sent. Such a task says
so:

        keeps: bool

With `train.privacy` in the file, `fit` trains privately, by the plan of `record_plan.round_plan`, and returns the
events of its training as `Fitted.events`. A task that does so has

        def check_private_fit(self) -> None: ...                        # ValueError if its model cannot be trained so
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.dp.release import Event
from tacit.kinds.horizontal.settings import Training

Arrays = dict[str, NDArray[Any]]  # all float32 or all float64


@dataclass(frozen=True)
class FitWork:
    """What `fit` receives in addition to the model."""

    round: int  # begun before this one, aborted and abandoned ones included
    train: Training
    seed: tuple[int, ...]
    kept: Arrays | None = None  # what the client's last `fit` kept; None before its first one
    answers: int = 1  # how often the client may train in the run: noise of private training is sized for as many

    @cached_property
    def rng(self) -> Generator:
        """For shuffling and initialisation; never for noise."""
        return np.random.default_rng(self.seed)

    def of(self, client: int) -> FitWork:
        """The same for another client: the last part of a seed is its number."""
        return FitWork(self.round, self.train, (*self.seed[:-1], client), answers=self.answers)

    def keeping(self, kept: Arrays | None) -> FitWork:
        """The same with what the client kept."""
        return replace(self, kept=kept)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained model, on how many samples, and how well. The loss leaves a client only if nothing is protected."""

    model: Arrays
    samples: int
    loss: float | None = None
    kept: Arrays | None = None  # what stays at the client until its next `fit`; None: what it kept before
    events: tuple[tuple[Event, int], ...] = ()  # of private training, each with how often it happened
    left_out: bool = False  # whether gradients were left out of a private training, because they were not finite


class Task(Protocol):
    def model(self) -> Arrays: ...

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted: ...


@runtime_checkable
class Infers(Protocol):
    """A task whose model says of a sample with which probability it belongs to which of `classes`."""

    classes: int

    def infer(self, client: int, model: Arrays, count: int) -> NDArray[Any]:
        """Softmax results for up to `count` of the client's samples, a row each."""
        ...


@runtime_checkable
class Holds(Protocol):
    """A task that can show what a client holds: for plans and audits, in one process."""

    def held(self, client: int) -> NDArray[Any]: ...


@runtime_checkable
class Evaluates(Protocol):
    """A task that can judge a model."""

    def evaluate(self, model: Arrays) -> dict[str, float]: ...


@runtime_checkable
class FitsPrivately(Protocol):
    """A task whose `fit` trains privately if the file asks for that: see `record_privacy`."""

    def check_private_fit(self) -> None:
        """ValueError if its model cannot be trained so."""
        ...


@runtime_checkable
class Keeps(Protocol):
    """A task whose clients may keep arrays from round to round: see `Fitted.kept`."""

    keeps: bool


@runtime_checkable
class Frozen(Protocol):
    """A task whose model has parts that are not trained, and that must be the same at all parties."""

    def frozen_digest(self) -> str | None:
        """What parties with the same frozen parts agree on; None if there are none."""
        ...
