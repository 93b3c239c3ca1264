"""What can go wrong, and whose fault it was.

ValueError            the caller's mistake (Python's own; the message gives value, bound and remedy)
  ├─ Unfit            one that the other parties may be told: its sentence holds names, shapes and counts only
  ├─ Diverged         the settings make the training diverge: its user can mend that
  ├─ TaskError        a task's own function returns what cannot be used: its author can mend that
  └─ NotResumed       this party was started anew, and the others resume a training: its user can mend that
TacitError
  ├─ PeerError        another party broke the protocol; nothing was sent in reply
  │    └─ PeerAway    another party is away or was interrupted: nothing is broken, and a later start resumes the run
  ├─ BudgetError      a release would exceed the privacy budget; nothing was spent or sent
  └─ Declined         this party does not answer a message, by a limit of its own, and takes part from the next on
"""

from __future__ import annotations

import errno
from concurrent.futures import BrokenExecutor

_PASSING = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EIO,
    errno.EFBIG,
}  # faults of the machine


class Unfit(ValueError):
    """A mistake of this party in a sentence that may be told to the others: it holds names, shapes and counts only."""


class Diverged(ValueError):
    """A training whose numbers grow without end, as with a learning rate that is too large: its user can mend that."""


class TaskError(ValueError):
    """What a function of a task returned cannot be used, or its model cannot be trained so: its author can mend that.

    It is raised by our code, so that its sentence says more than a traceback.
    """


class NotResumed(ValueError):
    """This party holds nothing of the training that the others resume: its user can mend that, and the others wait."""


class TacitError(Exception):
    """Any failure that is not the caller's mistake."""


class PeerError(TacitError):
    """Another party sent what the protocol does not allow."""


class PeerAway(PeerError):
    """Another party is away, stopped or was started again: this party can resume once it is back."""


class BudgetError(TacitError):
    """A release was refused because it would exceed the privacy budget."""


class Declined(TacitError):
    """A message that this party does not answer, though nobody broke the protocol. Others may be told why."""


TOLD = (PeerError, BudgetError, Declined, Unfit)  # errors whose sentence the others may hear


def comes_back(error: BaseException | None) -> bool:
    """Whether a party that this ends can resume later, so that the others should wait for it."""
    if isinstance(error, OSError):
        return error.errno in _PASSING
    # A worker process that ends abruptly was killed, mostly for want of memory.
    return isinstance(error, KeyboardInterrupt | PeerAway | NotResumed | MemoryError | BrokenExecutor)


def loggable(error: BaseException) -> str:
    """What a log may say of an error: words that are ours, or the machine's; of others the type, as they may quote a
    record."""
    if isinstance(error, (*TOLD, NotResumed)):
        return str(error)
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
