"""A coordinator that shows two lists of survivors, written from the paper's section on active adversaries.

It drives real clients and shares no code with `tacit.secagg.server`. It runs some of the clients itself: these
colluders hand over the shares they were sent, and sign any list. To the others it says what a server would say, until
uploads are in. Then one part of them (`left`) hears that all survived, the other (`right`) that the left dropped. Where
it has enough signatures for both lists, the left reveals shares of seeds and the right shares of masking keys: both
secrets of every client on the left, and so its upload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tacit.crypto import commitment, shamir
from tacit.crypto.agreement import KeyPair
from tacit.crypto.prg import add_masks
from tacit.crypto.signing import SigningKey
from tacit.errors import PeerError
from tacit.secagg import session as tie
from tacit.secagg.client import SEALED_BYTES, Client, mask_key, sign
from tacit.secagg.messages import (
    Advertise,
    Agreed,
    Agreements,
    Inbox,
    Masked,
    Reveal,
    Roster,
    Shares,
    Survivors,
    ToClient,
    ToServer,
    cut,
    pack_ids,
)

Rows = dict[int, dict[int, bytes]]  # owner -> holder -> share
Send = Callable[[int, ToClient], list[ToServer]]  # to a client; what it answers


@dataclass
class SplitView:
    """One round under such a coordinator.

    Args:
        adverts: of those that came.
        send: gives a client a message.
        inside: the secure aggregation of a client that the coordinator runs.
        keys: the signing keys of those clients: the colluders.
        silent: who advertised and then shares nothing.
        dtype: of the ring words.
    """

    adverts: Mapping[int, Advertise]
    send: Send
    inside: Callable[[int], Client]
    keys: Mapping[int, SigningKey]
    silent: frozenset[int] = frozenset()
    dtype: str = "<u4"
    refusals: list[str] = field(default_factory=list)

    def opened(self, threshold: int) -> dict[int, np.ndarray]:
        """The single uploads that it opens, without any mask."""
        self._relay()
        honest = sorted(self.uploads.keys() - self.keys.keys())
        # The right gets as many as its list needs; where these are too few for both lists, it tries its luck.
        right = max(1, min(threshold - len(self.keys), len(honest) - 1))
        left_part, right_part = honest[right:], honest[:right]
        everybody = sorted(self.uploads)
        all_survived = (pack_ids(everybody), b"")
        left_dropped = (pack_ids(set(everybody) - set(left_part)), pack_ids(left_part))
        return self._opened(
            left_part, self._revealed(left_part, *all_survived), self._revealed(right_part, *left_dropped)
        )

    def pooled(self) -> dict[int, np.ndarray]:
        """What a server that follows the protocol opens with what the colluders know (semi-honest mode)."""
        self._relay()
        honest = sorted(self.uploads.keys() - self.keys.keys())
        return self._opened(honest, self._revealed(honest, pack_ids(self.uploads), b""), {})

    def _opened(self, victims: list[int], seeds: Rows, private: Rows) -> dict[int, np.ndarray]:
        for colluder in self.keys:  # who keep both kinds
            for owner, plain in self.inside(colluder)._held.items():
                private.setdefault(owner, {})[colluder] = plain[: shamir.ROW_BYTES]
                seeds.setdefault(owner, {})[colluder] = plain[shamir.ROW_BYTES :]
        found = {victim: self._open(victim, seeds, private) for victim in victims}
        return {victim: words for victim, words in found.items() if words is not None}

    def _relay(self) -> None:
        """All stages up to the uploads, as the protocol has them."""
        adverts = [self.adverts[i] for i in sorted(self.adverts)]
        roster = Roster(
            tie.roster_digest(adverts),
            len(adverts),
            pack_ids(a.sender for a in adverts),
            b"".join(a.sealing_key for a in adverts),
            b"".join(a.masking_key for a in adverts),
            b"".join(a.signature for a in adverts),
        )
        self.shares: dict[int, Shares] = {}
        for identity in self.adverts.keys() - self.silent:
            for answer in self._told(identity, roster):
                if isinstance(answer, Shares):
                    self.shares[identity] = answer
        self.uploads: dict[int, Masked] = {}
        for identity in sorted(self.shares):
            senders = sorted(self.shares.keys() - {identity})
            boxes = b"".join(self._box(sender, identity) for sender in senders)
            hashes = b"".join(self._hashes(sender, identity) for sender in senders)
            inbox = Inbox(self.shares[identity].session, len(self.shares), pack_ids(senders), hashes, boxes)
            for answer in self._told(identity, inbox):
                if isinstance(answer, Masked):
                    self.uploads[identity] = answer

    def _box(self, sender: int, receiver: int) -> bytes:
        others = [i for i in sorted(self.adverts) if i != sender]
        return cut(self.shares[sender].sealed, len(others), SEALED_BYTES, "boxes")[others.index(receiver)]

    def _hashes(self, sender: int, receiver: int) -> bytes:
        """Of the two shares; an owner has shares of its own secrets too."""
        all_of_them = sorted(self.adverts)
        return cut(self.shares[sender].hashes, len(all_of_them), 32, "hashes")[all_of_them.index(receiver)]

    def _revealed(self, part: list[int], alive: bytes, dropped: bytes) -> Rows:
        """What these clients reveal of each owner, after this list of survivors."""
        if not self.uploads:
            return {}
        session = next(iter(self.uploads.values())).session
        content = tie.survivors_digest(session, alive, dropped)
        signatures = {colluder: key.sign(tie.SURVIVORS, content) for colluder, key in self.keys.items()}
        answers: list[ToServer] = []
        for identity in part:
            answers += self._told(identity, Survivors(session, len(alive) // 4, alive, dropped))
        signatures |= {answer.sender: answer.signature for answer in answers if isinstance(answer, Agreed)}
        signers = sorted(signatures)
        agreements = Agreements(session, pack_ids(signers), b"".join(signatures[i] for i in signers))
        for identity in part if len(signers) > len(self.keys) else []:  # in semi-honest mode nobody signs
            answers += self._told(identity, agreements)
        found: Rows = {}
        for answer in answers:
            if isinstance(answer, Reveal):
                for place, owner in enumerate(np.frombuffer(answer.ids, "<u4").tolist()):
                    row = answer.shares[place * shamir.ROW_BYTES : (place + 1) * shamir.ROW_BYTES]
                    found.setdefault(owner, {})[answer.sender] = row
        return found

    def _open(self, victim: int, seeds: Rows, private: Rows) -> np.ndarray | None:
        """The upload of `victim` without masks, if its two secrets come out: both are checked with public values."""
        seed, key = self._combined(seeds.get(victim, {})), self._combined(private.get(victim, {}))
        if seed is None or key is None:
            return None
        shared = self.shares[victim]
        pair = KeyPair(key)
        if commitment.commit(seed, shared.session + tie.name(victim)) != shared.commitment:
            return None
        if pair.public != self.adverts[victim].masking_key:
            return None
        words = np.frombuffer(self.uploads[victim].words, self.dtype).copy()
        masks = [(tie.self_mask_key(seed, shared.session), -1)]
        for peer in self.shares.keys() - {victim}:
            masks.append((mask_key(pair, victim, self.adverts[peer], shared.session), -sign(victim, peer)))
        add_masks(words, masks)
        return words

    def _combined(self, rows: dict[int, bytes]) -> bytes | None:
        if not rows:
            return None
        ids = sorted(self.adverts)
        points = [ids.index(holder) + 1 for holder in sorted(rows)]
        try:
            return shamir.combine(points, np.concatenate([shamir.from_bytes(rows[i]) for i in sorted(rows)]))
        except PeerError:  # too few of them: what comes out is no secret
            return None

    def _told(self, identity: int, message: ToClient) -> list[ToServer]:
        try:
            return self.send(identity, message)
        except PeerError as error:
            self.refusals.append(str(error))
            return []
