"""Rules of a horizontal federation, watched while its own clients run: what breaks one tells without any statistics.

audit_repeats       a client that is asked again for a round, or restarts, answers once and pays for what it sent
audit_masking       keys and masks are new in each round, and of a client that uploaded no share of a key is revealed
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.finding import Finding
from tacit.crypto import shamir
from tacit.crypto.agreement import KeyPair, public_of
from tacit.engines.memory import MemoryEngine, signing_keys
from tacit.errors import BudgetError, Declined, PeerError
from tacit.events import Kept
from tacit.horizontal.client import Client
from tacit.horizontal.messages import ToCoordinator, Update, Work
from tacit.horizontal.protection import masked_sum
from tacit.horizontal.settings import Settings
from tacit.horizontal.task import Arrays, Fitted, FitWork
from tacit.horizontal.vector import Flat, Layout
from tacit.secagg import session as tie
from tacit.secagg.client import mask_key, sign
from tacit.secagg.messages import Abort, Advertise, Masked, Reveal, Shares, unpack_ids
from tacit.secagg.shares import RevealedShares
from tacit.secagg.unmask import Words, plan_of, unmask

_PAIR = 2 * tie.HASH_BYTES
_SMALL_BITS = 8  # a word within 2^-8 of the ring of 0 is small: one uniform word in 128 is
_BARE = 0.5  # of the words: with 64 or more of them, so many are small by chance once in 10^80
_FEWEST_WORDS = 64
_SHOWN = 3  # sentences


# --- a client that is asked again


def audit_repeats(settings: Settings, layout: Layout, *, protection: str) -> Finding:
    """Ask a client of the file twice for the same round, also after a restart, and compare what it counts."""
    rounds = min(2, settings.answers)
    broken: list[str] = []
    watched = 0
    client = _client(settings, layout)
    model = np.zeros(layout.size, dtype=layout.dtype)
    sent: list[Flat] = []
    for number in range(rounds):
        answers = _ask(client, number, model)
        sent += [answer.vector for answer in answers if isinstance(answer, Update)]
        before, paid = client.state(), _paid(client)
        for how in ("asked again", "asked again after a restart"):
            if how.endswith("restart"):
                client = _restarted(settings, layout, before)
                kept = client.state()
                watched += 1
                if any(kept[name] < before[name] for name in ("attempts", "uploads", "sums")):
                    broken.append(f"after a restart a client counts {kept['uploads']} of {before['uploads']} uploads")
                if _paid(client) < paid:
                    broken.append(f"after a restart a client has paid for {_paid(client)} of {paid} releases")
            watched += 1
            again = _ask(client, number, model)
            if any(not _same(one, answers) for one in again):
                broken.append(f"a client answers round {number} with other noise or keys when it is {how}")
                client = _restarted(settings, layout, before)
    if len(sent) > 1:
        watched += 1
        if np.array_equal(sent[0], sent[1]):
            broken.append("a client draws the same noise in two rounds")
    return Finding(
        attack="ask a client again for the same round",
        adversary="server, which may cheat",
        sees="what a client answers when it is asked twice, before and after it restarts",
        protection=protection,
        not_tested=("clients whose stored state is put back by hand",),
        broken=tuple(dict.fromkeys(broken)),
        watched=watched,
    )


def _client(settings: Settings, layout: Layout) -> Client:
    def fit(identity: int, model: Arrays, work: FitWork) -> Fitted:
        return Fitted(model, 1)

    keys = signing_keys(settings)
    public = {identity: key.public for identity, key in keys.items()} or None
    return Client(settings, 0, fit, layout, key=keys.get(0), identities=public)


def _restarted(settings: Settings, layout: Layout, state: dict[str, Any]) -> Client:
    """A new client with what the first one stored, which is JSON."""
    client = _client(settings, layout)
    client.restore(json.loads(json.dumps(state)))
    return client


def _paid(client: Client) -> int:
    """Releases in its ledgers: what a client stores may be wrong, and look right to itself."""
    return sum(count for ledger in (client.local, client.central) for _, count in ledger.lines)


def _ask(client: Client, number: int, model: Flat) -> list[ToCoordinator]:
    """What it answers; nothing if it refuses."""
    try:
        return [answer for answer in client.receive(Work(number, model), 0.0) if not isinstance(answer, Abort)]
    except (PeerError, Declined, BudgetError):
        return []


def _same(one: ToCoordinator, answers: Sequence[ToCoordinator]) -> bool:
    if isinstance(one, Update):
        return any(isinstance(each, Update) and np.array_equal(one.vector, each.vector) for each in answers)
    return one in answers


# --- masks


class _Still:
    """A task whose clients learn nothing: what is inside the masks is the same in each round, but for noise."""

    def __init__(self, model: Arrays) -> None:
        self._arrays = model

    def model(self) -> Arrays:
        return {name: array.copy() for name, array in self._arrays.items()}

    def fit(self, client: int, model: Arrays, work: FitWork) -> Fitted:
        return Fitted(model, 1)


@dataclass(slots=True)
class _Session:
    """What the server of one aggregation received."""

    adverts: dict[int, Advertise]
    shares: dict[int, Shares] = field(default_factory=dict)
    masked: dict[int, Masked] = field(default_factory=dict)
    reveals: dict[int, Reveal] = field(default_factory=dict)


def audit_masking(settings: Settings, model: Arrays, *, protection: str) -> Finding:
    """Run two rounds in which nobody learns anything, with keys from the operating system, and open what can be."""
    if not settings.masked:
        raise ValueError(f"{settings.encrypt.encrypt_type} has no masks: take PW_ENCRYPT or DDP_ENCRYPT")
    size = Layout.of(model).size
    _, bits = masked_sum(settings, size).ring
    messages: list[tuple[int, ToCoordinator]] = []
    engine = MemoryEngine(settings, _Still(model), Kept(), watch=lambda sender, made: messages.append((sender, made)))
    failed: Exception | None = None
    try:
        engine.run()
    except Exception as error:  # the coordinator may notice a fault too, and end the run: the messages are there
        failed = error
    sessions = _sessions(messages)
    broken: list[str] = []
    for number, session in enumerate(sessions):
        broken += _revealed_keys(session)
        opened = _without_own_masks(session, settings, size)
        if sessions[:number]:
            earlier = sessions[number - 1]
            broken += [
                f"client {client} advertises the same masking key in two rounds"
                for client, advert in session.adverts.items()
                if client in earlier.adverts and advert.masking_key == earlier.adverts[client].masking_key
            ]
            before = _without_own_masks(earlier, settings, size)
            broken += [
                f"client {client} uploads under the same masks in two rounds"
                for client in sorted(opened.keys() & before.keys())
                if _small(opened[client] - before[client], bits)
            ]
        broken += [
            f"client {client} uploads without masks" for client in sorted(opened) if _small(opened[client], bits)
        ]
    if failed is not None and not broken:
        raise failed
    watched = sum(len(session.reveals) + len(session.masked) for session in sessions)
    more = [f"and {len(broken) - _SHOWN} more"] if len(broken) > _SHOWN else []
    return Finding(
        attack="open masked uploads with the shares that were revealed, and with those of another round",
        adversary="server, honest but curious",
        sees="all messages of two rounds; takes off every mask that it can",
        protection=protection,
        not_tested=("rounds of which clients drop out while they reveal shares",),
        broken=(*broken[:_SHOWN], *more),
        watched=watched,
    )


def _sessions(messages: Sequence[tuple[int, ToCoordinator]]) -> list[_Session]:
    """The messages by aggregation: advertisements come first, and name no session."""
    found: list[_Session] = []
    for sender, message in messages:
        match message:
            case Advertise():
                if not found or found[-1].shares:
                    found.append(_Session({}))
                found[-1].adverts[sender] = message
            case Shares():
                found[-1].shares[sender] = message
            case Masked():
                found[-1].masked[sender] = message
            case Reveal():
                found[-1].reveals[sender] = message
            case _:
                pass
    return found


def _revealed_keys(session: _Session) -> list[str]:
    """Shares of the masking keys of clients that uploaded, by the hashes that their owners published."""
    holders = sorted(session.adverts)
    found = []
    for holder, reveal in session.reveals.items():
        rows = [reveal.shares[at : at + shamir.ROW_BYTES] for at in range(0, len(reveal.shares), shamir.ROW_BYTES)]
        for owner in session.masked:
            dealt = session.shares[owner]
            if len(dealt.hashes) != len(holders) * _PAIR:
                continue  # a sparse graph: the owner's holders are its neighbours, which the messages do not list
            at = holders.index(holder) * _PAIR
            published = dealt.hashes[at : at + tie.HASH_BYTES]
            if any(tie.share_hash(dealt.session, owner, holder, tie.MASKING, row) == published for row in rows):
                found.append(f"client {holder} reveals a share of the masking key of client {owner}, who uploaded")
    return found


def _without_own_masks(session: _Session, settings: Settings, size: int) -> dict[int, NDArray[np.int64]]:
    """Uploads as signed numbers, less each mask whose secret the revealed shares open."""
    columns, bits = masked_sum(settings, size).ring
    holders = tuple(sorted(session.adverts))
    secrets: dict[int, bytes] = {}
    if all(len(dealt.hashes) == len(holders) * _PAIR for dealt in session.shares.values()):
        secrets = _opened(session, settings.secure(columns, bits).topology(len(holders)).threshold, holders)
    found: dict[int, NDArray[np.int64]] = {}
    for client, upload in session.masked.items():
        words: Words = np.frombuffer(upload.words, dtype=f"<u{bits // 8}").copy()
        keys: list[tuple[bytes, int]] = []
        secret = secrets.get(client)
        if secret is not None and public_of(secret) == session.adverts[client].masking_key:
            own, peers = KeyPair(secret), [peer for peer in session.shares if peer != client]
            for peer in peers:
                keys.append((mask_key(own, client, session.adverts[peer], upload.session), -sign(client, peer)))
        elif secret is not None:
            keys.append((tie.self_mask_key(secret, upload.session), -1))
        unmask(words, plan_of(keys))
        found[client] = words.view(f"<i{bits // 8}").astype(np.int64)
    return found


def _opened(session: _Session, threshold: int, holders: tuple[int, ...]) -> dict[int, bytes]:
    """The secrets of clients that uploaded which the revealed shares open, whichever they are."""
    shares = RevealedShares(lambda owner: holders, threshold, lambda owner, holder, row: True)
    for holder, reveal in session.reveals.items():
        ids = unpack_ids(reveal.ids)
        if len(reveal.shares) == len(ids) * shamir.ROW_BYTES:
            shares.add(holder, ids, shamir.from_bytes(reveal.shares, len(ids)))
    return shares.recover(session.masked, lambda owner, secret: True, decode=False)


def _small(numbers: NDArray[np.int64], bits: int) -> bool:
    """Whether most of the numbers are near 0, as what is inside the masks is, and uniform words are not."""
    wrapped = (numbers + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)) if bits < 64 else numbers
    return len(numbers) >= _FEWEST_WORDS and float((np.abs(wrapped) < 1 << (bits - _SMALL_BITS)).mean()) > _BARE
