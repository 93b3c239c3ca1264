"""The scores of a run beside its losses.

A client infers on the model that it is sent: the score of a round is that of the model with which the round began. The
loss on the coordinator's data is measured at the end of a round, so the one that belongs to a score is that of the last
finished round before it; a training loss belongs to its own round.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.kinds.horizontal.rounds_view import Rounds
from tacit.report.chart import number

LOSS = "loss"  # of the metrics of a task


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss that a run is judged by."""

    name: str
    field: str  # of the event RoundFinished
    by_round: dict[int, float]


def loss(record: Rounds, *, covered: frozenset[str] | None = None) -> Loss | None:
    """The loss on the coordinator's data, or else the training loss. `covered`: only these fields may be used."""
    held_out = {event.round: value for event in record.rounds if (value := number(event.metrics.get(LOSS))) is not None}
    training = {event.round: value for event in record.rounds if (value := number(event.training_loss)) is not None}
    for found in (
        Loss("loss on the coordinator's data", "metrics", held_out),
        Loss("training loss", "training_loss", training),
    ):
        if found.by_round and (covered is None or found.field in covered):
            return found
    return None


def pairs(record: Rounds, losses: Loss) -> dict[int, tuple[float, float]]:
    """The loss and the score of one model, by the round of the score."""
    found = {}
    for round, score in record.scores.items():
        if losses.field == "training_loss":
            value = losses.by_round.get(round)
        else:
            before = [number for number in losses.by_round if number < round]
            value = losses.by_round[max(before)] if before else None
        if value is not None and number(score) is not None:
            found[round] = (value, score)
    return found
