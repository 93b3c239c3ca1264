"""All trees: rounds of one tree for each output, the learning rate, and early stopping on held-out rows.

    begin(known)                            the state before the first round
    advance(state, sources, known, terms)   one more round
    boost(sources, known, terms)            rounds until `terms.rounds`, or until held-out rows gain nothing any more

The sources may be tables in one place or parties over channels: the trees are the same. A `State` holds all that is
needed to resume after any round. Each round draws from a generator of its own, made from the seed and its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tacit.kinds.vertical_trees.protocol.features import Features, IntArray
from tacit.kinds.vertical_trees.protocol.growth import Options, grow
from tacit.kinds.vertical_trees.protocol.losses import Loss
from tacit.kinds.vertical_trees.protocol.tree import Ensemble, Tree

__all__ = ["Labelled", "State", "Terms", "advance", "begin", "boost", "concluded", "finished"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Terms:
    """How many rounds, and how each is made."""

    rounds: int = 100
    learning_rate: float = 0.1
    patience: int = 0  # rounds without a better held-out loss before training ends; 0: never
    seed: int = 0
    growth: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.patience < 0:
            raise ValueError(f"rounds are 1 or more, and the patience 0 or more: {self.rounds}, {self.patience}")
        if not 0 < self.learning_rate <= 1:
            raise ValueError(f"a learning rate of {self.learning_rate:g} is not above 0 and at most 1")


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """What the active knows of the rows: labels and weights of all, and which are trained on and which judged."""

    loss: Loss
    labels: Floats
    weights: Floats
    rows: IntArray  # trained on, ascending
    held_out: IntArray  # judged, ascending

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise ValueError("there are no rows to train on")
        if np.intersect1d(self.rows, self.held_out).size:
            raise ValueError("a row is both trained on and held out")
        self.loss.check(self.labels[self.rows])

    def mean(self, scores: Floats, rows: IntArray) -> float:
        return self.loss.mean(self.labels[rows], scores[rows], self.weights[rows])


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Everything after some rounds."""

    ensemble: Ensemble
    scores: Floats  # [rows, outputs], of every row
    losses: tuple[float, ...] = ()  # after each round, of the rows trained on
    held_out_losses: tuple[float, ...] = ()

    @property
    def rounds(self) -> int:
        return len(self.losses)

    @property
    def best(self) -> int:
        """The number of rounds after which the held-out loss was lowest, or all of them if none are held out."""
        return int(np.argmin(self.held_out_losses)) + 1 if self.held_out_losses else self.rounds


def begin(known: Labelled) -> State:
    """The state before the first round: the constant that fits best."""
    base = known.loss.base(known.labels[known.rows], known.weights[known.rows])
    return State(Ensemble(base), np.tile(base, (len(known.labels), 1)))


def advance(state: State, sources: Sequence[Features], known: Labelled, terms: Terms) -> State:
    """One more round: g and h of the scores before it, and one tree for each output."""
    gradients, hessians = known.loss.gradients(known.labels, state.scores, known.weights)
    scores, trees = state.scores.copy(), list(state.ensemble.trees)
    for output in range(known.loss.outputs):
        rng = np.random.default_rng([terms.seed, state.rounds, output])
        grown = grow(sources, gradients[:, output], hessians[:, output], known.rows, terms.growth, rng)
        tree: Tree = replace(grown.tree, value=grown.tree.value * terms.learning_rate)
        scores[:, output] += tree.value[grown.leaf]
        trees.append(tree)
    judged = (known.mean(scores, known.held_out),) if len(known.held_out) else ()
    return State(
        Ensemble(state.ensemble.base, tuple(trees)),
        scores,
        (*state.losses, known.mean(scores, known.rows)),
        (*state.held_out_losses, *judged),
    )


def finished(state: State, terms: Terms) -> bool:
    """Whether all rounds are done, or the held-out loss was not lowered for `patience` rounds."""
    if state.rounds >= terms.rounds:
        return True
    return bool(terms.patience and state.held_out_losses and state.rounds - state.best >= terms.patience)


def concluded(state: State, terms: Terms) -> State:
    """The state at the end: with patience, its ensemble is that of the best round."""
    if terms.patience and state.held_out_losses:
        return replace(state, ensemble=state.ensemble.first(state.best))
    return state


def boost(
    sources: Sequence[Features],
    known: Labelled,
    terms: Terms,
    state: State | None = None,
    after: Callable[[State], None] = lambda _: None,
) -> State:
    """Train, from `state` if it is given; `after` is called with the state after each round.

    With patience, the ensemble of the result is that of the best round.
    """
    state = begin(known) if state is None else state
    while not finished(state, terms):
        state = advance(state, sources, known, terms)
        after(state)
    return concluded(state, terms)
