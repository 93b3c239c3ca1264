"""Names that moved: see `protections` and `masked`."""

from __future__ import annotations

from tacit.kinds.horizontal.masked import inside_of as masked_sum
from tacit.kinds.horizontal.masked import secure_context
from tacit.kinds.horizontal.protections.contract import UnusableUpdate
from tacit.kinds.horizontal.protections.distributed_dp import NoisySum, skellam_encoding
from tacit.kinds.horizontal.protections.local_dp import LocalDP
from tacit.kinds.horizontal.protections.secure_aggregation import WeightedSum

__all__ = [
    "LocalDP",
    "NoisySum",
    "UnusableUpdate",
    "WeightedSum",
    "masked_sum",
    "secure_context",
    "skellam_encoding",
]
