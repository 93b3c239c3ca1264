"""The built-in task `cancer` with half of its patients: a stopped run that is kept here stays small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tacit.lockstep import cancer

_KEPT = 200


def make_parts(
    parties: Sequence[str], active: str, seed: int, *, align: bool = True, overlap: float = 1.0
) -> dict[str, cancer.Part]:
    """Each party's part of the first patients."""
    parts = cancer.make_parts(parties, active, seed, align=align, overlap=overlap)
    return {
        name: replace(
            part,
            ids=part.ids[:_KEPT],
            features=part.features[:_KEPT],
            labels=None if part.labels is None else part.labels[:_KEPT],
        )
        for name, part in parts.items()
    }
