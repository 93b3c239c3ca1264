"""Whether a masked upload depends on what it hides.

A perfect mask makes an upload independent of the update. The simplest dependence is a line: uploads under float masks
from a bounded interval still rise and fall with what they hide, and the more often the same weights are uploaded, the
clearer. `audit_masks` measures that correlation over the numbers of all uploads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tacit.audit.finding import Finding, Score
from tacit.kinds.horizontal.attacks.view import record
from tacit.kinds.horizontal.protections import one_of
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Task

Numbers = NDArray[Any]
CONFIDENCE = 0.999


def correlation(hidden: Numbers, uploads: Numbers, confidence: float = CONFIDENCE) -> Score:
    """The size of the correlation of uploads with what they hide, over all numbers; 0 if the masks are perfect.

    Source of the interval: Fisher 1915, the z-transform.
    """
    one, other = np.ravel(hidden).astype(np.float64), np.ravel(uploads).astype(np.float64)
    if one.shape != other.shape or len(one) < 10:
        raise ValueError(f"need as many uploaded numbers as hidden ones, at least 10, got {len(other)} and {len(one)}")
    if one.std() == 0 or other.std() == 0:
        raise ValueError("numbers that are all the same correlate with nothing: hide different ones")
    found = abs(float(np.corrcoef(one, other)[0, 1]))
    reach = -float(ndtri((1 - confidence) / 2)) / math.sqrt(len(one) - 3)
    middle = math.atanh(min(found, 1 - 1e-15))
    low, high = max(0.0, math.tanh(middle - reach)), math.tanh(middle + reach)
    return Score("correlation with what is hidden", found, low, high, confidence, 0.0, len(one))


def audit_masks(hidden: Numbers, uploads: Numbers, protection: str, confidence: float = CONFIDENCE) -> Finding:
    """Compare uploads with what they hide: a row for each."""
    return Finding(
        attack="correlation of masked uploads with what they hide",
        adversary="server, honest but curious",
        sees="the masked upload of each client",
        protection=protection,
        off=correlation(hidden, hidden, confidence),
        on=correlation(hidden, uploads, confidence),
        not_tested=("dependences that are no line", "keys and random bits that are not random"),
    )


def audit_federation_masks(settings: Settings, task: Task, confidence: float = CONFIDENCE) -> Finding:
    """Compare the uploads of one masked round with the updates in them, which the same round in the clear shows."""
    if not settings.masked:
        raise ValueError(f"{settings.updates.name} has no masks: take {one_of('masked')}")
    clear = settings.model_copy(update={"encrypt": type(settings.encrypt)()})
    hidden, masked = record(clear, task).uploads(), record(settings, task).uploads()
    both = sorted(hidden.keys() & masked.keys())
    stacked = [np.stack([uploads[client] for client in both]) for uploads in (hidden, masked)]
    protection = f"{settings.updates.name}, {len(both)} clients"
    return audit_masks(stacked[0], stacked[1], protection, confidence)
