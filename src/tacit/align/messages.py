"""What crosses between the parties of an alignment. Tags 60 to 66.

Sets travel in chunks of `CHUNK` items, the last one shorter, so that their number follows from the announced size.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tacit.crypto.curve import POINT_BYTES
from tacit.wire import Message

MAXIMUM = 10_000_000  # ids of one party
MAXIMUM_PARTIES = 256
CHUNK = 8192  # items of one message
TAG_BYTES = 16
SLOT_BYTES = 16
KEY_BYTES = 32
LIMIT = CHUNK * POINT_BYTES + 64  # bytes of a frame

Count = Annotated[int, Meta(ge=1, le=MAXIMUM)]


class Joining(Message, frozen=True, tag=60):
    """Passive to active: how many ids it has, how many must be common at least, its key for this alignment."""

    count: Count
    minimum: Count
    key: Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]


class Roster(Message, frozen=True, tag=61):
    """Active to passive: how many ids the active has, the largest minimum, and the keys of all passives, end to end."""

    count: Count
    minimum: Count
    keys: Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES * MAXIMUM_PARTIES)]


class Blinded(Message, frozen=True, tag=62):
    """Active to passive: its hashed ids times its secret."""

    items: Annotated[bytes, Meta(max_length=CHUNK * POINT_BYTES)]


class Evaluated(Message, frozen=True, tag=63):
    """Passive to active: the same points, in the same order, times the passive's secret as well."""

    items: Annotated[bytes, Meta(max_length=CHUNK * POINT_BYTES)]


class Store(Message, frozen=True, tag=64):
    """Passive to active: slots of its store, in which each of its ids finds its share of zero."""

    items: Annotated[bytes, Meta(max_length=CHUNK * SLOT_BYTES)]


class Common(Message, frozen=True, tag=65):
    """Active to passive: how many ids all have in common; 0 if too few for one of the parties."""

    count: Annotated[int, Meta(ge=0, le=MAXIMUM)]


class Tags(Message, frozen=True, tag=66):
    """Active to passive: the passive's own tags of the common ids, in the common order."""

    items: Annotated[bytes, Meta(max_length=CHUNK * TAG_BYTES)]
