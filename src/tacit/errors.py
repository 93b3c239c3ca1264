"""What can go wrong, and whose fault it was.

ValueError            the caller's mistake (Python's own; the message gives value, bound and remedy)
TacitError
  ├─ PeerError        another party broke the protocol; nothing was sent in reply
  └─ BudgetError      a release would exceed the privacy budget; nothing was spent or sent
"""

from __future__ import annotations


class TacitError(Exception):
    """Any failure that is not the caller's mistake."""


class PeerError(TacitError):
    """Another party sent what the protocol does not allow."""


class BudgetError(TacitError):
    """A release was refused because it would exceed the privacy budget."""
