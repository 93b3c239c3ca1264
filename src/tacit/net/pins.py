"""Which keys are whose in this run: those under which a party was met first.

A certificate may be renewed while a run lasts: the keys stay. Other keys for the same name are refused until the run is
over, even if the authority signed them: it may have been deceived, or stolen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tacit.errors import PeerError
from tacit.net.identity import Identity
from tacit.net.revocations import Revocations

_NONE = Revocations()


class Pins:
    """The fingerprints of the parties that were met, by name.

    Args:
        known: of an earlier process of this run.
        store: is called with all of them by `save`, if there are new ones. What depends on a pin leaves after that.

    Guarantee: `meet` passes one pair of keys for each name, in this run. Only if the authority revokes it, which
        `revocations` knows, the name may come back with another.
    Assumes: the first certificate of a name that was shown is the right one.
    """

    def __init__(
        self, known: Mapping[str, str] | None = None, store: Callable[[Mapping[str, str]], None] = lambda known: None
    ) -> None:
        self._known = dict(known or {})
        self._store = store
        self._stored = dict(self._known)

    def meet(self, found: Identity, revocations: Revocations = _NONE) -> None:
        """Remember the keys of a party that is new; PeerError if it was met with others."""
        self.check(found, revocations)
        self._known[found.name] = found.fingerprint

    def check(self, found: Identity, revocations: Revocations = _NONE) -> None:
        """PeerError if a party was met with other keys."""
        known = self._known.get(found.name, found.fingerprint)
        if known != found.fingerprint and not revocations.revoked(known):
            raise PeerError(
                f"{found.name} has other keys (fingerprint {found.fingerprint}) than when it was first met in this run "
                f"({known}): it takes part with those, or in a new run"
            )

    def save(self) -> None:
        known = dict(self._known)  # another thread may add to it meanwhile
        if known != self._stored:
            self._store(known)
            self._stored = known
