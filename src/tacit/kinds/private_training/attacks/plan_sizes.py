"""A file's plan for another number of records, or of owners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacit.training.plan import Plan


def with_units(plan: Plan, units: int, batch: int, records: int | None = None, **changed: Any) -> Plan:
    """So many units, of which `batch` are in a sample on average, with the same noise on the count of unclipped ones.

    `records`: of all owners together; as many for each as may take part, if it is not given.
    """
    if plan.unit == "owner":
        sizes = {"records": records or units * of_each(plan), "owners": units}
    else:
        sizes = {"records": units}
    noise = plan.count_noise * plan.batch / batch
    return replace(plan, **{**sizes, "batch": batch, "truncate": None, "count_noise": noise, **changed})


def of_each(plan: Plan) -> int:
    """Records of a unit that may be in a sample together."""
    return plan.records_per_owner or 1
