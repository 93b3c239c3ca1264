"""One client of one aggregation. Feed it messages; send what it returns.

It checks everything it is told, reveals one kind of share per peer, ever, and takes part only in sums of as many
clients as it was configured to accept. Any violation raises PeerError, ends the session and drops its keys; what may be
another client's fault, or is this client's own choice, raises Declined instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto

import msgspec
import numpy as np
from numpy.random import Generator

from tacit.crypto import commitment, sealed, shamir, signing
from tacit.crypto.agreement import KeyPair, agree, agree_each_way
from tacit.crypto.byte_strings import random_bytes
from tacit.crypto.prg import add_masks
from tacit.errors import Declined, PeerError
from tacit.secagg import session as tie
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
    pack_ids,
    unpack_ids,
)
from tacit.secagg.packed_words import Words, pack
from tacit.secagg.session import Context, name
from tacit.secagg.settings import Settings

SEALED_BYTES = 2 * shamir.ROW_BYTES + sealed.OVERHEAD_BYTES  # the masking key's share and the self-mask's, sealed
_PATIENCE = 4  # stages that a client waits for the next message


class State(Enum):
    NEW = auto()
    ADVERTISED = auto()
    SHARED = auto()
    UPLOADED = auto()
    AGREED = auto()
    DONE = auto()
    ABORTED = auto()


class Client:
    """One client of one aggregation.

    Args:
        context: settings, the digest of the model this client holds, and the round.
        identity: this client's number.
        vector: its ring words (see `encode`), or a function that makes them when they are uploaded.
        key, identities: its signing key and everybody's public one; required in active mode.
        minimum: this client's own, if it wants larger cohorts than the settings ask for.
        rng: the source of its keys; the operating system's by default.
        threads: for expanding masks.
        opens: is shown the list of survivors before this client signs it, or reveals shares for it; raises Declined if
            it shall do neither. Only on the complete graph does a client know the list.
    """

    def __init__(
        self,
        context: Context,
        identity: int,
        vector: Words | Callable[[], Words],
        *,
        key: signing.SigningKey | None = None,
        identities: Mapping[int, bytes] | None = None,
        minimum: int = 0,
        rng: Generator | None = None,
        threads: int = 1,
        opens: Callable[[frozenset[int]], None] | None = None,
    ) -> None:
        settings = context.settings
        if not callable(vector):
            _check_vector(vector, settings)
        if settings.mode == "active" and (key is None or identities is None):
            raise ValueError("active mode needs a signing key and the identities of all clients")
        if (key is None) != (identities is None):
            raise ValueError("a signing key and the identities of all clients go together: give both or neither")
        if not 0 <= identity < 2**32:
            raise ValueError(f"a client's number must be in [0, 2^32), got {identity!r}")
        if key is not None and identities is not None and identities.get(identity) != key.public:
            raise ValueError(f"the signing key is not that of client {identity}")
        self.state = State.NEW
        self.identity = identity
        self.unusable: tuple[int, ...] = ()  # peers whose sealed shares did not open or match their hashes
        self._context = context
        self._settings = settings
        self._vector: Words | Callable[[], Words] | None = vector
        self._key = key
        self._identities = identities
        self._minimum = minimum
        self._rng = rng
        self._threads = threads
        self._opens = opens
        self._sealing, self._masking = KeyPair.generate(rng), KeyPair.generate(rng)
        self._seed = bytearray(random_bytes(rng, 32))  # of the self-mask
        self._own_rows: bytes | None = None  # this client's shares of its own secrets, on the complete graph
        self._peers: dict[int, Advertise] = {}
        self._opening: dict[int, bytes] = {}  # the keys under which peers seal for this client
        self._held: dict[int, bytes] = {}  # their shares
        self._replies: dict[ToClient, list[ToServer]] = {}
        self._deadline = float("inf")

    def start(self, now: float) -> list[ToServer]:
        """Advertise the keys of this session."""
        if self.state is not State.NEW:
            raise ValueError(f"a client starts once, this one is {self.state.name}")
        unsigned = Advertise(self.identity, self._sealing.public, self._masking.public, b"")
        signature = self._sign(tie.ADVERTISE, self._context.advertisement(unsigned))
        self._own = Advertise(unsigned.sender, unsigned.sealing_key, unsigned.masking_key, signature)
        return self._move(State.ADVERTISED, now, [self._own])

    def receive(self, message: ToClient, now: float) -> list[ToServer]:
        """What to send in answer. The same message again gets the same answer, but for the masked vector, which is not
        kept; anything unexpected ends the session."""
        if message in self._replies:
            return self._replies[message]
        try:
            match self.state, message:
                case State.DONE | State.ABORTED, _:
                    return []
                case _, Abort():
                    self._end(State.ABORTED)
                    return []
                case State.ADVERTISED, Roster():
                    reply = self._share(message, now)
                case State.SHARED, Inbox():
                    reply = self._upload(message, now)
                case State.UPLOADED, Survivors():
                    reply = self._survive(message, now)
                case State.AGREED, Agreements():
                    reply = self._check_agreements(message, now)
                case _:
                    raise PeerError(f"{type(message).__name__} is not expected in {self.state.name}")
        except BaseException:  # the fault of the peer, or of the caller that makes the vector
            self._end(State.ABORTED)
            raise
        # A masked vector is as large as the model: it is sent once, and sending it again is the transport's business.
        self._replies[message] = [answer for answer in reply if not isinstance(answer, Masked)]
        return reply

    def tick(self, now: float) -> list[ToServer]:
        """Give up when the server has been silent for too long."""
        if now <= self._deadline or self.state in (State.DONE, State.ABORTED):
            return []
        waited = self.state.name
        self._end(State.ABORTED)
        return [Abort(f"client {self.identity} heard nothing after {waited}")]

    def abort(self, reason: str) -> list[ToServer]:
        """End the session from this side."""
        if self.state in (State.DONE, State.ABORTED):
            return []
        self._end(State.ABORTED)
        return [Abort(reason[:300])]

    # --- the stages

    def _share(self, roster: Roster, now: float) -> list[ToServer]:
        if roster.total > self._settings.clients:
            raise PeerError(f"a cohort of {roster.total}, only {self._settings.clients} were invited")
        adverts = self._checked_roster(roster)
        self._topology = self._settings.topology(roster.total)
        if self._opens is not None and not self._topology.complete:
            raise PeerError(f"a sparse graph over {roster.total} clients, on which nobody knows all survivors")
        self._minimum = max(self._minimum, self._topology.minimum)
        others = [a for a in adverts if a.sender != self.identity]
        if self._topology.complete:
            if roster.total != len(adverts) or roster.digest != tie.roster_digest(adverts):
                raise PeerError("the roster is not the one that its digest and count name")
            self._holders = tuple(a.sender for a in adverts)
        else:
            if len(others) != self._topology.neighbours:
                raise PeerError(f"{len(others)} neighbours of {roster.total}, {self._topology.neighbours} are due")
            self._holders = tuple(a.sender for a in others)
        self._check_cohort(roster.total)
        self._session = self._context.session(roster.digest)
        self._peers = {a.sender: a for a in others}
        secrets = [bytes(self._masking.private), bytes(self._seed)]
        rows = shamir.split(secrets, len(self._holders), self._topology.threshold, self._rng)
        boxes, hashes = [], []
        nonces = iter(sealed.nonces(self._rng, len(others)))
        plains = cut(shamir.to_bytes(rows.swapaxes(0, 1)), len(self._holders), 2 * shamir.ROW_BYTES, "pairs of shares")
        for holder, plain in zip(self._holders, plains, strict=True):
            hashes.append(tie.share_hashes(self._session, self.identity, holder, plain))
            if holder == self.identity:
                self._own_rows = plain
                continue
            boxes.append(self._seal(holder, plain, next(nonces)))
        rows.fill(0)
        promise = commitment.commit(bytes(self._seed), self._session + name(self.identity))
        unsigned = Shares(self._session, self.identity, promise, b"".join(hashes), b"".join(boxes), b"")
        signature = self._sign(tie.DEALING, tie.dealing(unsigned))
        return self._move(State.SHARED, now, [msgspec.structs.replace(unsigned, signature=signature)])

    def _seal(self, holder: int, plain: bytes, nonce: bytes) -> bytes:
        context = tie.pair_context(tie.SEALING, self._session, self.identity, holder)
        send, receive = agree_each_way(self._sealing, self._peers[holder].sealing_key, context=context)
        self._opening[holder] = receive
        associated = (self._session, name(self.identity), name(holder), tie.SHARES)
        return sealed.seal(send, plain, associated, nonce=nonce)

    def _upload(self, inbox: Inbox, now: float) -> list[ToServer]:
        self._check_session(inbox.session)
        senders = unpack_ids(inbox.senders)
        if not set(senders) <= self._peers.keys():
            raise PeerError(f"shares of {sorted(set(senders) - self._peers.keys())}, who are not peers here")
        held = len(senders) + (self._own_rows is not None)
        if held < self._topology.threshold:
            raise PeerError(f"shares of {held} clients, {self._topology.threshold} are needed")
        if self._topology.complete and inbox.total != held:
            raise PeerError(f"a cohort of {inbox.total}, and shares of {held} clients")
        self._check_cohort(inbox.total)
        self._held = {} if self._own_rows is None else {self.identity: self._own_rows}
        self._open(senders, inbox)
        self._sharers = set(senders) | ({self.identity} if self._own_rows is not None else set())
        masked = self._masked(senders)
        return self._move(State.UPLOADED, now, [Masked(self._session, self.identity, memoryview(masked))])

    def _open(self, senders: tuple[int, ...], inbox: Inbox) -> None:
        """Keep the shares that open and match the hashes that their owners published.

        Nothing of the others is ever revealed in this client's name, which tells the server whose they are. The sum
        stays right: masks do not depend on them.
        """
        boxes = cut(inbox.sealed, len(senders), SEALED_BYTES, "sealed shares")
        hashes = cut(inbox.hashes, len(senders), 2 * tie.HASH_BYTES, "pairs of hashes")
        opened: dict[int, bytes] = {}
        for sender, box, published in zip(senders, boxes, hashes, strict=True):
            associated = (self._session, name(sender), name(self.identity), tie.SHARES)
            try:
                plain = sealed.unseal(self._opening[sender], box, associated)
            except PeerError:
                continue
            if tie.share_hashes(self._session, sender, self.identity, plain) == published:
                opened[sender] = plain
        canonical = shamir.canonical(b"".join(opened.values()), 2 * len(opened))
        both = (canonical[::2] & canonical[1::2]).tolist()
        self._held |= {sender: plain for (sender, plain), usable in zip(opened.items(), both, strict=True) if usable}
        self.unusable = tuple(sender for sender in senders if sender not in self._held)

    def _masked(self, peers: tuple[int, ...]) -> bytes:
        if callable(self._vector):
            words = self._vector()
            _check_vector(words, self._settings)
        elif self._vector is not None:
            words = self._vector.copy()
        else:
            raise ValueError("the vector is gone: a client uploads once")
        keys = [(tie.self_mask_key(bytes(self._seed), self._session), 1)]
        for peer in peers:
            key = mask_key(self._masking, self.identity, self._peers[peer], self._session)
            keys.append((key, sign(self.identity, peer)))
        add_masks(words, keys, threads=self._threads)
        return pack(words, self._settings.modulus_bits)

    def _survive(self, survivors: Survivors, now: float) -> list[ToServer]:
        self._check_session(survivors.session)
        alive, dropped = unpack_ids(survivors.alive), unpack_ids(survivors.dropped)
        both = set(alive) & set(dropped)
        if both:
            raise PeerError(f"{sorted(both)} are listed both as survivors and as dropped")
        if set(alive) | set(dropped) != self._sharers:
            raise PeerError("the survivors and the dropped are not the clients that shared secrets with this one")
        if self._topology.complete and (self.identity not in alive or survivors.total != len(alive)):
            raise PeerError("this client uploaded and is not counted among the survivors")
        if survivors.total < self._minimum:
            raise PeerError(f"{survivors.total} survivors, this client accepts {self._minimum} or more")
        if self._settings.mode == "active":
            self._check_fresh(alive)
        self._alive, self._survivors = frozenset(alive), survivors
        if self._opens is not None:
            self._opens(self._alive)
        if self._settings.mode == "semi_honest":
            return self._reveal(now)
        signature = self._sign(tie.SURVIVORS, tie.survivors_digest(self._session, survivors.alive, survivors.dropped))
        return self._move(State.AGREED, now, [Agreed(self._session, self.identity, signature)])

    def _check_agreements(self, message: Agreements, now: float) -> list[ToServer]:
        self._check_session(message.session)
        signers = unpack_ids(message.ids)
        if not set(signers) <= self._alive:
            raise PeerError(f"{sorted(set(signers) - self._alive)} signed, who are not survivors")
        if len(signers) < self._topology.threshold:
            raise PeerError(f"{len(signers)} clients agree on the survivors, {self._topology.threshold} are needed")
        content = tie.survivors_digest(self._session, self._survivors.alive, self._survivors.dropped)
        for signer, signature in zip(signers, cut(message.signatures, len(signers), 64, "signatures"), strict=True):
            tie.check_signature(self._identities, signer, signature, tie.SURVIVORS, content)
        return self._reveal(now)

    def _reveal(self, now: float) -> list[ToServer]:
        """For each peer the share of its self-mask if it survived, of its masking key if not; then forget both."""
        ids = sorted(self._held)
        half = shamir.ROW_BYTES
        shares = b"".join(self._held[i][half:] if i in self._alive else self._held[i][:half] for i in ids)
        reply: list[ToServer] = [Reveal(self._session, self.identity, pack_ids(ids), shares)]
        self._end(State.DONE)
        return reply

    # --- checks

    def _checked_roster(self, roster: Roster) -> list[Advertise]:
        ids = unpack_ids(roster.ids)
        sealing = cut(roster.sealing_keys, len(ids), 32, "sealing keys")
        masking = cut(roster.masking_keys, len(ids), 32, "masking keys")
        signatures = cut(roster.signatures, len(ids), 64 if self._identities is not None else 0, "signatures")
        adverts = [Advertise(*entry) for entry in zip(ids, sealing, masking, signatures, strict=True)]
        if len({*sealing, *masking}) != 2 * len(ids):
            raise PeerError("two advertised keys are the same")
        own = [a for a in adverts if a.sender == self.identity]
        if own != [self._own]:
            raise PeerError("the roster does not hold this client's own keys as it advertised them")
        if self._identities is not None:
            for advert in adverts:
                if advert != self._own:
                    content = self._context.advertisement(advert)
                    tie.check_signature(self._identities, advert.sender, advert.signature, tie.ADVERTISE, content)
        return adverts

    def _check_cohort(self, total: int) -> None:
        """As many as the settings ask for, whatever the server is content with."""
        least = max(self._minimum, self._settings.sharing)
        if total < least:
            raise PeerError(f"a cohort of {total}, this client accepts {least} or more")

    def _check_fresh(self, alive: tuple[int, ...]) -> None:
        """Count only survivors that take part in this very session: their shares opened here.

        An advertisement is signed for model and round, not for the session, so that a server may show one of an earlier
        run whose masking key it has opened since. It cannot seal in its owner's name: sealing keys are never opened.
        """
        fresh = len(self._held.keys() & set(alive))
        if fresh < self._minimum:  # not a proof against the server: clients may have sealed bad shares
            raise Declined(
                f"shares of {fresh} of the {len(alive)} survivors opened, this client accepts {self._minimum} or more"
            )

    def _sign(self, purpose: bytes, content: bytes) -> bytes:
        return b"" if self._key is None else self._key.sign(purpose, content)

    def _check_session(self, session: bytes) -> None:
        if session != self._session:
            raise PeerError("a message of another session: another round, cohort, model or configuration")

    def _move(self, state: State, now: float, reply: list[ToServer]) -> list[ToServer]:
        self.state = state
        self._deadline = now + _PATIENCE * self._settings.cipher_time_window / 1000
        return reply

    def _end(self, state: State) -> None:
        """Overwrite what can be, drop the rest. Python keeps no promise about copies: see the README."""
        self.state = state
        self._sealing.erase()
        self._masking.erase()
        self._seed[:] = bytes(32)
        self._vector = None
        self._own_rows = None
        self._opening, self._held, self._peers = {}, {}, {}
        if state is State.ABORTED:
            self._replies = {}


def _check_vector(vector: Words, settings: Settings) -> None:
    if vector.shape != (settings.columns,) or vector.dtype != settings.word_type:
        raise ValueError(
            f"vector must be {settings.columns} words of {settings.modulus_bits} bits in "
            f"{np.dtype(settings.word_type)}, got {vector.shape} of {vector.dtype}"
        )


def mask_key(own: KeyPair, identity: int, peer: Advertise, session: bytes) -> bytes:
    """The key of the mask between `identity`, whose masking key is `own`, and `peer`."""
    context = tie.pair_context(tie.MASKING, session, identity, peer.sender)
    return agree(own, peer.masking_key, context=context, length=16)


def sign(own: int, peer: int) -> int:
    """One of the two adds their mask, the other subtracts it."""
    return 1 if own < peer else -1
