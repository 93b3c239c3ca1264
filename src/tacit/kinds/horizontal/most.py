"""What a run brings a client's ledgers to at most: what its site reserves before the client joins."""

from __future__ import annotations

from collections.abc import Iterator

from tacit.config.local import Local
from tacit.kind import Most, Seat
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.protections.contract import Covers
from tacit.kinds.horizontal.record_level import promised
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout


def most(settings: Settings, seat: Seat, local: Local) -> Most | None:
    """The ledgers after every answer that a client may give within the budget of the file; None for the coordinator.

    Rounds that may be abandoned count: a client that was sent the model has paid for its own noise.
    """
    if not seat.clients:
        return None
    task = tasks.make(settings.task, settings.clients, settings.seed, {**settings.task_options, **local.task_options})
    costs = Costs(settings, Layout.of(task.model()).size)
    uploads = costs.affordable(0, 0, min(settings.answers, settings.round.participations or settings.answers))
    spent = costs.spent(uploads, min(uploads, settings.most_sums)) if uploads else []
    return Most([each.to_json() for each in [*spent, *promised(settings)]], tuple(_uncovered(settings)))


def _uncovered(settings: Settings) -> Iterator[Covers]:
    """What a client sends of its records that neither noise nor private training covers."""
    if not settings.updates.promises and settings.train.privacy is None:
        yield "updates"
    if settings.unsupervised is not None and not settings.vectors.promises:
        yield "inference vectors"
