"""What a party looks after as long as it is on a network: the days of certificates, and the revocation list.

upkeep = Upkeep(credentials, say, changed, peers)
upkeep.run()                once a second: reads a list that has changed, and says once a day what will expire
upkeep.take(data, sender)   takes a list that another party sent
upkeep.warn_of_peers()      says what will expire of those who are there; at most once a day
tell_list(server, revocations, names)       at the party that others connect to: it passes its list on
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

from tacit.channel import sentence
from tacit.errors import PeerError
from tacit.net.certificates import WARNING_DAYS, read_certificate
from tacit.net.handshake import RevokedList
from tacit.net.identity import Credentials, Identity, authority_certificate, certificate_fingerprint
from tacit.net.revocations import Revocations
from tacit.net.transport import Server
from tacit.wire import encode

_DAY = 86_400.0  # seconds between two warnings
_LOOK = 1.0  # seconds between two looks at a file
_REASONS = 3  # for which the log says that another party's list is not used


def own_warnings(credentials: Credentials, now: datetime | None = None) -> list[str]:
    """What a party should know of its own certificate, and of the authority's."""
    now = now or datetime.now(UTC)
    found = []
    if (left := _left(credentials.expires, now)) is not None:
        remedy = "have the authority sign its request again, and replace the file: no restart is needed"
        found.append(f"the certificate of {credentials.name} {_when(left, credentials.expires)}: {remedy}")
    ends = authority_certificate(credentials.authority).not_valid_after_utc
    if (left := _left(ends, now)) is not None:
        remedy = "all parties need a new authority and new certificates before that day"
        found.append(f"the authority's certificate {_when(left, ends)}: {remedy}")
    return found


def own_revocation(credentials: Credentials) -> str | None:
    """Why others refuse this party, as far as it knows their list; None if they do not."""
    own = read_certificate(credentials.certificate)
    return credentials.revocations.reason(credentials.name, own.serial_number, certificate_fingerprint(own))


def peers_warning(peers: Iterable[Identity], now: datetime | None = None) -> str | None:
    """How many of those who are there have certificates that expire soon, and which is the first."""
    now = now or datetime.now(UTC)
    soon = sorted((each.expires, each.name) for each in peers if _left(each.expires, now) is not None)
    if not soon:
        return None
    (first, name), count = soon[0], len(soon)
    number = "the certificate of 1 party expires" if count == 1 else f"the certificates of {count} parties expire"
    return f"{number} within {WARNING_DAYS} days, first that of {name} on {first:%Y-%m-%d}"


def _left(ends: datetime, now: datetime) -> int | None:
    """Days, if they are few."""
    days = (ends - now).days
    return days if days < WARNING_DAYS else None


def _when(days: int, ends: datetime) -> str:
    return f"expired on {ends:%Y-%m-%d}" if days < 0 else f"expires in {days} days, on {ends:%Y-%m-%d}"


class Upkeep:
    """One party's. Everything runs in its event loop.

    Args:
        changed: is awaited when there is a newer list, in the party's own file or from the party that listens.
        peers: those who are there, as their certificates say.
    """

    def __init__(
        self,
        credentials: Credentials | None,
        say: Callable[[str], None],
        changed: Callable[[], Awaitable[None]],
        peers: Callable[[], Iterable[Identity]] = tuple,
    ) -> None:
        self._credentials = credentials
        self._say = say
        self._changed = changed
        self._peers = peers
        self._warned = -math.inf  # when, of its own certificate
        self._warned_of_peers: float | None = None
        self._refused: set[str] = set()  # why lists of others were not used, as it was said
        self._number = 0  # of the last list that it was looked up in

    async def run(self) -> None:
        """Until it is cancelled."""
        if self._credentials is None:
            return
        failed = ""
        while True:
            try:
                await self._look(self._credentials)
            except Exception as error:  # such as a full disk: it must not end this for good, without a word
                if failed != (failed := sentence(str(error))):
                    self._say(f"the certificates and the revocation list could not be looked after: {failed}")
            await asyncio.sleep(_LOOK)

    async def take(self, data: bytes, sender: str) -> None:
        """Go by a list that another party sent from now on, if it is the authority's and newer than ours."""
        if self._credentials is None:
            raise PeerError("a revocation list, although there are no certificates")
        revocations = self._credentials.revocations
        try:
            newer = revocations.take(data)
        except PeerError as error:
            reason = f"the revocation list of {sender} is not used: {error}"
            if reason not in self._refused and len(self._refused) < _REASONS:
                self._refused.add(reason)
                self._say(reason)
            return
        if newer:
            self._say(f"{sender} sent {revocations.newest.words}: it is used from now on")
            await self._changed()

    async def _look(self, credentials: Credentials) -> None:
        if time.monotonic() - self._warned >= _DAY:
            self._warned = time.monotonic()
            for warning in own_warnings(credentials.renewed(self._say)):
                self._say(warning)
        if self._warned_of_peers is not None:
            self.warn_of_peers()
        if credentials.revocations.read(self._say):
            await self._changed()
        if (number := credentials.revocations.newest.number) != self._number:  # its own file has it, or another party
            self._number = number
            if (reason := own_revocation(credentials.renewed(self._say))) is not None:
                self._say(reason)

    def warn_of_peers(self) -> None:
        """Called when those are there whose certificates count."""
        if self._warned_of_peers is None or time.monotonic() - self._warned_of_peers >= _DAY:
            self._warned_of_peers = time.monotonic()
            if (warning := peers_warning(self._peers())) is not None:
                self._say(warning)


def tell_list(server: Server, revocations: Revocations, names: Iterable[str]) -> None:
    """Send the newest list to those of these parties that know what it is. An older release does not."""
    if not revocations.newest.number:
        return
    frame = encode(RevokedList(revocations.newest.data))
    for name in names:
        if (peer := server.peers.get(name)) is not None and "revocation" in peer.knows:
            server.send(name, frame)
