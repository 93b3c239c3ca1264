"""Updates under the masks of a secure aggregation, of which the coordinator learns the sum alone.

Gathering   at the coordinator, around `secagg.Server`
Round       at a client, around `secagg.Client`
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tacit.errors import PeerError
from tacit.kinds.horizontal.carrier import OUT_OF_TURN, Failed, Host, Mean, Opening, Participant
from tacit.kinds.horizontal.messages import Inference, Outgoing, ToCoordinator, Update
from tacit.kinds.horizontal.protections import lacking
from tacit.kinds.horizontal.protections.contract import Clips, Inside
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.sums import Part, Together
from tacit.kinds.horizontal.tally import Tally
from tacit.kinds.horizontal.vector import Flat, Layout
from tacit.secagg.client import Client as SecureClient
from tacit.secagg.client import State as ClientState
from tacit.secagg.messages import Abort, Masked, Survivors, ToServer, unpack_ids
from tacit.secagg.messages import ToClient as SecureToClient
from tacit.secagg.server import Server, State
from tacit.secagg.session import Context
from tacit.secagg.unmask import Words
from tacit.wire import encode

_STAGES = {
    State.ADVERTISING: "advertise keys",
    State.SHARING: "share secrets",
    State.UPLOADING: "train and upload",
    State.AGREEING: "agree on survivors",
    State.REVEALING: "reveal shares",
    State.READY: "open the sum",
}


def inside_of(settings: Settings, size: int) -> Inside:
    """What goes into the masks of a federation, for a model of `size` numbers."""
    updates = settings.updates
    mechanism = updates.mechanism(settings, size)
    if not updates.masked:
        raise ValueError(f"{updates.name} has no masks: its updates travel alone")
    if not isinstance(mechanism, Inside):
        raise ValueError(f"{updates.name} cannot be used: {lacking(mechanism, Inside)}")
    return mechanism


def secure_context(settings: Settings, layout: Layout, model: Flat, number: int) -> Context:
    """What coordinator and clients know of an aggregation before it starts."""
    return Carrier.of(settings, layout).context(model, number)


@dataclass(frozen=True, slots=True, eq=False)
class Carrier:
    """See `carrier.Carrier`."""

    settings: Settings
    layout: Layout
    inside: Inside

    @classmethod
    def of(cls, settings: Settings, layout: Layout) -> Carrier:
        carrier = cls(settings, layout, inside_of(settings, layout.size))
        settings.secure(*carrier.inside.ring)  # refused before the first round, if at all
        return carrier

    def context(self, model: Flat, number: int) -> Context:
        return Context(self.settings.secure(*self.inside.ring), self.layout.digest(model), number)

    @property
    def first_clip(self) -> float:
        return self.settings.encrypt.dp_encrypt.dp_norm_clip

    def sent_clip(self, clip: float) -> float | None:
        return None

    def next_clip(self, clip: float, norm: float) -> float:
        return clip

    def gathering(self, opening: Opening, host: Host, tally: Tally, now: float) -> Gathering:
        return Gathering(self, opening, host, tally, now)

    def stray(self, message: Update | ToServer) -> None:
        if isinstance(message, Update):
            raise PeerError(OUT_OF_TURN)
        # Any other is one whose sum was opened before it arrived.

    def round(self, participant: Participant) -> Round:
        return Round(self, participant)


class Gathering:
    """One round at the coordinator."""

    def __init__(self, carrier: Carrier, opening: Opening, host: Host, tally: Tally, now: float) -> None:
        settings = carrier.settings
        self.over: Mean | Failed | None = None
        self._carrier = carrier
        self._settings = settings
        self._context = carrier.context(opening.model, opening.number)
        self._sampled = frozenset(opening.sampled)
        self._host = host
        self._tally = tally
        # Clients know from the file how many are invited: of those that are excluded, some may have to be.
        filled = sorted(opening.excluded)[: settings.sampled - len(opening.sampled)]
        self._server = Server(
            self._context,
            [*opening.sampled, *filled],
            identities=host.identities,
            upload_window=settings.round.update_model_time_window / 1000,
            enough=settings.needed,
            grace=settings.round.update_model_grace / 1000,
        )
        self._server.start(now)
        for client in filled:
            self._server.receive(client, Abort("it is excluded"), now)

    @property
    def stage(self) -> str:
        return _STAGES.get(self._server.state, "")

    @property
    def blamed(self) -> Collection[int]:
        return self._server.blamed.keys()

    def receive(self, sender: int, message: Update | ToServer, now: float) -> Outgoing:
        if isinstance(message, Update):
            raise PeerError(OUT_OF_TURN)
        if isinstance(message, Abort):
            if self._server.state is State.ADVERTISING and sender in self._sampled:
                self._host.answers.declined(sender)
            return self.gone(sender, now)
        late, stage = self._server.late, self._server.state
        outgoing = self._server.receive(sender, message, now)
        if isinstance(message, Masked) and self._server.late > late:
            self._tally.refuse(sender, "its masked update came too late", why="late")
        kind = type(message).__name__
        if kind not in self._tally.up:
            self._tally.up[kind] = len(encode(message))  # those of one kind are of one size, or nearly
        return self._after(outgoing, stage)

    def receive_together(self, several: Together, now: float) -> Outgoing:
        if isinstance(several.total, Part):
            raise ValueError("a sum without masks, and a secure aggregation is under way")
        stage = self._server.state
        for sender in several.senders:
            self._host.answers.uploaded(sender)
        outgoing = self._server.receive_sum(several.senders, several.session, several.total, now)
        self._tally.up["Masked"] = max(self._tally.up["Masked"], several.largest)
        return self._after(outgoing, stage)

    def tick(self, now: float) -> Outgoing:
        stage = self._server.state
        return self._after(self._server.tick(now), stage)

    def gone(self, client: int, now: float) -> Outgoing:
        stage = self._server.state
        return self._after(self._server.receive(client, Abort("it left"), now), stage)

    def left(self, client: int) -> None:
        """Nothing changes: a silent client is waited for until its stage is over."""

    def _after(self, outgoing: list[tuple[int, SecureToClient]], stage: State) -> Outgoing:
        """Continue from `stage`, in which the aggregation was before its last message."""
        server = self._server
        for client, reason in server.blamed.items():
            self._tally.blame(client, reason, self._settings.round.exclude)
        for holder, owners in server.disputes.items():
            self._tally.dispute(holder, owners)
        if server.state is not stage:
            self._tally.mark(_STAGES[stage])
        for _, message in outgoing:
            kind = type(message).__name__
            if kind not in self._tally.down:
                self._tally.down[kind] = len(encode(message))
        if stage is State.UPLOADING and outgoing and isinstance(told := outgoing[0][1], Survivors):
            self._host.answers.opened(unpack_ids(told.alive))
        if server.state is State.ABORTED:
            # Before AGREEING nobody was asked to reveal anything.
            self.over = Failed(server.reason, opened=stage >= State.AGREEING)
        elif server.state is State.READY:
            self.over = self._opened()
        return list(outgoing)

    def _opened(self) -> Mean | Failed:
        """What comes of the sum."""
        result = self._server.finish(shards=self._settings.server_num, unmasking=self._host.unmasking)
        survivors, needed = len(result.survivors), self._settings.needed
        if survivors < needed:
            return Failed(f"{survivors} updates, {needed} are needed")
        try:
            mean = self._carrier.inside.decode(result.words, survivors, self._context.digest())
        except PeerError as error:
            return Failed(str(error))
        self._tally.mark(_STAGES[State.READY])
        return Mean(mean, survivors)


class Round:
    """One round at a client."""

    def __init__(self, carrier: Carrier, participant: Participant) -> None:
        work, known = participant.work, participant.identities
        if known is not None:  # a certificate of some other federation's client is not one of this one's
            known = {client: public for client, public in known.items() if client < carrier.settings.clients}
        self._inside = carrier.inside
        self._participant = participant
        self._inferred: list[Inference] = []  # made, and not yet sent
        self._context = carrier.context(work.model, work.round)
        self._secure = SecureClient(
            self._context,
            participant.identity,
            self._vector,
            key=participant.key,
            identities=known,
            rng=participant.rng,
            opens=participant.opens,
        )

    @property
    def done(self) -> bool:
        return self._secure.state in (ClientState.DONE, ClientState.ABORTED)

    def start(self, now: float) -> list[ToCoordinator]:
        return list(self._secure.start(now))

    def receive(self, message: SecureToClient, now: float) -> list[ToCoordinator]:
        answers = self._secure.receive(message, now)
        if not any(isinstance(answer, Masked) for answer in answers):
            return list(answers)
        self._participant.uploads()
        return [*self._inferred, *answers]

    def _vector(self) -> Words:
        mine, rotation = self._participant, self._context.digest()
        self._inferred = mine.infer()
        return mine.learn(lambda learned: self._encoded(learned.update(), learned.samples, rotation))

    def _encoded(self, update: Flat, samples: int, rotation: bytes) -> Words:
        words = self._inside.encode(update, samples, rotation, self._participant.rng)
        if isinstance(self._inside, Clips):
            self._participant.clips(self._inside.beyond(update))
        return words
