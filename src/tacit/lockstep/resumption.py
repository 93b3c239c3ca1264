"""How parties in lock step begin or resume together, and end together.

    agreed_session(channels, me, lead, held)    before anything else: the number of the training that all are part of
    conclude(channels, me, hub)                 after the last state is stored: all are done

A party that was killed before it stored anything holds nothing. If none of the others has begun, all begin anew; if
they have, only that party's user can mend it, and the others wait.

A party ends with success only once all have said that they are done, and stores that (`confirm`): until then it may be
needed again, by one that was killed while it stored its last state.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from tacit.channel import Channel, recv_first
from tacit.errors import NotResumed
from tacit.store import journal_files
from tacit.store.directory import Store
from tacit.wire import Message

SESSION_BYTES = 16
CONFIRMED = "confirmed"  # in the state: all parties have said that they are done
_LIMIT = 256
_RESUME = "start it with --resume RUN, or all of them anew"


class Holding(Message, frozen=True, tag=56):
    """What a party holds: the number of a training, or nothing; and whether it has answered anything in it."""

    session: Annotated[bytes, msgspec.Meta(max_length=SESSION_BYTES)]
    begun: bool


class Resuming(Message, frozen=True, tag=57):
    """From the lead: the training that all begin (`anew`), or resume."""

    session: Annotated[bytes, msgspec.Meta(min_length=SESSION_BYTES, max_length=SESSION_BYTES)]
    anew: bool


class Done(Message, frozen=True, tag=58):
    """From a party whose last state is stored."""


class AllDone(Message, frozen=True, tag=59):
    """From the hub: all of them are."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a party has stored of a training."""

    session: bytes = b""
    begun: bool = False


def agreed_session(
    channels: Mapping[str, Channel], me: str, lead: str, held: Held, *, needs_nothing: bool = False
) -> bytes:
    """The training that all are part of; another than `held` says if all begin anew.

    Raises NotResumed at the party that holds nothing, or something else, of a training that others have begun. One that
    `needs_nothing` to resume may hold nothing.
    """
    if me != lead:
        channels[lead].send(Holding(held.session, held.begun))
        said = recv_first(channels[lead], Resuming, _LIMIT)
        empty = needs_nothing and not held.session
        if said.session != held.session and not empty and (held.begun or not said.anew):
            raise NotResumed(f"{me} holds no part of the training that {lead} resumes: {_RESUME}")
        return said.session
    others = {name: recv_first(channel, Holding, _LIMIT) for name, channel in channels.items()}
    begun = {held.session} if held.begun else {other.session for other in others.values() if other.begun}
    if begun - {held.session}:
        raise NotResumed(f"{me} holds no part of the training that the others resume: {_RESUME}")
    anew = not begun and {other.session for other in others.values()} != {held.session or None}
    session = secrets.token_bytes(SESSION_BYTES) if anew else held.session
    for channel in channels.values():
        channel.send(Resuming(session, anew))
    return session


def conclude(channels: Mapping[str, Channel], me: str, hub: str) -> None:
    """Say that this party is done, and hear that all are."""
    if me != hub:
        channels[hub].send(Done())
        channels[hub].recv(AllDone, _LIMIT)
        return
    for channel in channels.values():
        channel.recv(Done, _LIMIT)
    for channel in channels.values():
        channel.send(AllDone())


def confirm(store: Store) -> None:
    """Store that all parties are done: this one has nothing left to do, and its journal is removed."""
    journal_files.clear(store.path)
    found = store.stored()
    if found is not None:
        state, model = found
        store.save(model, {**state, CONFIRMED: True}, store.ledger() or {"version": 1, "ledgers": []})
