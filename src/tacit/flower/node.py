"""One client on a SuperNode: a message comes in, answers and new state go out, and nothing stays in memory.

Flower starts a process for each message, so a client's state is bytes between two of them: what it has answered and,
within a masked round, a random seed and the messages so far. From these the client is made again, with the same keys,
and takes the next message. A round that is over, or failed, leaves neither seed nor messages behind.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from numpy.random import Generator

from tacit.crypto.byte_strings import frame
from tacit.crypto.signing import SigningKey
from tacit.errors import BudgetError, PeerError
from tacit.flower.once import Once
from tacit.flower.refused import refuse_record_privacy
from tacit.kinds.horizontal.client import Client
from tacit.kinds.horizontal.forecast import largest_frames
from tacit.kinds.horizontal.frames import to_client, to_frame
from tacit.kinds.horizontal.messages import ToClient, Work
from tacit.kinds.horizontal.prepared import Prepared
from tacit.kinds.horizontal.protections.contract import UnusableUpdate
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Fitted, FitWork, Keeps, Task
from tacit.net.identity import Credentials
from tacit.net.star import client_identity
from tacit.randomness import seeded_rng
from tacit.secagg.messages import Abort, Agreements, Inbox, Roster, Survivors, unpack_ids
from tacit.wire import Message, decode, encode

INTRODUCE = b"tacit flower introduction 1"  # what a client signs for
_LARGEST_CERTIFICATE = 8192

# The stages, as Flower names kinds of messages. Each has a handler of its own.
STAGES: dict[str, type[ToClient]] = {
    "train.work": Work,
    "query.roster": Roster,
    "train.inbox": Inbox,
    "query.survivors": Survivors,
    "query.agreements": Agreements,
    "query.abort": Abort,
}

Counter = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Introduction(Message, frozen=True, tag=60):
    """Who a node is. The signature is on the coordinator's nonce, the node and the client."""

    client: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
    certificate: Annotated[bytes, msgspec.Meta(max_length=_LARGEST_CERTIFICATE)]
    signature: Annotated[bytes, msgspec.Meta(max_length=64)]


class Acquaintances(Message, frozen=True, tag=61):
    """The certificates of a round's clients."""

    ids: bytes
    certificates: list[Annotated[bytes, msgspec.Meta(max_length=_LARGEST_CERTIFICATE)]]


class Standing(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a client has answered: see `Client.state`."""

    attempts: Counter = 0
    uploads: Counter = 0
    sums: Counter = 0
    models: list[str] = []
    repeats: Counter = 0
    opened: list[list[int]] = []

    @classmethod
    def of(cls, client: Client) -> Standing:
        return cls(**client.state())

    def joined(self, kept: Mapping[str, Any] | None) -> Standing:
        """All that this one or a state that the client stored itself says."""
        if kept is None:
            return self
        other = Standing(**kept)
        return Standing(
            max(self.attempts, other.attempts),
            max(self.uploads, other.uploads),
            max(self.sums, other.sums),
            sorted({*self.models, *other.models}),
            max(self.repeats, other.repeats),
            [*self.opened, *(survivors for survivors in other.opened if survivors not in self.opened)],
        )


class State(Message, frozen=True, tag=62):
    """A client between two messages."""

    before: Standing  # when the round began
    now: Standing
    seed: Annotated[bytes, msgspec.Meta(max_length=32)]  # of the round's keys and noise; empty between rounds
    known: bytes  # Acquaintances
    frames: list[bytes]  # of the round so far


NEW = State(Standing(), Standing(), b"", b"", [])


def introduced(nonce: bytes, node: int, client: int) -> bytes:
    """What a client signs when it is asked who it is."""
    return frame(nonce, str(node).encode(), str(client).encode())


class Node:
    """A client that is asked one thing at a time.

    Args:
        credentials: the client's keys; None where it needs none.
        once: what it has answered, on its own disk.
    """

    def __init__(
        self, settings: Settings, client: int, task: Task, credentials: Credentials | None, once: Once | None = None
    ) -> None:
        refuse_record_privacy(settings)
        if settings.signs and credentials is None:
            raise ValueError(
                "mode is active, so that clients sign the keys of each round, and this node has no keys: name the "
                "--local file in its configuration (tacit-local), or take mode: semi_honest"
            )
        if isinstance(task, Keeps) and task.keeps:
            raise ValueError(
                "the task keeps parameters or buffers at each client, which a node of Flower does not store: leave out "
                "local and BatchNorm, or run it by tacit join"
            )
        self._settings = settings
        self._client = client
        self._credentials = credentials
        self._once = once or Once(None)
        self._prepared = Prepared.of(settings, task)
        self._layout = self._prepared.layout
        self._limit = largest_frames(settings, self._layout, self._prepared.classes)[1]
        self.failure: Exception | None = None  # of the task; it stays here

    def introduce(self, nonce: bytes, node: int) -> bytes:
        """Say who this is."""
        if self._credentials is None:
            return encode(Introduction(self._client, b"", b""))
        signature = self._credentials.signing_key.sign(INTRODUCE, introduced(nonce, node, self._client))
        return encode(Introduction(self._client, self._credentials.certificate, signature))

    def answer(self, stage: str, message: bytes, known: bytes, stored: bytes) -> tuple[list[bytes], bytes]:
        """What to send, and the state to keep, after a message of `stage`."""
        state = decode(stored, State, len(stored)) if stored else NEW
        idle = State(state.now, state.now, b"", b"", [])
        if stage == "query.abort":
            return [], encode(idle)
        try:
            taken = to_client(message, self._layout, self._limit, self._settings.round.down)
            if not isinstance(taken, STAGES[stage]):
                raise PeerError(f"{type(taken).__name__}, expected {stage}")
            if isinstance(taken, Work):
                before = state.now.joined(self._once.kept())  # Flower may have lost what came after an answer
                self._once.work(taken.round)
                state = State(before, before, secrets.token_bytes(32), known, [])
            elif not state.seed:
                raise PeerError(f"{type(taken).__name__} without a round of secure aggregation")
            else:
                self._once.stage(stored)
            client = self._again(state)
            answers = client.receive(taken, 0.0)
            self._once.keep(client.state())
        except (PeerError, UnusableUpdate, BudgetError) as error:
            reason = "its privacy budget is spent" if isinstance(error, BudgetError) else str(error)
            return [to_frame(Abort(reason[:300]))], encode(self._spent(idle, message, stage))
        except Exception as error:  # the task's. Its words may quote a record, so they stay here
            self.failure = error
            return [to_frame(Abort("its training failed"))], encode(self._spent(idle, message, stage))
        return [to_frame(answer) for answer in answers], encode(self._after(state, client, message))

    def _after(self, state: State, client: Client, message: bytes) -> State:
        now = Standing.of(client)
        if client.idle:
            return State(now, now, b"", b"", [])
        return State(state.before, now, state.seed, state.known, [*state.frames, message])

    def _spent(self, idle: State, message: bytes, stage: str) -> State:
        """After a failure: a round that was begun counts as answered, whatever came of it."""
        if stage != "train.work":
            return idle
        try:
            work = to_client(message, self._layout, self._limit, self._settings.round.down)
        except PeerError:
            return idle
        if not isinstance(work, Work) or not idle.now.attempts <= work.round < self._settings.answers:
            return idle
        now = msgspec.structs.replace(idle.now, attempts=work.round + 1, uploads=idle.now.uploads + 1)
        return State(now, now, b"", b"", [])

    # --- the client, made again

    def _again(self, state: State) -> Client:
        """The client as it was after the messages so far. It does not train again: what it uploaded is gone."""
        replaying = bool(state.frames)
        key, identities = self._identities(state.known)

        def fit(client: int, model: Arrays, work: FitWork) -> Fitted:
            if replaying:
                return Fitted(model, 1)
            return self._prepared.task.fit(client, model, work)

        client = self._prepared.client(
            self._client,
            fit=fit,
            key=key,
            identities=identities,
            random=self._source(state.seed),
            failed=self._failed,
        )
        client.restore(msgspec.structs.asdict(state.before))
        for each in state.frames:
            client.receive(to_client(each, self._layout, self._limit, self._settings.round.down), 0.0)
        replaying = False
        return client

    def _source(self, seed: bytes) -> Callable[[int], Generator | None]:
        """The operating system's randomness, or in a masked round a stream under a key that it made for this round."""

        def source(number: int) -> Generator | None:
            return seeded_rng(int.from_bytes(seed, "big")) if self._settings.masked else None

        return source

    def _failed(self, where: str, error: Exception) -> None:
        self.failure = error

    def _identities(self, known: bytes) -> tuple[SigningKey | None, Mapping[int, bytes] | None]:
        """This client's signing key, and everybody's public one as far as certificates go."""
        if self._credentials is None or not self._settings.signs:
            return None, None
        met = decode(known, Acquaintances, len(known))
        ids = unpack_ids(met.ids)
        if len(ids) != len(met.certificates):
            raise PeerError(f"{len(met.certificates)} certificates of {len(ids)} clients")
        found = {self._client: self._credentials.signing_key.public}
        for client, certificate in zip(ids, met.certificates, strict=True):
            identity = self._credentials.identify(certificate)
            if client_identity(identity.name) != client:
                raise PeerError(f"the certificate of {identity.name} for client {client}")
            if client == self._client and identity.signing_public != found[client]:
                raise PeerError("the coordinator has another signing key of this client")
            found[client] = identity.signing_public
        return self._credentials.signing_key, found
