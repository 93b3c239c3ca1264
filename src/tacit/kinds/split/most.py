"""What a run brings a party's ledgers to at most, unless it is interrupted: what its site reserves before it joins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tacit.config.local import Local
from tacit.dp.accounting import Ledger
from tacit.dp.release import Event
from tacit.errors import BudgetError
from tacit.events import Nowhere
from tacit.kind import Most, Seat
from tacit.kinds.split.party import party_part, stored_ledgers, task_seat, with_options
from tacit.kinds.split.settings import Settings
from tacit.lockstep.run import Place

if TYPE_CHECKING:
    from tacit.kinds.split.task import Part


def most(settings: Settings, seat: Seat, local: Local, folder: Path) -> Most | None:
    """The ledgers of all visits of all records that this party has.

    After alignment there may be fewer, and under train.steps each is visited more often then. An interruption sends
    some once more. Neither is in it: a payment beyond it is looked at when it is made.
    """
    place = Place(None, Nowhere(), local, folder, apart=True)
    part = party_part(settings, seat.name, place)

    from tacit.kinds.split.common_terms import record_ledger
    from tacit.kinds.split.task import Trunk, Unfitted
    from tacit.kinds.split.tasks.load import fitted_part

    if isinstance(part, Unfitted):
        rows = np.arange(len(part.ids))
        part = fitted_part(with_options(settings, place), task_seat(settings, seat.name, place), part, rows)
    if isinstance(part, Trunk):
        return None
    ledgers: dict[str, Ledger] = {}
    for name, event, count in _prices(settings, part):
        fresh = Ledger("label", "replace-one") if event.unit == "label" else record_ledger(settings)
        ledger = ledgers.setdefault(name, fresh)
        try:
            for times in [count] if ledger.budget is None else [1] * count:
                ledger.spend(event, times)
        except BudgetError:
            continue  # there the party itself stops
    stored = stored_ledgers({name: each.to_json() for name, each in ledgers.items()})
    return Most(stored["ledgers"], tuple(_uncovered(settings, part)))


def _uncovered(settings: Settings, part: Part) -> Iterator[str]:
    """What crosses of this party's records and labels without noise."""
    from tacit.kinds.split.task import Bottom, Ends, Top

    if isinstance(part, Bottom | Ends) and (settings.embedding is None or settings.embedding.eps is None):
        yield "activations"
    # Gradients that depend on nothing but labels cost no more than the labels did.
    labels_only = isinstance(part, Top) and part.bottom is None and settings.label is not None
    if isinstance(part, Top | Ends) and settings.gradients.protection == "none" and not labels_only:
        yield "gradients"


def _prices(settings: Settings, part: Part) -> Iterator[tuple[str, Event, int]]:
    """Which ledger pays what how often, as the leader and the followers do while they train."""
    from tacit.kinds.split.common_terms import EVALUATION, LABELS, RECORDS, bits_of, schedule_of
    from tacit.kinds.split.costs import gradient_noise
    from tacit.kinds.split.task import Bottom, Ends, Top, Trunk

    if isinstance(part, Trunk) or not len(part.train):
        return
    schedule = schedule_of(settings, len(part.train))
    if settings.embedding is not None and isinstance(part, Bottom | Ends):
        bits, vectors = bits_of(part.cut)
        event = settings.embedding.event(bits, 1, vectors)
        if event is not None:
            yield RECORDS, event, schedule.visits
            if len(part.test) and (evaluations := schedule.evaluations(settings.evaluate)):
                yield EVALUATION, event, evaluations
    if isinstance(part, Bottom):
        return
    if settings.label is not None:
        yield LABELS, settings.label.event, 1
    noise = gradient_noise(settings, schedule)
    if noise is not None:
        for cut in part.cuts.values() if isinstance(part, Top) else [part.back_cut]:
            yield RECORDS, noise.event(bits_of(cut)[0]), schedule.visits
