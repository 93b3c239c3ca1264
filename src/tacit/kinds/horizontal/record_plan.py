"""The plan of private training at one client: for one round, with noise that is sized for the whole run."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tacit.kinds.horizontal.record_privacy import RecordPrivacy
from tacit.kinds.horizontal.settings import Training
from tacit.training.plan import Plan


def round_plan(train: Training, answers: int, records: int, owners: int | None = None) -> Plan:
    """The plan of one round at a client with so many records, if it may answer `answers` times in the run."""
    assert train.privacy is not None  # noqa: S101  # asked only where the file has it
    return _round_plan(train.privacy, train.epochs, train.batch, answers, records, owners)


@lru_cache(maxsize=1 << 16)
def _round_plan(
    privacy: RecordPrivacy, epochs: int, batch: int, answers: int, records: int, owners: int | None
) -> Plan:
    whole = Plan(
        records=records,
        batch=min(batch, records if owners is None else owners),
        epochs=epochs * answers,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        clip=privacy.clip,
        tier=privacy.tier,
        unit=privacy.unit,
        owners=owners,
        records_per_owner=privacy.records_per_owner,
    )
    return replace(whole, epochs=epochs, epsilon=None, noise_multiplier=whole.initial_noise)
