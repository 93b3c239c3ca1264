"""The server of one aggregation: collects, relays, adds up, and opens nothing but the sum.

Feed it messages with `receive`, the clock with `tick`, and send what they return. When it is READY, `finish` gives the
sum. A client's bad message raises PeerError and changes nothing: the caller drops that client. Uploads
are added as they arrive, so that memory is that of one vector, not of n.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

import numpy as np

from tacit.crypto import commitment, shamir
from tacit.crypto.agreement import KeyPair
from tacit.errors import PeerError
from tacit.secagg import session as tie
from tacit.secagg.client import SEALED_BYTES, mask_key, sign
from tacit.secagg.complaints import Complaints, quorum
from tacit.secagg.graph import Circle
from tacit.secagg.messages import (
    Abort,
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
    fingerprint,
    pack_ids,
    unpack_ids,
)
from tacit.secagg.session import Context, name
from tacit.secagg.settings import Topology
from tacit.secagg.shares import PublishedHashes, RevealedShares
from tacit.secagg.unmask import Plan, Unmasking, Words, masked_words, plan_of, unmask_ranges


class State(IntEnum):
    ADVERTISING = 1
    SHARING = 2
    UPLOADING = 3
    AGREEING = 4
    REVEALING = 5
    READY = 6
    DONE = 7
    ABORTED = 8


_STAGE_OF: dict[type[ToServer], State] = {
    Advertise: State.ADVERTISING,
    Shares: State.SHARING,
    Masked: State.UPLOADING,
    Agreed: State.AGREEING,
    Reveal: State.REVEALING,
}

Outgoing = list[tuple[int, ToClient]]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The exact sum, modulo the ring, of the survivors' vectors."""

    words: Words
    survivors: tuple[int, ...]


class Server:
    """The server of one aggregation.

    Args:
        context: settings, the digest of the model, and the round.
        ids: the invited clients, `settings.clients` of them.
        identities: the clients' public signing keys; required in active mode.
        upload_window: seconds that clients have to make and upload their vectors; that of every stage by default.
        enough, grace: once so many have uploaded, the others have so many seconds left.
    """

    def __init__(
        self,
        context: Context,
        ids: Collection[int],
        *,
        identities: Mapping[int, bytes] | None = None,
        upload_window: float | None = None,
        enough: int | None = None,
        grace: float = float("inf"),
    ) -> None:
        settings = context.settings
        if len(set(ids)) != settings.clients:
            raise ValueError(f"settings are for {settings.clients} clients, got {len(set(ids))} different ids")
        if settings.mode == "active" and identities is None:
            raise ValueError("active mode needs the identities of all clients")
        self.state = State.ADVERTISING
        self.reason = ""  # why it was aborted
        self.late = 0  # messages that came after their stage
        self._context = context
        self._settings = settings
        self._identities = identities
        self._waiting = set(ids)  # who may still answer in this stage
        self._away: set[int] = set()  # who answered, left, and is not waited for in later stages
        self._answers: dict[int, int] = {}  # fingerprints of this stage's answers, to know a duplicate
        self._window = settings.cipher_time_window / 1000
        self._upload_window = upload_window or self._window
        self._enough = settings.clients if enough is None else enough
        self._grace = grace
        self._deadline = float("inf")
        self._session = b""  # until it is known who takes part
        self._adverts: dict[int, Advertise] = {}
        self._keys: set[bytes] = set()
        self._probe = KeyPair.generate()  # to try advertised keys with
        self.blamed: dict[int, str] = {}  # clients that broke the protocol, and how
        self._commitments: dict[int, bytes] = {}
        self._hashes = PublishedHashes(self._holders)
        self._complaints = Complaints()
        self._boxes: dict[int, dict[int, bytes]] = defaultdict(dict)  # receiver -> sender -> sealed shares
        self._sum: Words | None = None
        self._uploaded: set[int] = set()
        self._agreed: dict[int, bytes] = {}
        self._lacking: dict[int, int] = {}  # owner -> shares that are still needed
        self._shares = _no_shares()  # until it is known whose are needed
        self._tried = False  # to open the sum before everybody has revealed
        self._plan: Plan | None = None

    @property
    def disputes(self) -> dict[int, tuple[int, ...]]:
        """Holders, and of whom each says that its shares were no good."""
        return self._complaints.disputes

    def start(self, now: float) -> None:
        """Open the first stage."""
        self._deadline = now + self._window

    def receive(self, sender: int, message: ToServer, now: float) -> Outgoing:
        """Take a message from `sender`, whom the transport has identified."""
        if isinstance(message, Abort):
            return self._left(sender, now)
        if message.sender != sender:
            raise PeerError(f"client {sender} sent a message of client {message.sender}")
        stage = _STAGE_OF[type(message)]
        if stage < self.state or self.state >= State.READY:
            self.late += 1
            return []
        if stage > self.state:
            if not isinstance(message, Advertise) and message.session != self._session:
                return []  # of an earlier round: it crossed with the beginning of this one
            raise PeerError(f"{type(message).__name__} is not expected in {self.state.name}")
        mark = fingerprint(message)
        if sender in self._answers:
            if self._answers[sender] != mark:
                raise PeerError(f"client {sender} sent two different {type(message).__name__}")
            return []
        if sender not in self._waiting and sender not in self._away:
            raise PeerError(f"client {sender} takes no part in {self.state.name}")
        match message:
            case Advertise():
                self._advertise(message)
            case Shares():
                self._share(message)
            case Masked():
                self._upload(message)
            case Agreed():
                self._agree(message)
            case Reveal():
                self._reveal(message)
        self._answers[sender] = mark
        self._waiting.discard(sender)
        self._away.discard(sender)
        return self._advance(now)

    def receive_sum(self, senders: Collection[int], session: bytes, words: Words, now: float) -> Outgoing:
        """Take the sum of several clients' vectors from a worker of this server's own, which looked at each message."""
        if self.state is not State.UPLOADING or not self._waiting.issuperset(senders):
            raise ValueError(f"a sum of clients that are not waited for in {self.state.name}")
        if words.shape != (self._settings.columns,) or words.dtype != self._settings.word_type:
            raise ValueError(f"a sum of {words.shape} {words.dtype}, {self._settings.columns} words are due")
        self._check_session(session)
        self._add(words)
        self._uploaded.update(senders)
        self._answers |= dict.fromkeys(senders, 0)  # of no message: whatever one of them still sends is a second one
        self._waiting.difference_update(senders)
        return self._advance(now)

    def tick(self, now: float) -> Outgoing:
        """Close a stage whose time is up."""
        if now < self._deadline or self.state >= State.READY:
            return []
        return self._close(now)

    def abort(self, reason: str) -> Outgoing:
        """End the round; nothing of it can be opened afterwards."""
        if self.state >= State.DONE:
            return []
        members = sorted(self._waiting | self._answers.keys())
        self._end(State.ABORTED)
        self.reason = reason
        return [(identity, Abort(reason[:300])) for identity in members]

    def finish(self, *, threads: int = 1, shards: int = 1, unmasking: Unmasking | None = None) -> Aggregate:
        """Unmask the sum, in `shards` column ranges; by `unmasking` if others do the work."""
        if self.state is not State.READY or self._plan is None or self._sum is None:
            raise ValueError(f"the sum can be opened when the server is READY, it is {self.state.name}")
        if shards < 1:
            raise ValueError(f"shards must be at least 1, got {shards}")
        words, plan, survivors = self._sum, self._plan, tuple(sorted(self._uploaded))
        edges = np.linspace(0, len(words), shards + 1, dtype=int).tolist()
        (unmasking or partial(unmask_ranges, threads=threads))(words, plan, edges)
        words &= words.dtype.type(2**self._settings.modulus_bits - 1)
        self._end(State.DONE)
        return Aggregate(words, survivors)

    # --- the stages: one message

    def _advertise(self, message: Advertise) -> None:
        if self._identities is not None:
            content = self._context.advertisement(message)
            tie.check_signature(self._identities, message.sender, message.signature, tie.ADVERTISE, content)
        elif message.signature:
            raise PeerError("a signed advertisement, and no identities to check it with")
        keys = {message.sealing_key, message.masking_key}
        if len(keys) != 2 or keys & self._keys:
            raise PeerError(f"client {message.sender} advertised a key that is in use already")
        for key in keys:  # one of low order would stop every honest client
            self._probe.exchange(key)
        self._keys |= keys
        self._adverts[message.sender] = message

    def _share(self, message: Shares) -> None:
        self._check_session(message.session)
        receivers = [holder for holder in self._holders(message.sender) if holder != message.sender]
        boxes = cut(message.sealed, len(receivers), SEALED_BYTES, "sealed shares")
        self._hashes.check(message)
        if self._identities is not None:
            content = tie.dealing(message)
            tie.check_signature(self._identities, message.sender, message.signature, tie.DEALING, content)
        elif message.signature:
            raise PeerError("signed shares, and no identities to check them with")
        self._commitments[message.sender] = message.commitment
        self._hashes.add(message)
        for receiver, box in zip(receivers, boxes, strict=True):
            self._boxes[receiver][message.sender] = box

    def _upload(self, message: Masked) -> None:
        self._check_session(message.session)
        self._add(masked_words(message, self._settings))
        self._uploaded.add(message.sender)

    def _add(self, words: Words) -> None:
        if self._sum is None:
            self._sum = words.copy()
        else:
            self._sum += words

    def _agree(self, message: Agreed) -> None:
        self._check_session(message.session)
        content = tie.survivors_digest(self._session, *self._lists(message.sender))
        tie.check_signature(self._identities, message.sender, message.signature, tie.SURVIVORS, content)
        self._agreed[message.sender] = message.signature

    def _reveal(self, message: Reveal) -> None:
        self._check_session(message.session)
        owners = unpack_ids(message.ids)
        holding = self._sharers & set(self._holders(message.sender))
        if not set(owners) <= holding:
            raise PeerError(f"client {message.sender} holds no shares of {sorted(set(owners) - holding)}")
        rows = shamir.from_bytes(message.shares, len(owners))
        self._shares.add(message.sender, owners, rows)
        enough = quorum(len(self._holders(message.sender)), self._topology.threshold, self._settings.tolerated)
        complaint = sorted(holding.difference(owners, [message.sender]))
        self.blamed |= self._complaints.add(message.sender, complaint, enough)
        for owner in owners:
            if owner in self._lacking:
                self._lacking[owner] -= 1
                if self._lacking[owner] == 0:
                    del self._lacking[owner]

    # --- the stages: all messages

    def _advance(self, now: float) -> Outgoing:
        """Close the stage when nobody is waited for; try to open the sum as soon as there are shares enough."""
        if not self._waiting:
            return self._close(now)
        if self.state is State.UPLOADING and len(self._uploaded) >= max(self._enough, self._topology.minimum):
            self._deadline = min(self._deadline, now + self._grace)
        if self.state is State.REVEALING and not self._lacking and not self._tried:
            self._tried = True
            if self._reconstruct(decode=False):
                self.state = State.READY
        return []

    def _close(self, now: float) -> Outgoing:
        match self.state:
            case State.ADVERTISING:
                return self._send_roster(now)
            case State.SHARING:
                return self._send_inboxes(now)
            case State.UPLOADING:
                return self._send_survivors(now)
            case State.AGREEING:
                return self._send_agreements(now)
            case State.REVEALING:
                if self._reconstruct(decode=True):
                    self.state = State.READY
                elif self._lacking:
                    return self.abort(f"fewer than {self._topology.threshold} shares of a secret were revealed")
                else:
                    return self.abort("a secret does not fit what its owner published: too many shares are wrong")
        return []

    def _send_roster(self, now: float) -> Outgoing:
        present = len(self._adverts)
        if present < self._settings.sharing:
            return self.abort(f"{present} clients advertised, {self._settings.sharing} are needed")
        self._topology: Topology = self._settings.topology(present)
        if present < self._topology.minimum:
            return self.abort(f"{present} clients advertised, {self._topology.minimum} are needed")
        digest = tie.roster_digest(list(self._adverts.values()))
        self._session = self._context.session(digest)
        self._everybody = tuple(sorted(self._adverts))
        if self._topology.neighbours is not None:
            circle = Circle(self._everybody, self._topology.neighbours, self._session)
            self._neighbours = {identity: circle.neighbours(identity) for identity in self._everybody}
        messages: Outgoing = []
        whole: Roster | None = None
        for identity in self._everybody:
            if whole is None or not self._topology.complete:
                listed = sorted({identity, *self._holders(identity)})
                whole = tie.roster_of(digest, len(self._adverts), [self._adverts[other] for other in listed])
            messages.append((identity, whole))
        return self._next(State.SHARING, self._everybody, now, messages)

    def _send_inboxes(self, now: float) -> Outgoing:
        self._sharers = set(self._commitments)
        present = len(self._sharers)
        needed = max(self._settings.sharing, self._topology.minimum)
        if present < needed:
            return self.abort(f"{present} clients shared their secrets, {needed} are needed")
        messages: Outgoing = []
        for identity in sorted(self._sharers):
            boxes = self._boxes.pop(identity, {})
            senders = sorted(boxes)
            sealed = b"".join(boxes[sender] for sender in senders)
            hashes = b"".join(self._hashes.pair(sender, identity) for sender in senders)
            messages.append((identity, Inbox(self._session, present, pack_ids(senders), hashes, sealed)))
        self._boxes.clear()
        return self._next(State.UPLOADING, self._sharers, now, messages)

    def _send_survivors(self, now: float) -> Outgoing:
        present = len(self._uploaded)
        if present < self._topology.minimum:
            return self.abort(f"{present} clients uploaded, {self._topology.minimum} are needed")
        messages: Outgoing = []
        for identity in sorted(self._uploaded):
            messages.append((identity, Survivors(self._session, present, *self._lists(identity))))
        # Of the dropped only those have left a mask behind whose holders uploaded.
        dropped = self._sharers - self._uploaded
        self._missing = {u for u in dropped if not self._uploaded.isdisjoint(self._holders(u))}
        self._lacking = dict.fromkeys(self._uploaded | self._missing, self._topology.threshold)
        matches = partial(self._hashes.matches, self._session, self._uploaded)
        self._shares = RevealedShares(self._holders, self._topology.threshold, matches)
        state = State.AGREEING if self._settings.mode == "active" else State.REVEALING
        return self._next(state, self._uploaded, now, messages)

    def _send_agreements(self, now: float) -> Outgoing:
        if len(self._agreed) < self._topology.threshold:
            return self.abort(f"{len(self._agreed)} clients confirmed, {self._topology.threshold} are needed")
        signatures = b"".join(self._agreed[signer] for signer in sorted(self._agreed))
        message = Agreements(self._session, pack_ids(self._agreed), signatures)
        return self._next(State.REVEALING, self._agreed, now, [(identity, message) for identity in self._agreed])

    def _next(self, state: State, members: Collection[int], now: float, messages: Outgoing) -> Outgoing:
        self.state = state
        self._away.intersection_update(members)
        self._waiting = set(members) - self._away
        self._answers = {}
        self._deadline = now + (self._upload_window if state is State.UPLOADING else self._window)
        return messages

    def _left(self, sender: int, now: float) -> Outgoing:
        """A client said that it leaves: it is not waited for. One whose connection comes back may still answer."""
        if sender in self._answers:
            self._away.add(sender)
        if self.state >= State.READY or sender not in self._waiting:
            return []
        self._waiting.discard(sender)
        return self._advance(now)

    # --- opening the sum

    def _reconstruct(self, *, decode: bool) -> bool:
        """Put the secrets together, check each against what its owner published, and plan the unmasking."""
        pairs: dict[int, KeyPair] = {}

        def is_seed(owner: int, secret: bytes) -> bool:
            return commitment.commit(secret, self._session + name(owner)) == self._commitments[owner]

        def is_key(owner: int, secret: bytes) -> bool:
            pairs[owner] = KeyPair(secret)
            return pairs[owner].public == self._adverts[owner].masking_key

        seeds = self._shares.recover(self._uploaded, is_seed, decode=decode)
        opened = self._shares.recover(self._missing, is_key, decode=decode and len(seeds) == len(self._uploaded))
        self.blamed |= self._shares.blamed
        if len(seeds) < len(self._uploaded) or len(opened) < len(self._missing):
            return False
        masks = [(tie.self_mask_key(seed, self._session), -1) for seed in seeds.values()]
        for owner in opened:
            for peer in self._holders(owner):
                if peer in self._uploaded:
                    key = mask_key(pairs[owner], owner, self._adverts[peer], self._session)
                    masks.append((key, -sign(peer, owner)))
            pairs.pop(owner).erase()
        self._plan = plan_of(masks)
        return True

    def _holders(self, owner: int) -> tuple[int, ...]:
        """Who holds the shares of `owner`, ascending: everybody, or its neighbours. Holding is mutual."""
        return self._everybody if self._topology.complete else self._neighbours[owner]

    def _lists(self, identity: int) -> tuple[bytes, bytes]:
        """Survivors and dropped among those whose shares `identity` holds."""
        held = self._sharers.intersection(self._holders(identity))
        return pack_ids(held & self._uploaded), pack_ids(held - self._uploaded)

    def _check_session(self, session: bytes) -> None:
        if session != self._session:
            raise PeerError("a message of another session: another round, cohort, model or configuration")

    def _end(self, state: State) -> None:
        self.state = state
        self._waiting, self._plan, self._sum = set(), None, None
        self._boxes.clear()
        self._shares = _no_shares()
        self._hashes.clear()


def _no_shares() -> RevealedShares:
    return RevealedShares(lambda owner: (), 1, lambda owner, holder, row: False)
