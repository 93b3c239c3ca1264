"""Rules of a horizontal federation, watched while its own clients run: what breaks one tells without any statistics.

audit_repeats       a client that is asked again for a round, or restarts, answers once and pays for what it sent
audit_masking       keys and masks are new in each round, and of a client that uploaded no share of a key is revealed
audit_fewest        no client helps to open a sum of fewer than the file allows
audit_inference     the noise of inference vectors is new in each round
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from tacit.audit.finding import Finding
from tacit.crypto import shamir
from tacit.crypto.agreement import KeyPair, public_of
from tacit.crypto.signing import SigningKey
from tacit.errors import BudgetError, Declined, PeerError
from tacit.events import Kept
from tacit.fixedpoint import signed
from tacit.kinds.horizontal.attacks.variants import protected_by
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.masked import inside_of, secure_context
from tacit.kinds.horizontal.messages import Inference, ToClient, ToCoordinator, Update, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.protections import CLEAR, one_of
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.simulate.memory import MemoryEngine, signing_keys
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork, Task
from tacit.kinds.horizontal.vector import Flat, Layout
from tacit.secagg import session as tie
from tacit.secagg.client import mask_key, sign
from tacit.secagg.messages import Abort, Advertise, Agreed, Masked, Reveal, Shares, Survivors, pack_ids, unpack_ids
from tacit.secagg.packed_words import unpack
from tacit.secagg.server import Server
from tacit.secagg.shares import RevealedShares
from tacit.secagg.unmask import Words, plan_of, unmask

_PAIR = 2 * tie.HASH_BYTES
_SMALL_BITS = 8  # a word within 2^-8 of the ring of 0 is small: one uniform word in 128 is
_CHANCE = 1e-12  # that so many uniform words are small
_FEWEST_WORDS = 64
_SHOWN = 3  # sentences
_UNLIKE = 1e-9  # noise that differs is less alike than this


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


def _client(
    settings: Settings,
    layout: Layout,
    identity: int = 0,
    keys: Mapping[int, SigningKey] | None = None,
    task: Task | None = None,
) -> Client:
    """A client that learns nothing, with noise and keys from the operating system."""
    task = task or _Still(layout.unflatten(np.zeros(layout.size, dtype=layout.dtype)))
    keys = signing_keys(settings) if keys is None else keys
    public = {each: key.public for each, key in keys.items()} or None
    key, random = keys.get(identity), lambda number: None
    return Prepared.of(settings, task).client(identity, key=key, identities=public, random=random)


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
        raise ValueError(f"{settings.updates.name} has no masks: take {one_of('masked')}")
    size = Layout.of(model).size
    columns, bits = inside_of(settings, size).ring
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
        sent = {client: signed(unpack(upload.words, columns, bits), bits) for client, upload in session.masked.items()}
        broken += [
            f"client {client} uploads numbers without masks"
            for client in sorted(opened)
            if _small(opened[client], bits) or _small(sent[client], bits)
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
    columns, bits = inside_of(settings, size).ring
    holders = tuple(sorted(session.adverts))
    secrets: dict[int, bytes] = {}
    if all(len(dealt.hashes) == len(holders) * _PAIR for dealt in session.shares.values()):
        secrets = _opened(session, settings.secure(columns, bits).topology(len(holders)).threshold, holders)
    found: dict[int, NDArray[np.int64]] = {}
    for client, upload in session.masked.items():
        words: Words = unpack(upload.words, columns, bits).copy()
        keys: list[tuple[bytes, int]] = []
        secret = secrets.get(client)
        if secret is not None and public_of(secret) == session.adverts[client].masking_key:
            own, peers = KeyPair(secret), [peer for peer in session.shares if peer != client]
            for peer in peers:
                keys.append((mask_key(own, client, session.adverts[peer], upload.session), -sign(client, peer)))
        elif secret is not None:
            keys.append((tie.self_mask_key(secret, upload.session), -1))
        unmask(words, plan_of(keys))
        found[client] = signed(words, bits)
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
    """Whether more of the numbers are near 0 than of uniform words: what is inside the masks is, or a part of it."""
    wrapped = (numbers + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)) if bits < 64 else numbers
    small = int((np.abs(wrapped) < 1 << (bits - _SMALL_BITS)).sum())
    return len(numbers) >= _FEWEST_WORDS and bool(binom.sf(small - 1, len(numbers), 2.0 ** (1 - _SMALL_BITS)) < _CHANCE)


# --- sums of too few


def audit_fewest(settings: Settings, layout: Layout, *, protection: str) -> Finding:
    """Tell clients that all but too few of them dropped out, and see whether one helps to open what is left.

    The coordinator cheats: every client uploads, and the list of survivors that it sends has one client less than the
    noise is sized for, or than the masks need.
    """
    if not settings.masked:
        raise ValueError(f"{settings.updates.name} opens no sums: take {one_of('masked')}")
    model = np.zeros(layout.size, dtype=layout.dtype)
    context = secure_context(settings, layout, model, 0)
    keys = signing_keys(settings)
    clients = {identity: _client(settings, layout, identity, keys=keys) for identity in range(settings.sampled)}
    topology = context.settings.topology(len(clients))
    least = settings.updates.minimum(settings) or topology.minimum
    server = Server(context, clients.keys(), identities={each: key.public for each, key in keys.items()} or None)
    server.start(0.0)
    outgoing: list[tuple[int, ToClient]] = [(client, Work(0, model)) for client in clients]
    helped: list[str] = []
    told = 0
    while outgoing:
        answers: list[tuple[int, ToClient]] = []
        for client, message in outgoing:
            if isinstance(message, Survivors):
                others = [other for other in clients if other != client]
                fewer = _fewer(message, sorted([client, *others[: least - 2]]))
                told += 1
                if any(isinstance(each, Agreed | Reveal) for each in _answers(clients, client, fewer)):
                    helped.append(f"client {client} helps to open a sum of {least - 1}, and {least} are the least")
                continue
            for answer in _answers(clients, client, message):
                answers += server.receive(client, answer, 0.0)  # type: ignore[arg-type]
        outgoing = answers
    return Finding(
        attack="ask clients to open a sum of too few",
        adversary="server, which may cheat",
        sees=f"what clients answer to a list of {least - 1} survivors; the least is {least}",
        protection=protection,
        broken=tuple(helped[:1]),
        watched=told,
    )


def _fewer(message: Survivors, alive: Sequence[int]) -> Survivors:
    """The same list with these as survivors, and all others as dropped out."""
    everyone = {*unpack_ids(message.alive), *unpack_ids(message.dropped)}
    return Survivors(message.session, len(alive), pack_ids(alive), pack_ids(sorted(everyone - set(alive))))


def _answers(clients: dict[int, Client], client: int, message: ToClient) -> list[ToCoordinator]:
    try:
        return [each for each in clients[client].receive(message, 0.0) if not isinstance(each, Abort)]
    except (PeerError, Declined, BudgetError):
        return []


# --- inference vectors


class _Infers(_Still):
    """A task that infers the same in each round."""

    def __init__(self, model: Arrays, classes: int) -> None:
        super().__init__(model)
        self.classes = classes

    def infer(self, client: int, model: Arrays, count: int) -> NDArray[np.float64]:
        return np.full((count, self.classes), 1 / self.classes)


def audit_inference(settings: Settings, layout: Layout, classes: int, *, protection: str) -> Finding:
    """Ask a client for inference vectors in two rounds, as if it inferred the same: only the noise is different."""
    data = settings.model_dump() | {"rounds": max(2, settings.rounds), "budget": None, "simulation": {}, "engine": {}}
    data["encrypt"], data["round"]["participations"] = protected_by(CLEAR, data["encrypt"]), None
    settings = Settings.model_validate(data)
    model = np.zeros(layout.size, dtype=layout.dtype)
    sent: list[NDArray[np.float64]] = []
    task = _Infers(layout.unflatten(model), classes)
    for identity in (0, 1):
        client = _client(settings, layout, identity, task=task)
        for number in (0, 1):
            sent += [each.vectors for each in _ask(client, number, model) if isinstance(each, Inference)]
    rows = np.concatenate(sent) - 1 / classes
    again = np.triu(np.abs(np.corrcoef(rows)) > 1 - _UNLIKE, 1) if rows.size else np.zeros((0, 0))
    same = bool(again.any()) or len(np.unique(rows)) < rows.size / 2
    return Finding(
        attack="compare the noise of inference vectors",
        adversary="server, honest but curious",
        sees="inference vectors of two clients in two rounds, who infer the same each time",
        protection=protection,
        broken=("the same noise is on two inference vectors",) * same,
        watched=len(rows),
    )
