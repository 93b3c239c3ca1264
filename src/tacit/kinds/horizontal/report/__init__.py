"""The pages of federations: `single` of one run, `comparison` of several, `participant` of a client's own folder."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.kinds.horizontal.participation import is_of_clients, participation
from tacit.kinds.horizontal.report.comparison import comparison
from tacit.kinds.horizontal.report.participant import participant
from tacit.kinds.horizontal.report.single import single
from tacit.kinds.horizontal.rounds_view import rounds_of
from tacit.kinds.horizontal.settings import Settings
from tacit.report.figure import Report
from tacit.store.record import Record


def report(records: Sequence[Record[Settings]], share: bool) -> Report:
    """The page of one run, or of several."""
    for record in records:
        if is_of_clients(record.party):
            if len(records) > 1:
                raise ValueError(
                    f"{record.path}: this is the folder of clients, which has a page of its own: give it alone"
                )
            return participant(participation(record), share)
    views = [rounds_of(record) for record in records]
    return single(views[0], share) if len(views) == 1 else comparison(views, share)
