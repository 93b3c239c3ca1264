"""The truncation of a file's batches, for a plan of other records: an audit fills up and cuts as a run does."""

from __future__ import annotations

from dataclasses import replace

from tacit.training.plan import Plan
from tacit.training.truncation import log2_exceeding, smallest_size

_FILLED = 16  # records at least, if the file's batches have so many: a canary alone is filled up with copies of itself


def truncated_like(plan: Plan, small: Plan) -> Plan:
    """`small` with batches of one size if `plan` has such: the smallest that cuts samples at most as often.

    Also if its noise is given in place of an epsilon, for which a plan allows fewer cuts.
    """
    small = replace(small, truncate=None)
    if plan.truncate is None:
        return small
    given = replace(small, epsilon=None, noise_multiplier=1.0)
    as_often = log2_exceeding(plan.records + 1, plan.probability, plan.truncate)
    most = min(as_often, small.log2_most_cut, given.log2_most_cut)
    size = max(smallest_size(small.records + 1, small.probability, most), min(plan.truncate, _FILLED))
    if small.physical is None:
        return replace(small, truncate=size)
    return replace(small, physical=min(small.physical, size), truncate=_whole_pieces(size, small.physical))


def filled(plan: Plan) -> int:
    """The records of the smallest batch that `truncated_like` makes, if samples are never larger."""
    size = min(plan.truncate or _FILLED, _FILLED)
    return size if plan.physical is None else _whole_pieces(size, plan.physical)


def _whole_pieces(size: int, physical: int) -> int:
    piece = min(physical, size)
    return -(-size // piece) * piece
