"""Private training at each client: what the file says under `train.privacy`.

    RecordPrivacy           the keys
    most_answers(settings)  how often a client may train: noise is sized for as many, see `record_plan`

Guarantee: all uploads of a client in a run together are (epsilon, delta)-DP for one of its records, or for one owner
    with all its records, added or removed: against anyone who sees them, the coordinator included, who chooses each
    model from the uploads before it. Protections of updates on top are functions of what is released here.
    A round is a private training of `epochs` epochs from a model that does not depend on the records but through
    earlier uploads; its steps are the events of `Plan.ledger`. As many rounds as a client may answer compose to
    epsilon.
Assumes: what `tacit.training.plan.Plan` does: the number of records (of owners) of a client is public. It is not sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from tacit.sections import Added, Count, Delta, Positive, Scale, Section

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings


class RecordPrivacy(Section):
    """What all rounds together may cost each record of a client, or each owner of records."""

    epsilon: Positive
    delta: Delta = 1e-5
    clip: Scale = 1.0  # the norm to which the gradient of a record, or of an owner, is clipped
    tier: Literal["fast", "secure"] = "fast"
    unit: Literal["record", "owner"] = "record"
    # A column of records, or package.module:function.
    owner: Annotated[str | Annotated[int, Field(ge=0)] | None, Added("0.2.0")] = None
    records_per_owner: Annotated[Count | None, Added("0.2.0")] = None  # of an owner in a sample

    @model_validator(mode="after")
    def _owned(self) -> RecordPrivacy:
        owned = self.unit == "owner"
        if owned != (self.owner is not None) or owned != (self.records_per_owner is not None):
            raise ValueError("unit: owner goes with owner and records_per_owner: give all three, or none of them")
        return self


def most_answers(settings: Settings) -> int:
    """How often a client may train in a run, whatever it is asked: noise is sized for as many.

    With `round.participations` a client uploads no more often than that, and under masks it trains as it uploads.
    """
    return min(settings.answers, settings.round.participations or settings.answers)


def weighted(settings: Settings) -> bool:
    """Whether a client counts as much as the samples that it says it has. With private training all count alike: how
    many records there are, no epsilon covers."""
    return settings.updates.weighted and settings.train.privacy is None


def largest_weight(settings: Settings) -> int:
    """The most that one client may count."""
    return settings.encrypt.pw_encrypt.largest_weight if settings.train.privacy is None else 1
