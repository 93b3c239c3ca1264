"""The rows of an alignment, kept until a training stores its first state."""

from __future__ import annotations

import numpy as np

from tacit.kinds.vertical_logistic.kept_rows import RECORD, KeptRows, keep, kept
from tacit.kinds.vertical_logistic.protocol.journal import InMemory
from tacit.store.journal_files import RecordFiles


def test_rows_come_back_as_they_were_and_later_ones_replace_them(tmp_path):
    for rows in (np.array([5, 0, 2**40]), np.array([], dtype=np.int64)):
        keep(RecordFiles(tmp_path), KeptRows(b"s" * 16, "ab" * 32, rows))
        found = kept(RecordFiles(tmp_path))
        assert (found.session, found.people, found.rows.tolist()) == (b"s" * 16, "ab" * 32, rows.tolist())


def test_nothing_is_kept_where_nothing_was_stored_or_it_is_cut():
    records = InMemory()
    assert kept(records) is None
    records.write(RECORD, bytes(47))
    assert kept(records) is None
