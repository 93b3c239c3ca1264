"""The shares that clients reveal, the secrets that come of them though some are wrong, and who is to blame for that.

An owner publishes a hash of every share when it seals it, and the holder keeps only what matches. So a revealed share
that does not match its hash is the revealer's fault; and if shares that all match do not open what their owner promised
(its commitment, its public key), that is the owner's fault. Neither is a guess, and no client can make it look so for
another: see `session.share_hash`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tacit.crypto import shamir
from tacit.errors import PeerError
from tacit.secagg.messages import Shares
from tacit.secagg.session import HASH_BYTES, MASKING, SELF_MASK, share_hash

DECODINGS = 16  # in one round: owners that lie must not buy more of the server's time
_PAIR = 2 * HASH_BYTES
_DEALT_WRONG = "its shares match the hashes that it published and do not open what it committed to"

Row = NDArray[np.uint32]
Matches = Callable[[int, int, Row], bool]  # whether a share of an owner, as its holder revealed it, has the hash


class PublishedHashes:
    """The hashes of its shares that each owner published: a pair for each of its holders, in their order."""

    def __init__(self, holders: Callable[[int], tuple[int, ...]]) -> None:
        self._holders = holders
        self._hashes: dict[int, bytes] = {}

    def check(self, message: Shares) -> None:
        """PeerError unless there is one pair for each holder."""
        holders = len(self._holders(message.sender))
        if len(message.hashes) != holders * _PAIR:
            raise PeerError(f"{holders} pairs of hashes are {holders * _PAIR} bytes, got {len(message.hashes)}")

    def add(self, message: Shares) -> None:
        self._hashes[message.sender] = message.hashes

    def pair(self, owner: int, holder: int) -> bytes:
        place = bisect_left(self._holders(owner), holder)
        return self._hashes[owner][place * _PAIR : (place + 1) * _PAIR]

    def matches(self, session: bytes, uploaded: Container[int], owner: int, holder: int, row: Row) -> bool:
        """Whether a revealed share has the hash that its owner published."""
        pair = self.pair(owner, holder)
        kind, published = (SELF_MASK, pair[HASH_BYTES:]) if owner in uploaded else (MASKING, pair[:HASH_BYTES])
        return share_hash(session, owner, holder, kind, shamir.to_bytes(row)) == published

    def clear(self) -> None:
        self._hashes.clear()


class RevealedShares:
    """What was revealed in one round.

    Args:
        holders: who holds the shares of an owner, ascending.
        threshold: shares that open a secret.
        matches: whether a revealed share has the hash that its owner published.
    """

    def __init__(self, holders: Callable[[int], tuple[int, ...]], threshold: int, matches: Matches) -> None:
        self.blamed: dict[int, str] = {}  # who is proved to have lied, and how
        self.decodings = DECODINGS  # that are left
        self._holders = holders
        self._threshold = threshold
        self._matches = matches
        self._revealed: dict[int, tuple[dict[int, int], Row]] = {}  # revealer -> owners' places, rows
        self._mismatched: dict[int, set[int]] = {}  # owner -> revealers, once all its shares were compared
        self._liars: set[int] = set()  # revealers of any share that does not match

    def add(self, revealer: int, owners: Sequence[int], rows: Row) -> None:
        """What `revealer` says are its shares of `owners`."""
        self._revealed[revealer] = ({owner: place for place, owner in enumerate(owners)}, rows)
        self._mismatched.clear()  # there are more to compare

    def recover(
        self, owners: Collection[int], is_right: Callable[[int, bytes], bool], *, decode: bool
    ) -> dict[int, bytes]:
        """The verified secrets of `owners` that can be had. Afterwards `blamed` says who is to blame for wrong shares.

        Hashes are compared only if a secret is wrong: first those of one owner, as liars mostly lie about all, then
        those of every owner whose secret is wrong without the liars too. If all match, `decode` finds out which.
        """
        found: dict[int, bytes] = {}
        failed = self._combine(sorted(owners), is_right, found)
        self._compare(failed[:1])
        failed = self._combine(failed, is_right, found)
        self._compare(failed)
        failed = self._combine(failed, is_right, found)
        lost = not decode  # if one secret is lost the round is, and no other is looked for
        for owner in failed:
            revealers = self._revealers(owner)
            if len(revealers) < self._threshold:  # this is not its owner's fault
                lost = True
                continue
            self.blamed.setdefault(owner, _DEALT_WRONG)
            if lost or not self.decodings:
                continue
            self.decodings -= 1
            rows = {self._point(owner, revealer): self._row(owner, revealer) for revealer in revealers}
            try:
                found[owner] = shamir.recover(rows, self._threshold, partial(is_right, owner))[0]
            except PeerError:
                lost = True
        return found

    def _combine(
        self, owners: Sequence[int], is_right: Callable[[int, bytes], bool], found: dict[int, bytes]
    ) -> list[int]:
        """Add to `found` the secrets that are right at once, and give the owners of the others. Those whose shares lie
        at the same points are combined in one go."""
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        chosen: dict[int, list[int]] = {}
        failed = []
        for owner in owners:
            chosen[owner] = sorted(self._revealers(owner)[: self._threshold])
            if len(chosen[owner]) == self._threshold:
                alike[tuple(self._point(owner, revealer) for revealer in chosen[owner])].append(owner)
            else:
                failed.append(owner)
        for points, group in alike.items():
            rows = np.array([[self._row(owner, revealer) for revealer in chosen[owner]] for owner in group])
            for owner, secret in zip(group, shamir.combine_many(points, rows), strict=True):
                if secret is not None and is_right(owner, secret):
                    found[owner] = secret
                else:
                    failed.append(owner)
        return sorted(failed)

    def _compare(self, owners: Sequence[int]) -> None:
        """Compare all revealed shares of `owners` with their hashes."""
        for owner in owners:
            if owner in self._mismatched:
                continue
            holders = [holder for holder in self._holders(owner) if self._holds(holder, owner)]
            wrong = {holder for holder in holders if not self._matches(owner, holder, self._row(owner, holder))}
            self._mismatched[owner] = wrong
            self._liars |= wrong
            for revealer in wrong:
                self.blamed.setdefault(
                    revealer, f"the share of client {owner} that it revealed does not match the hash that it accepted"
                )

    def _revealers(self, owner: int) -> list[int]:
        """Who revealed a share of `owner` that is not known to be wrong, those first who are not known to lie."""
        wrong = self._mismatched.get(owner, ())
        there = [h for h in self._holders(owner) if self._holds(h, owner) and h not in wrong]
        return sorted(there, key=lambda holder: holder in self._liars) if self._liars else there

    def _holds(self, holder: int, owner: int) -> bool:
        return holder in self._revealed and owner in self._revealed[holder][0]

    def _row(self, owner: int, revealer: int) -> Row:
        places, rows = self._revealed[revealer]
        row: Row = rows[places[owner]]
        return row

    def _point(self, owner: int, holder: int) -> int:
        """The point at which `holder` has its share of `owner`: on the complete graph the same for every owner."""
        return bisect_left(self._holders(owner), holder) + 1
