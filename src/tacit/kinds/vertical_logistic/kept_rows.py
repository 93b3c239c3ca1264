"""The rows that all parties have in common, kept from the alignment on until a training stores its first state.

    keep(records, rows)                 before anything is asked or answered about labels
    kept(records)                       after a restart: the training that they are of, and the rows

An alignment gives the common rows in a new random order, and with it other training rows. A party that is started again
while labels are counted, or right after it, must count them over the same rows: counts over other rows would be other
counts, and their differences tell single labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.kinds.vertical_logistic.protocol.batches import Rows
from tacit.kinds.vertical_logistic.protocol.journal import Records
from tacit.lockstep.resumption import SESSION_BYTES

RECORD = "aligned"
_DIGEST = 32
_HEAD = SESSION_BYTES + _DIGEST


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows:
    """The rows of a training, as numbers of this party's table.

    Args:
        people: a digest of the rows' ids and the columns' names.
    """

    session: bytes
    people: str
    rows: Rows


def keep(records: Records, rows: KeptRows) -> None:
    """Store the rows. An earlier training's are replaced."""
    records.write(RECORD, rows.session + bytes.fromhex(rows.people) + rows.rows.astype("<i8").tobytes())


def kept(records: Records) -> KeptRows | None:
    """What `keep` stored, if anything."""
    data = records.read().get(RECORD)
    if data is None or len(data) < _HEAD:
        return None
    rows = np.frombuffer(data[_HEAD:], dtype="<i8").astype(np.int64)
    return KeptRows(data[:SESSION_BYTES], data[SESSION_BYTES:_HEAD].hex(), rows)
