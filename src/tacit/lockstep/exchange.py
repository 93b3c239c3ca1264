"""Messages of parties around their protocol: what each brings, where they resume, why one cannot continue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from tacit.channel import Channel, Failed, recv_first, sentence
from tacit.errors import PeerAway, PeerError
from tacit.wire import Message

M = TypeVar("M", bound=Message)


def exchange(channels: Mapping[str, Channel], mine: Mapping[str, M], limit: int, *, first: bool) -> dict[str, M]:
    """Say to each party what this one brings, and hear what they bring; both sides then compare.

    `first`: nothing was said before, so that the error at another message asks whether all were started alike.
    """
    for name, message in mine.items():
        channels[name].send(message)
    heard = {}
    for name, message in mine.items():
        kind, channel = type(message), channels[name]
        heard[name] = recv_first(channel, kind, limit) if first else channel.recv(kind, limit)
    return heard


def meeting_point(reached: Collection[Collection[int]], missing: str) -> int:
    """The latest step that all parties can resume at; a PeerError that begins with `missing` if there is none."""
    common = set.intersection(*map(set, reached))
    if not common:
        places = "; ".join(", ".join(map(str, steps)) or "none" for steps in reached)
        raise PeerError(f"{missing} ({places}): start all of them anew")
    return max(common)


@contextmanager
def telling(tell: Callable[[str], None], told: tuple[type[Exception], ...]) -> Iterator[None]:
    """If this party cannot continue, tell the others why, if the error is one of `told`."""
    try:
        yield
    except PeerAway:
        raise  # nothing is broken, and the others wait likewise
    except told as error:
        tell(str(error))
        raise


def to_each(channels: Collection[Channel]) -> Callable[[str], None]:
    """For `telling`: says it on each channel, of which some may be gone."""

    def tell(reason: str) -> None:
        for channel in channels:
            with suppress(PeerError, ValueError):
                channel.send(Failed(sentence(reason)))

    return tell
