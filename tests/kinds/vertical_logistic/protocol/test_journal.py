"""The journal of a party's last steps."""

from __future__ import annotations

import os

import numpy as np

from tacit.kinds.vertical_logistic.protocol.journal import Course, InMemory, Journal, Point, digest_of
from tacit.kinds.vertical_logistic.protocol.model import Saved, Scaler


def journal_of(records: InMemory) -> Journal:
    saved = Saved.start(bytes(16), Scaler.identity(2))
    journal = Journal(records, Course(8, lambda epoch: epoch), saved)
    journal.allowed = 2
    return journal


def answered(journal: Journal, position: int, residues: bytes = b"same") -> bytes:
    received = digest_of(position, np.arange(3), residues)
    return journal.reply(Point(position, np.zeros((2, 1)), np.zeros(1)), received, lambda: (os.urandom(8), b""))[0]


def test_an_answer_that_is_missing_between_two_others_is_not_given_anew_without_being_counted():
    """Kills while old records are removed may leave a gap, and a peer may claim a restart before it."""
    records = InMemory()
    journal = journal_of(records)
    answered(journal, 0)
    first = records.kept["step-0"]
    for position in (1, 2, 3):
        answered(journal, position)
    records.kept["step-0"] = first  # its removal was not reached; that of step 1 was
    assert sorted(records.kept) == ["step-0", "step-2", "step-3"]
    again = journal_of(records)
    assert again.uses == 1
    answered(again, 0)  # the epoch begins once more: every row is used again, and that is counted
    assert again.uses == 2


def test_steps_that_follow_each_other_are_kept():
    records = InMemory()
    journal = journal_of(records)
    answers = [answered(journal, position) for position in range(4)]
    again = journal_of(records)
    assert again.positions == (0, 2, 3)
    assert [answered(again, 2), answered(again, 3)] == answers[2:]
    assert again.uses == 1


def test_a_passive_has_no_answer_to_the_evaluation_of_an_epoch():
    course = Course(8, lambda epoch: epoch)
    assert course.follows(9, 7)  # 8 is the evaluation
    assert not course.follows(8, 6)


def test_records_of_other_steps_of_the_protocol_are_left_alone():
    """Counts of labels keep theirs in the same place."""
    records = InMemory({"label-counts-asked": b"not a step"})
    journal = journal_of(records)
    for position in range(4):
        answered(journal, position)
    assert records.kept["label-counts-asked"] == b"not a step"
    assert sorted(records.kept) == ["label-counts-asked", "step-2", "step-3"]
    assert journal_of(records).positions == (0, 2, 3)
