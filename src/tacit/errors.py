"""What can go wrong, and whose fault it was.

ValueError            the caller's mistake (Python's own; the message gives value, bound and remedy)
  ├─ StartedAnew      a coordinator without the state of the run that its clients are in
  └─ Unfit            one that the other parties may be told: its sentence holds names, shapes and counts only
TacitError
  ├─ PeerError        another party broke the protocol; nothing was sent in reply
  │    └─ PeerAway    another party is away or was interrupted: nothing is broken, and a later start resumes the run
  └─ BudgetError      a release would exceed the privacy budget; nothing was spent or sent
"""

from __future__ import annotations

import errno

_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}


class Unfit(ValueError):
    """A mistake of this party in a sentence that may be told to the others: it holds names, shapes and counts only."""


class StartedAnew(ValueError):
    """A coordinator was started without its state, while its clients are in the middle of a run."""


class TacitError(Exception):
    """Any failure that is not the caller's mistake."""


class PeerError(TacitError):
    """Another party sent what the protocol does not allow."""


class PeerAway(PeerError):
    """Another party is away, stopped or was started again: this party can resume once it is back."""


class BudgetError(TacitError):
    """A release was refused because it would exceed the privacy budget."""


TOLD = (PeerError, BudgetError, Unfit)  # errors whose sentence the others may hear


def passing(error: BaseException) -> bool:
    """Whether an error is the machine's and can be mended, such as a full disk: a later start resumes the run."""
    return isinstance(error, OSError) and error.errno in _PASSING
