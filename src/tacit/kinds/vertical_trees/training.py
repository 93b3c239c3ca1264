"""One party of a training, once its rows are aligned and its columns are in bins.

    train_active(channels, brought, known, classes)     grows the trees, and stores its state after each round
    train_passive(channel, brought)                     answers, and stores which of its splits won

The active's state decides where a training resumes. A passive holds none but its table in bins: it can serve any round
again. It stores which of its splits won before the active stores the trees, so that it knows all that are in them. The
rounding of a round depends on its number and the seed alone, so that a round that is done again opens the
same sums.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.channel import Channel
from tacit.events import Noted, Sink, TrainingStarted
from tacit.kinds.vertical_trees import judged
from tacit.kinds.vertical_trees.columns import Columns
from tacit.kinds.vertical_trees.kept_cells import KeptCells
from tacit.kinds.vertical_trees.part import Part
from tacit.kinds.vertical_trees.protocol import active, passive
from tacit.kinds.vertical_trees.protocol.active import RemoteFeatures
from tacit.kinds.vertical_trees.protocol.boosting import Labelled, State, advance, begin, concluded, finished
from tacit.kinds.vertical_trees.protocol.features import BinArray, Features, PlainFeatures
from tacit.kinds.vertical_trees.protocol.messages import Rounds
from tacit.kinds.vertical_trees.protocol.opened import Tally
from tacit.kinds.vertical_trees.protocol.passive import Plan, Table
from tacit.kinds.vertical_trees.settings import Settings
from tacit.lockstep.context import Context
from tacit.lockstep.progress import Progress
from tacit.lockstep.traffic import Metered
from tacit.tables.labels import MOST_CLASSES

_BETWEEN = 1.0  # seconds between two lines
Keep = Callable[[Part, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True, eq=False)
class Brought:
    """A party at the start of a training.

    Args:
        binned: the bin of each cell of the common rows.
        part: what this party has so far: its columns, and what was stored of an interrupted training.
        state: what else was stored; with `round` 0 if nothing was trained.
        keep: stores a part and a state with `round`, the rounds done, and `ended`, whether there are no more.
    """

    settings: Settings
    name: str
    binned: BinArray
    part: Part
    state: Mapping[str, Any]
    cells: KeptCells
    sink: Sink
    keep: Keep

    @property
    def columns(self) -> Columns:
        return self.part.columns


def protection(settings: Settings) -> str:
    """In a few words."""
    privacy = settings.privacy
    hidden = ", nodes hidden" if settings.hidden else ""
    return f"sums of {privacy.least} rows or more at {privacy.bits} bits by oblivious transfer{hidden}"


class _Told:
    """What a party tells of its rounds."""

    def __init__(self, brought: Brought, channels: Mapping[str, Metered], trees: int, columns: int) -> None:
        settings, done = brought.settings, int(brought.state["round"])
        context = Context[Any](brought.sink, time.perf_counter)
        self._progress = Progress(context, channels.values(), 1, lambda count, seconds: seconds >= _BETWEEN, "trees")
        self._trees = trees
        started = TrainingStarted(
            settings.name,
            settings.kind,
            len(settings.parties),
            settings.train.trees,
            1,
            protection(settings),
            columns,
        )
        self._progress.begin(started, resumed=done if done else None)

    def finished(self, rounds: int, local: Mapping[str, float]) -> None:
        """So many rounds are done."""
        self._progress.stepped(rounds, self._trees)
        self._progress.finished(rounds - 1, local=local)


# --- the active


def train_active(
    channels: Mapping[str, Channel], brought: Brought, known: Labelled, classes: tuple[str, ...]
) -> tuple[Part, NDArray[Any]]:
    """The active's part, and the scores of the rows that it is judged on."""
    settings, terms = brought.settings, brought.settings.terms
    metered = {name: Metered(channels[name]) for name in settings.passives}
    remote = {name: _met(channel, name, brought) for name, channel in metered.items()}
    own = PlainFeatures(brought.binned, brought.columns.bins.bins, brought.columns.bins.ordered, brought.columns.signs)
    sources: list[Features] = [own, *remote.values()]
    part, state = replace(brought.part, classes=classes), _restored(brought, known)
    best = brought.state.get("best", state.scores[_judged_rows(known)])
    trees = known.loss.outputs
    active.say_rounds(metered.values(), state.rounds, trees)
    told = _Told(brought, metered, trees, sum(len(source.bins) for source in sources))
    while not finished(state, terms):
        state = advance(state, sources, known, terms)
        if not terms.patience or state.best == state.rounds:
            best = state.scores[_judged_rows(known)]
        over = finished(state, terms)
        if over:
            state = concluded(state, terms)
        part = replace(part, ensemble=state.ensemble)
        active.say_rounds(metered.values(), state.rounds, trees)
        brought.keep(part, {**_stored(state), "best": best, "ended": over})
        told.finished(state.rounds, judged.figures(known, state))
    for source in remote.values():
        source.close()
    return part, best


def _met(channel: Channel, name: str, brought: Brought) -> RemoteFeatures:
    """A passive's features, with trees of its cells from this meeting or an earlier one."""
    counter = brought.cells.counter(name)
    began = time.perf_counter()
    met = active.meet(channel, len(brought.binned), counter, brought.cells.made(name))
    if met.fresh:
        brought.cells.keep(name, met.made)
        cells, seconds = len(brought.binned) * len(met.described.bins), time.perf_counter() - began
        brought.sink.emit(Noted(f"set-up with {name}: {cells:,} cells in {seconds:.1f} s"))
    return RemoteFeatures(channel, met, counter, hidden=brought.settings.hidden)


def _judged_rows(known: Labelled) -> NDArray[Any]:
    return known.held_out if len(known.held_out) else known.rows


def _stored(state: State) -> dict[str, Any]:
    """What is stored of a state, in addition to its trees."""
    return {
        "round": state.rounds,
        "scores": state.scores,
        "losses": np.array(state.losses),
        "held_out_losses": np.array(state.held_out_losses),
    }


def _restored(brought: Brought, known: Labelled) -> State:
    saved, ensemble = brought.state, brought.part.ensemble
    if not saved["round"] or ensemble is None:
        return begin(known)
    return State(ensemble, saved["scores"], tuple(saved["losses"].tolist()), tuple(saved["held_out_losses"].tolist()))


# --- a passive


def train_passive(channels: Mapping[str, Channel], brought: Brought) -> Part:
    """Serve the active until the training is over; this party's part."""
    settings, columns = brought.settings, brought.columns
    lead = settings.active
    channel = Metered(channels[lead])
    table = Table(brought.binned, columns.bins.bins, columns.bins.ordered, columns.signs)
    counter, saved = brought.cells.counter(lead), brought.cells.held(lead)
    held = passive.meet(channel, table, counter, saved)
    if held is not saved:
        brought.cells.keep(lead, held)
    server = _Passive(brought, {lead: channel})
    plan = Plan(
        settings.train.trees,
        MOST_CLASSES if settings.train.objective == "softmax" else 1,
        1 << (settings.train.depth - 1),
    )
    least, hidden = settings.privacy.least, settings.hidden
    passive.serve(channel, held, counter, least, hidden=hidden, plan=plan, after=server.after)
    server.store(ended=True)
    return server.part


class _Passive:
    """What a passive keeps and tells while it serves."""

    def __init__(self, brought: Brought, channels: Mapping[str, Metered]) -> None:
        self.part = brought.part
        self._brought, self._channels = brought, channels
        self._earlier = Counter(brought.part.won)  # in rounds before this meeting
        self._round = int(brought.state["round"])
        self._told: _Told | None = None

    def after(self, rounds: Rounds, tally: Tally) -> None:
        """Store which splits won, and tell of the round."""
        self.part = replace(self.part, won=self._earlier + tally.won)
        if self._told is None:
            self._told = _Told(self._brought, self._channels, rounds.trees, len(self.part.columns.columns))
        if rounds.done != self._round:
            self._round = rounds.done
            self.store(ended=False)
            self._told.finished(rounds.done, {})

    def store(self, *, ended: bool) -> None:
        self._brought.keep(self.part, {"round": self._round, "ended": ended})
