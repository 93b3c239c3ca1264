"""What the active lets a passive have of counts of labels, and what it refuses, and why.

    Terms               what its own file and this program allow
    told_bits           how much the counts can tell about all labels together
    refusal, once       why a request is refused: in words for the passive, and in others for the active's own user
    kept, gave_counts   a record of this training; whether there is one of an answer

What a passive is told says nothing about the labels, but that they are not two classes or too few of one.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tacit.crypto.byte_strings import frame
from tacit.errors import PeerError
from tacit.fixedpoint import Ints
from tacit.kinds.vertical_logistic.protocol.journal import Records
from tacit.kinds.vertical_logistic.protocol.label_count_messages import Asked, CountRequest, Given
from tacit.kinds.vertical_logistic.protocol.sparsity import FEWEST
from tacit.kinds.vertical_logistic.settings import LEAST_COUNTED
from tacit.wire import decode, encode

LEAST = LEAST_COUNTED  # rows of a group, at least
MOST_OF_A_COLUMN = 100  # groups
MOST = 20_000  # groups of all columns together: a message about them stays below 30 MB
SHARE = 0.5  # bits about each label that the counts may tell, on average
REPEATS = 8  # times that a passive is answered in one run
ASKED = "label-counts-asked"  # a passive's record
_GIVEN = "label-counts-"  # records of the active, one a passive
_RECORD = 1 << 10  # bytes
Kept = TypeVar("Kept", Given, Asked)
Refusal = tuple[str, str, type[Exception]]  # to the passive, to its own user, and whose mistake it is


@dataclass(frozen=True)
class Terms:
    """What the active lets a passive have.

    Args:
        allowed: `data.label_counts` of the active's own file.
        least: rows that every group must have.
        share: bits that all counts together may tell about each label, on average: with 1 they determine the labels.
        repeats: how often the same request is answered in one training, and how often any is in all trainings that
            begin anew in one run: a passive that leaves before the first step may begin again with other groups.
    """

    allowed: bool
    least: int = LEAST
    share: float = SHARE
    repeats: int = REPEATS


def told_bits(rows: int, columns: int, groups: int) -> float:
    """The entropy of all counts together if labels are fair coins, at most.

    A count of m labels has at most ½ log₂(2πe(m/4 + 1/12)) bits, the most if all groups are of one size. Of every
    column but the first, one count follows from the others. Labels that are not fair coins have less entropy, and so
    have their counts. Which groups were sparse comes on top: at most a bit for each group and test.
    Source: Cover, Thomas 2006, theorem 8.6.5 and problem 8.7 (a discrete entropy by the variance).
    """
    size = rows * columns / groups
    return (groups - columns + 1) * 0.5 * math.log2(2 * math.pi * math.e * (size / 4 + 1 / 12))


def refusal(request: CountRequest, passive: str, labels: Ints, terms: Terms) -> Refusal | None:
    """Why the active gives no counts."""
    asks = f"{passive} asks for counts of labels in {request.groups} groups of {request.columns} columns"
    if not terms.allowed:
        return (
            "the active does not allow counts of labels (data.label_counts in its own file): take no column as woe",
            f"{asks}, and this party's file does not allow it: set data.label_counts: true if {passive} may have them",
            PeerError,
        )
    if labels.ndim != 1 or not np.isin(labels, (0, 1)).all():
        own = "counts of labels need labels of two classes, 0 and 1: set data.label_counts: false"
        return "the active's labels are not of two classes: take no column as woe", own, ValueError
    rows, positives = len(labels), int(labels.sum())
    if min(positives, rows - positives) < FEWEST:
        own = f"the training rows have {positives} positives of {rows}: counts need {FEWEST} of either class or more"
        return "the active's labels have too few of one class for counts", own, ValueError
    bounds = {
        f"over {request.rows} rows, the active has {rows}: they must be the same people": request.rows == rows,
        f"with groups of {request.least} rows or more, the active asks for {terms.least} (least)": (
            request.least >= terms.least
        ),
        f"of {request.columns} columns: each has a group or more": 1 <= request.columns <= request.groups,
        f"above the limit of {MOST_OF_A_COLUMN} a column": request.groups <= MOST_OF_A_COLUMN * request.columns,
        f"above the limit of {MOST} in all": request.groups <= MOST,
        f"which {rows} rows do not have with {request.least} in each": (
            request.groups * request.least <= request.columns * rows
        ),
    }
    if all(bounds.values()):
        told = told_bits(rows, request.columns, request.groups)
        words = (
            f"tell up to {told:.0f} bits about {rows} labels, above {terms.share:g} for each: take fewer woe columns"
        )
        bounds[f"{words} or bins"] = told <= terms.share * rows
    for words, holds in bounds.items():
        if not holds:
            return f"{request.groups} groups {words}", f"{asks}; refused: {request.groups} groups {words}", PeerError
    return None


def once(request: CountRequest, passive: str, session: bytes, records: Records, terms: Terms) -> Refusal | None:
    """Why this request is one too many; otherwise it is stored that it is answered, before anything is sent."""
    name = f"{_GIVEN}{hashlib.sha256(passive.encode()).hexdigest()[:32]}"
    digest = hashlib.sha256(frame(b"tacit label count request", encode(request))).digest()
    before = _record(records, name, Given)  # of this training, or of one before it in the same run
    same = before is not None and before.session == session
    if before is not None and same and before.request != digest:
        return (
            "the active gave counts of labels for other groups in this training: one binning a column. Take the groups "
            "as they were, or start all parties anew",
            f"{passive} asks for counts of labels once more in this training, for other groups: refused, because "
            "differences of counts would tell single labels",
            PeerError,
        )
    times = 1 if before is None else before.times + 1
    if times > terms.repeats and not same:
        return (
            f"the active gave counts of labels {terms.repeats} times in this run and gives no others: start all "
            "parties anew",
            f"{passive} asks for counts of labels in one more training that begins anew in this run, after "
            f"{terms.repeats} times: refused, because counts of other groups or rows tell more each time; find out why "
            "it is restarted, and start all parties anew",
            PeerError,
        )
    if times > terms.repeats:
        return (
            f"the active gave these counts {terms.repeats} times in this training and does not repeat them again",
            f"{passive} asks for the same counts of labels again, after {terms.repeats} times in this training: "
            "refused; find out why it is restarted",
            PeerError,
        )
    records.write(name, encode(Given(session, digest, times)))
    return None


def gave_counts(records: Records, session: bytes) -> bool:
    """Whether the active answered a request in this training."""
    names = [name for name in records.read() if name.startswith(_GIVEN) and name != ASKED]
    return any(kept(records, session, name, Given) is not None for name in names)


def kept(records: Records, session: bytes, name: str, kind: type[Kept]) -> Kept | None:
    """A record of this training."""
    record = _record(records, name, kind)
    return record if record is not None and record.session == session else None


def _record(records: Records, name: str, kind: type[Kept]) -> Kept | None:
    data = records.read().get(name)
    return None if data is None else decode(data, kind, _RECORD)
