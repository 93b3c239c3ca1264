"""Which rows parties have in common, and one order for them. Pure: channels and randomness are arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.door import door

if TYPE_CHECKING:
    from tacit.align.intersection import Alignment, align

__all__ = ["Alignment", "align"]
__getattr__, __dir__ = door(__name__, __all__, {"tacit.align.intersection": "Alignment align"})
