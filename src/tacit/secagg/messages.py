"""What the clients and the server of an aggregation send each other, in this order.

client                              server
  Advertise   two public keys         ──►
              ◄──   Roster            the keys of the others (of the neighbours, on a sparse graph)
  Shares      sealed for each holder, and their hashes   ──►
              ◄──   Inbox             what the others sealed for this client, and the hashes of it
  Masked      the masked vector       ──►
              ◄──   Survivors         who uploaded, who did not
  Agreed      a signature on that     ──►      (active mode)
              ◄──   Agreements        t or more of them   (active mode)
  Reveal      one share for each      ──►      whose is left out did not open, or did not match its hash
              Abort, either way, at any time

Lists of ids, keys, sealed shares and ring words are byte strings; ids are ascending little-endian 32-bit numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
import numpy as np

from tacit.errors import PeerError
from tacit.wire import Message, Text

__all__ = [
    "Abort",
    "Advertise",
    "Agreed",
    "Agreements",
    "Inbox",
    "Masked",
    "Reveal",
    "Roster",
    "Shares",
    "Survivors",
    "ToClient",
    "ToServer",
]

Id = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, msgspec.Meta(max_length=64)]  # empty where there are no identities


class Advertise(Message, frozen=True, tag=1):
    sender: Id
    sealing_key: Key
    masking_key: Key
    signature: Signature


class Roster(Message, frozen=True, tag=2):
    digest: Digest  # of all advertisements, listed here or not
    total: Count
    ids: bytes
    sealing_keys: bytes
    masking_keys: bytes
    signatures: bytes


class Shares(Message, frozen=True, tag=3):
    session: Digest
    sender: Id
    commitment: Digest
    hashes: bytes  # two for each holder: of the masking key's share and of the self-mask's
    sealed: bytes
    signature: Signature


class Inbox(Message, frozen=True, tag=4):
    session: Digest
    total: Count
    senders: bytes
    hashes: bytes  # two for each sender
    sealed: bytes


class Masked(Message, frozen=True, tag=5):
    session: Digest
    sender: Id
    words: memoryview


class Survivors(Message, frozen=True, tag=6):
    session: Digest
    total: Count
    alive: bytes
    dropped: bytes


class Agreed(Message, frozen=True, tag=7):
    session: Digest
    sender: Id
    signature: Signature


class Agreements(Message, frozen=True, tag=8):
    session: Digest
    ids: bytes
    signatures: bytes


class Reveal(Message, frozen=True, tag=9):
    session: Digest
    sender: Id
    ids: bytes
    shares: bytes


class Abort(Message, frozen=True, tag=10):
    reason: Text


ToServer = Advertise | Shares | Masked | Agreed | Reveal | Abort
ToClient = Roster | Inbox | Survivors | Agreements | Abort


def pack_ids(ids: Iterable[int]) -> bytes:
    return np.array(sorted(ids), dtype="<u4").tobytes()


def unpack_ids(data: bytes) -> tuple[int, ...]:
    """Ascending ids, each once; anything else is the peer's fault."""
    if len(data) % 4:
        raise PeerError(f"a list of ids of {len(data)} bytes is not made of 32-bit numbers")
    ids = np.frombuffer(data, dtype="<u4").astype(np.int64)
    if (np.diff(ids) <= 0).any():
        raise PeerError("a list of ids is not ascending, or repeats one")
    return tuple(ids.tolist())


def cut(data: bytes, count: int, size: int, what: str) -> list[bytes]:
    """`data` as `count` pieces of `size` bytes."""
    if len(data) != count * size:
        raise PeerError(f"{count} {what} of {size} bytes are {count * size} bytes, got {len(data)}")
    return [data[i * size : (i + 1) * size] for i in range(count)]


def fingerprint(message: ToServer) -> int:
    """To tell a repeated message from a second one. Both are ignored, so that the start of a long vector will do."""
    return hash((message.session, bytes(message.words[:1024]))) if isinstance(message, Masked) else hash(message)
