"""What a federation on Flower does not do."""

from __future__ import annotations

from tacit.kinds.horizontal.settings import Settings


def refuse_record_privacy(settings: Settings) -> None:
    """ValueError if clients are to train privately: a node's state, which Flower keeps, has no ledger of records."""
    if settings.train.privacy is not None:
        raise ValueError(
            "train.privacy: a client on Flower keeps no ledger of its records: start the parties by tacit join, or "
            "leave it out"
        )
