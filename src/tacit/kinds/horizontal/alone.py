"""Updates that travel one by one, each in an `Update`: the coordinator adds them up as they come in.

Gathering   at the coordinator
Round       at a client: it is over with the first answer
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.errors import PeerError
from tacit.kinds.horizontal.carrier import OUT_OF_TURN, Failed, Host, Mean, Opening, Participant
from tacit.kinds.horizontal.messages import HEAD_BYTES, Outgoing, ToCoordinator, Update
from tacit.kinds.horizontal.protections import check_paid, lacking
from tacit.kinds.horizontal.protections.contract import Alone, Upload
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.sums import Part, Sum, Together, group_size
from tacit.kinds.horizontal.tally import Tally
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.messages import Abort, ToServer
from tacit.secagg.messages import ToClient as SecureToClient


def alone_of(settings: Settings, size: int) -> Alone:
    """What a federation does to updates that travel alone, for a model of `size` numbers."""
    updates = settings.updates
    mechanism = updates.mechanism(settings, size)
    if updates.masked:
        raise ValueError(f"{updates.name} has updates under masks: none travels alone")
    if not isinstance(mechanism, Alone):
        raise ValueError(f"{updates.name} cannot be used: {lacking(mechanism, Alone)}")
    return mechanism


@dataclass(frozen=True, slots=True, eq=False)
class Carrier:
    """See `carrier.Carrier`."""

    settings: Settings
    mechanism: Alone

    @classmethod
    def of(cls, settings: Settings, layout: Layout) -> Carrier:
        return cls(settings, alone_of(settings, layout.size))

    @property
    def first_clip(self) -> float:
        clip = self.mechanism.clip
        return self.settings.encrypt.dp_encrypt.dp_norm_clip if clip is None else clip

    def sent_clip(self, clip: float) -> float | None:
        return None if self.mechanism.clip is None else clip

    def next_clip(self, clip: float, norm: float) -> float:
        return clip if self.mechanism.clip is None else self.mechanism.next_clip(clip, norm)

    def gathering(self, opening: Opening, host: Host, tally: Tally, now: float) -> Gathering:
        return Gathering(self, opening, tally, now)

    def stray(self, message: Update | ToServer) -> None:
        if isinstance(message, Update):
            raise PeerError(OUT_OF_TURN)
        raise PeerError(f"{type(message).__name__} belongs to secure aggregation, which is not used here")

    def round(self, participant: Participant) -> Round:
        return Round(self, participant)


_STAGE = "train and upload"  # the only one


class Gathering:
    """One round at the coordinator."""

    stage = _STAGE
    blamed = ()  # nothing that one client sends proves anything about another

    def __init__(self, carrier: Carrier, opening: Opening, tally: Tally, now: float) -> None:
        self.over: Mean | Failed | None = None
        self._carrier = carrier
        self._settings = carrier.settings
        self._number = opening.number
        self._sampled = frozenset(opening.sampled)
        self._waiting = set(opening.sampled)  # who may still answer
        self._arrived: set[int] = set()
        self._tally = tally
        largest = carrier.mechanism.largest_norm(carrier.sent_clip(opening.clip))
        self._sum = Sum(opening.model, largest, group_size(self._settings))
        self._deadline = now + self._settings.round.update_model_time_window / 1000

    def receive(self, sender: int, message: Update | ToServer, now: float) -> Outgoing:
        if isinstance(message, Abort):
            return self.gone(sender, now)
        if not isinstance(message, Update):
            self._carrier.stray(message)
            return []
        if message.round != self._number:
            raise PeerError(OUT_OF_TURN)
        if sender in self._arrived:
            raise PeerError("a second update in one round")
        if sender not in self._sampled or sender in self._tally.refused:  # one that was given up may be back in time
            raise PeerError("an update of a client that was not sampled")
        if not isinstance(message.vector, np.ndarray):
            raise PeerError("an update that is no array")
        loss = self._carrier.mechanism.add(self._sum, message)
        if loss is not None:
            self._tally.losses.append(loss)
        self._waiting.discard(sender)
        self._arrived.add(sender)
        self._took(message.vector.nbytes + HEAD_BYTES, now)
        return []

    def receive_together(self, several: Together, now: float) -> Outgoing:
        part = several.total
        if not isinstance(part, Part):
            raise ValueError("masked words, and no secure aggregation is under way")
        if not self._waiting.issuperset(several.senders) or part.count != len(several.senders):
            raise ValueError("a sum of clients that are not waited for")
        self._sum.add_part(part)
        self._tally.losses += several.losses
        self._waiting.difference_update(several.senders)
        self._arrived.update(several.senders)
        self._took(several.largest, now)
        return []

    def tick(self, now: float) -> Outgoing:
        if now >= self._deadline:
            self._close()
        return []

    def gone(self, client: int, now: float) -> Outgoing:
        self.left(client)
        return []

    def left(self, client: int) -> None:
        self._waiting.discard(client)
        if not self._waiting:
            self._close()

    def _took(self, size: int, now: float) -> None:
        """Close the round if nobody is waited for; if there are updates enough, the others have the grace left."""
        self._tally.up["Update"] = max(self._tally.up["Update"], size)
        if not self._waiting:
            self._close()
        elif len(self._arrived) >= self._settings.needed:
            self._deadline = min(self._deadline, now + self._settings.round.update_model_grace / 1000)

    def _close(self) -> None:
        self._tally.mark(_STAGE)
        count, needed = self._sum.count, self._settings.needed
        if count < needed:
            self.over = Failed(f"{count} updates, {needed} are needed")
        else:
            self.over = Mean(self._sum.mean(), count)


class Round:
    """One round at a client."""

    def __init__(self, carrier: Carrier, participant: Participant) -> None:
        self._settings = carrier.settings
        self._mechanism = carrier.mechanism
        self._participant = participant
        self.done = False

    def start(self, now: float) -> list[ToCoordinator]:
        mine, work = self._participant, self._participant.work
        inferred = mine.infer()
        upload = mine.learn(lambda learned: self._mechanism.upload(learned, work.clip, mine.rng))
        check_paid(upload.event, mine.paid, "an update")
        self._check_listed(upload)
        self.done = True
        return [*inferred, Update(work.round, mine.identity, upload.vector, upload.samples, upload.loss)]

    def _check_listed(self, upload: Upload) -> None:
        """Nothing leaves beside the vector that the protection does not list."""
        beside = [name for name in ("samples", "loss") if getattr(upload, name) is not None]
        if beside:
            updates = self._settings.updates
            listed = {each.field for each in updates.releases(self._settings) if each.message == Update.__name__}
            if unlisted := [name for name in beside if name not in listed]:
                raise ValueError(
                    f"{updates.name} would send {' and '.join(unlisted)}, and does not list it among its releases: "
                    "it is not sent"
                )

    def receive(self, message: SecureToClient, now: float) -> list[ToCoordinator]:
        raise PeerError(f"{type(message).__name__} without a round of secure aggregation")
