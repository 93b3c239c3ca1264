"""Which rows all parties have in common, and one order for them: private set intersection.

    align(channels, me, active, ids)    for every party: its own row numbers of the common ids, in the common order
    order_digest(ids, rows)             a digest of these ids in this order

The construction is the multi-party intersection of Kolesnikov, Matania, Pinkas, Rosulek and Trieu (2017; shares of zero
without conditions) in a star around the active, with the oblivious function of Jarecki and Liu (2010) on Curve25519:

    passive j   draws a secret k_j; F_j(id) = H'(k_j·H(id)). Agrees on a key with every other passive, through the
                active. share_j(id) = XOR of a keyed hash of the id under each of these: the shares of all passives of
                one id cancel, and any fewer are random.
    active      draws a secret a and sends a·H(id) for each of its ids, shuffled, to every passive
    passive j   sends back k_j·a·H(id), and a store in which each of its own ids finds share_j(id), hidden by F_j(id)
    active      takes a off, so has F_j of its own ids, and looks each up in every store. What it finds cancels where
                all passives have the id, and is random otherwise. It sends each passive the tags of the common ids,
                in the order of the shuffle.

What each learns: the common ids, nothing more of other parties' ids. The active learns how many ids each passive has, a
passive how many the active has. With three or more parties nobody learns whom an id that is not common was missing at:
in intersections by pairs the active would learn each pair's, and in a ring all sizes of partial intersections.

Parties are semi-honest: they follow the protocol and may look at what they see. A party that puts in ids it only
guesses learns whether they are common. Passives that collude with the active lay open their own shares: then it learns
its intersection with the remaining ones. An active that swaps the passives' keys learns its intersection with each.
"""

from __future__ import annotations

import hashlib
import operator
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tacit.align.messages import (
    CHUNK,
    KEY_BYTES,
    LIMIT,
    MAXIMUM,
    MAXIMUM_PARTIES,
    SLOT_BYTES,
    TAG_BYTES,
    Blinded,
    Common,
    Evaluated,
    Joining,
    Roster,
    Store,
    Tags,
)
from tacit.boundary import CLEAR, Release
from tacit.channel import Channel, recv_first
from tacit.crypto import key_value
from tacit.crypto.agreement import KeyPair, agree
from tacit.crypto.byte_strings import frame
from tacit.crypto.curve import POINT_BYTES, Scalar, check_points, hash_all, multiply
from tacit.crypto.processes import Processes
from tacit.errors import PeerError
from tacit.randomness import secure_rng

Chunked = Blinded | Evaluated | Store | Tags
Slots = NDArray[np.uint64]

_POINT = "blinded by the sender's secret (Diffie-Hellman): random points to anyone without that secret"
ALIGN_RELEASES: tuple[Release, ...] = (
    Release("Joining", "count", "how many ids it has", CLEAR, "passive", "active"),
    Release("Joining", "minimum", "how many common ids it asks for", CLEAR, "passive", "active"),
    Release("Joining", "key", "a public key for this alignment", "depends on no data", "passive", "active"),
    Release("Roster", "count", "how many ids the active has", CLEAR, "active", "passive"),
    Release("Roster", "minimum", "the largest minimum of all parties", CLEAR, "active", "passive"),
    Release("Roster", "keys", "the passives' public keys", "depends on no data", "active", "passive"),
    Release("Blinded", "items", "its hashed ids", _POINT, "active", "passive"),
    Release("Evaluated", "items", "the active's blinded ids, with a second secret", _POINT, "passive", "active"),
    Release("Store", "items", "its ids' shares of zero", "uniform, but for the common ids", "passive", "active"),
    Release("Common", "count", "how many ids are common to all, 0 if too few", CLEAR, "active", "passive"),
    Release("Tags", "items", "the common ids", "readable only by parties that have these ids", "active", "passive"),
)


@dataclass(frozen=True, slots=True)
class Alignment:
    """What a party has after it: its rows of the common ids. All parties' `rows` are in the same, random order."""

    rows: NDArray[np.int64]
    own: int  # ids that it put in

    @property
    def common(self) -> int:
        return len(self.rows)


def align(
    channels: Mapping[str, Channel],
    me: str,
    active: str,
    ids: Sequence[str | int],
    *,
    workers: int = 1,
    minimum: int = 1,
) -> Alignment:
    """This party's row numbers of the ids that all parties have, in an order common to all.

    Guarantee: see the module: nobody learns more than the common ids and the sizes that are said there.
    Assumes: semi-honest parties; decisional Diffie-Hellman on Curve25519; SHA-512 and BLAKE2b are random oracles.
    Source: Kolesnikov, Matania, Pinkas, Rosulek, Trieu 2017, the protocol for augmented semi-honest parties; Jarecki,
        Liu 2010 for the oblivious function.

    Args:
        channels: to the other parties by name. A passive uses the one to the active.
        ids: one for each row, text or integers, compared after `normalised`. None may be empty or come twice.
        workers: processes for the arithmetic on the curve. One stays in this thread.
        minimum: ids that must be common, or every party gets the same ValueError.
    """
    if minimum < 1:
        raise ValueError(f"minimum must be 1 or more, got {minimum}")
    if active not in ([*channels] if me != active else [me]):
        raise ValueError(f"{me} has no channel to the active party {active}: it has {sorted(channels)}")
    if not 1 <= len(channels) < MAXIMUM_PARTIES:
        raise ValueError(f"{len(channels)} other parties: an alignment takes 1 to {MAXIMUM_PARTIES - 1}")
    own = normalised(ids)
    with Processes(workers) as processes:
        if me == active:
            rows = _active(channels, own, processes, minimum)
        else:
            rows = _passive(channels[active], active, own, processes, minimum)
    return Alignment(rows, len(own))


def normalised(ids: Sequence[str | int]) -> list[str]:
    """The ids as they are compared: in Unicode's form NFC, without white space around. Case and zeros in front count.

    ValueError, which names rows and stays with this party, for ids that are empty, come twice or are not text.
    """
    if not 1 <= len(ids) <= MAXIMUM:
        raise ValueError(f"{len(ids)} ids: an alignment takes 1 to {MAXIMUM}")
    texts = [unicodedata.normalize("NFC", _text(value, row)).strip() for row, value in enumerate(ids)]
    empty = [row for row, text in enumerate(texts) if not text]
    if empty:
        raise ValueError(f"{len(empty)} ids are empty, the first in row {empty[0]} (from 0): every row needs one")
    if len(set(texts)) < len(texts):
        first: dict[str, int] = {}
        again = [row for row, text in enumerate(texts) if first.setdefault(text, row) != row]
        raise ValueError(
            f"{len(again)} ids come again, the first in row {again[0]}, which has the id of row "
            f"{first[texts[again[0]]]} (from 0, without white space around): keep one row for each id"
        )
    return texts


def order_digest(ids: Sequence[str], rows: NDArray[np.int64]) -> bytes:
    """A digest of the ids of these rows in their order: the same at all parties that were aligned with each other."""
    digest = hashlib.sha256(b"tacit align order")
    for row in rows:
        text = unicodedata.normalize("NFC", ids[int(row)]).strip().encode("utf-8", "surrogatepass")
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.digest()


def _text(value: str | SupportsIndex, row: int) -> str:
    if isinstance(value, str):
        return value
    try:
        return str(operator.index(value))
    except TypeError:
        raise ValueError(f"the id in row {row} is a {type(value).__name__}: ids are text or integers") from None


def _active(channels: Mapping[str, Channel], ids: list[str], processes: Processes, minimum: int) -> NDArray[np.int64]:
    """The party in the centre. Sees which of its ids are common to all, and how many each passive has."""
    passives = sorted(channels)
    joined = {name: recv_first(channels[name], Joining, LIMIT) for name in passives}
    minimum = max(minimum, *(hello.minimum for hello in joined.values()))
    keys = b"".join(hello.key for hello in joined.values())
    for channel in channels.values():
        channel.send(Roster(len(ids), minimum, keys))

    secret = Scalar.generate()
    order = secure_rng().permutation(len(ids))
    shuffled = ([ids[row] for row in order[start:end]] for start, end in _spans(len(ids)))
    blinded = []
    for points in processes.map(partial(_blind, secret), shuffled):
        blinded.append(points)
        for channel in channels.values():
            channel.send(Blinded(points))
    looked_up = _evaluations(channels, passives, b"".join(blinded), secret.inverse(), processes)

    sums = np.zeros((len(ids), 2), dtype=np.uint64)
    for name in passives:
        outputs, count = looked_up[name], joined[name].count
        slots = _receive(channels[name], name, Store, key_value.slot_count(count), SLOT_BYTES)
        table = np.frombuffer(slots, dtype="<u8").reshape(-1, 2)
        sums ^= outputs.pads ^ key_value.decode(key_value.places(outputs.places, count), table)
    found = np.flatnonzero(~sums.any(axis=1))

    enough = len(found) >= minimum
    for name in passives:
        channels[name].send(Common(len(found) if enough else 0))
        if enough:
            _send(channels[name], Tags, looked_up[name].tags[found].tobytes(), TAG_BYTES)
    if not enough:
        raise ValueError(_too_few(minimum))
    return order[found].astype(np.int64)


def _passive(channel: Channel, active: str, ids: list[str], processes: Processes, minimum: int) -> NDArray[np.int64]:
    """A party around the centre. Sees which of its ids are common to all, and how many the active has."""
    pair = KeyPair.generate()
    channel.send(Joining(len(ids), minimum, pair.public))
    roster = recv_first(channel, Roster, LIMIT)
    shared = _shared_keys(pair, roster.keys, active)
    if roster.minimum < minimum:
        raise PeerError(f"{active} would continue with {roster.minimum} common ids, this party asks for {minimum}")

    secret = Scalar.generate()
    chunks = (ids[start:end] for start, end in _spans(len(ids)))
    arriving = (_chunk(channel, active, Blinded, end - start, POINT_BYTES) for start, end in _spans(roster.count))
    outputs: list[bytes] = []
    blinded: list[bytes] = []
    for output in processes.map(partial(_own_outputs, secret), chunks):
        outputs.append(output)
        blinded += islice(arriving, 1)  # in step with the active, which is at the same work
    own = _Outputs(outputs)
    points = b"".join([*blinded, *arriving])  # all, before the first answer: none can depend on one
    _check_distinct(points, active)
    parts = (points[start * POINT_BYTES : end * POINT_BYTES] for start, end in _spans(roster.count))
    for part in processes.map(partial(multiply, secret), parts):
        channel.send(Evaluated(part))

    values = own.pads ^ _shares(ids, shared)
    slots = key_value.encode(key_value.places(own.places, len(ids)), values, secure_rng())
    _send(channel, Store, slots.tobytes(), SLOT_BYTES)

    count = channel.recv(Common, LIMIT).count
    if not count:
        raise ValueError(_too_few(roster.minimum))
    if not roster.minimum <= count <= min(len(ids), roster.count):
        raise PeerError(f"{active} says that {count} ids are common, of {len(ids)} here and {roster.count} there")
    return _rows_of(_receive(channel, active, Tags, count, TAG_BYTES), own.tags, active)


class _Outputs:
    """F(id) for many ids, 52 bytes each: a pad for the store, the tag, and the places in the store."""

    def __init__(self, chunks: list[bytes]) -> None:
        table = np.frombuffer(b"".join(chunks), dtype=np.uint8).reshape(-1, _OUTPUT_BYTES)
        self.pads = np.ascontiguousarray(table[:, :SLOT_BYTES]).view("<u8")
        self.tags = np.ascontiguousarray(table[:, SLOT_BYTES : SLOT_BYTES + TAG_BYTES]).view(f"S{TAG_BYTES}")[:, 0]
        self.places = np.ascontiguousarray(table[:, SLOT_BYTES + TAG_BYTES :]).view("<u4")


_OUTPUT_BYTES = SLOT_BYTES + TAG_BYTES + 4 * key_value.PLACES


def _outputs(points: bytes) -> bytes:
    blake2b = hashlib.blake2b
    return b"".join(
        [
            blake2b(points[start : start + POINT_BYTES], digest_size=_OUTPUT_BYTES, person=b"tacit align F").digest()
            for start in range(0, len(points), POINT_BYTES)
        ]
    )


def _blind(secret: Scalar, ids: list[str]) -> bytes:
    return multiply(secret, hash_all(ids))


def _own_outputs(secret: Scalar, ids: list[str]) -> bytes:
    return _outputs(multiply(secret, hash_all(ids)))


def _unblinded_outputs(inverse: Scalar, points: bytes) -> bytes:
    return _outputs(multiply(inverse, points))


def _evaluations(
    channels: Mapping[str, Channel], passives: list[str], blinded: bytes, inverse: Scalar, processes: Processes
) -> dict[str, _Outputs]:
    """Every passive's function of this party's ids. A chunk of each passive in turn, so that none waits for another."""
    count = len(blinded) // POINT_BYTES
    received: dict[str, list[bytes]] = {name: [] for name in passives}

    def arriving() -> Iterator[bytes]:
        for start, end in _spans(count):
            for name in passives:
                points = _chunk(channels[name], name, Evaluated, end - start, POINT_BYTES)
                received[name].append(points)
                yield points

    outputs: dict[str, list[bytes]] = {name: [] for name in passives}
    for index, chunk in enumerate(processes.map(partial(_unblinded_outputs, inverse), arriving())):
        outputs[passives[index % len(passives)]].append(chunk)
    for name in passives:
        _check_distinct(blinded + b"".join(received.pop(name)), name)
    return {name: _Outputs(outputs.pop(name)) for name in passives}


def _shared_keys(own: KeyPair, keys: bytes, active: str) -> list[bytes]:
    """A key with each other passive, which the active does not know."""
    every = [keys[start : start + KEY_BYTES] for start in range(0, len(keys), KEY_BYTES)]
    if len(keys) % KEY_BYTES or every.count(own.public) != 1 or len(set(every)) < len(every):
        raise PeerError(f"{active} sent a list of keys in which this party's is not, or one comes twice")
    context = b"tacit align shares" + frame(*sorted(every))
    shared = [agree(own, key, context=context) for key in every if key != own.public]
    own.erase()
    return shared


def _shares(ids: list[str], keys: list[bytes]) -> Slots:
    """This passive's share of zero for each id: those of all passives cancel."""
    shares = np.zeros((len(ids), 2), dtype=np.uint64)
    for key in keys:
        keyed = hashlib.blake2b(key=key, digest_size=SLOT_BYTES, person=b"tacit align 0")
        for start, end in _spans(len(ids)):
            digests = []
            for text in ids[start:end]:
                share = keyed.copy()
                share.update(text.encode("utf-8", "surrogatepass"))
                digests.append(share.digest())
            shares[start:end] ^= np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)
    return shares


def _rows_of(tags: bytes, own: NDArray[np.bytes_], active: str) -> NDArray[np.int64]:
    """Where this party has the tags, in their order."""
    wanted = np.frombuffer(tags, dtype=own.dtype)
    order = np.argsort(own)
    rows = order[np.minimum(np.searchsorted(own, wanted, sorter=order), len(own) - 1)]
    if not np.array_equal(own[rows], wanted) or len(np.unique(rows)) < len(rows):
        raise PeerError(f"{active} named as common an id that this party does not have, or one twice")
    return rows.astype(np.int64)


def _check_distinct(points: bytes, sender: str) -> None:
    check_points(points)
    in_order = np.sort(np.frombuffer(points, dtype=f"S{POINT_BYTES}"))
    if np.any(in_order[1:] == in_order[:-1]):
        raise PeerError(f"{sender} sent a point twice, or one that it had from this party")


def _too_few(minimum: int) -> str:
    if minimum == 1:
        return "the parties have no ids in common: check that all use the same ids, written alike"
    return (
        f"the parties have fewer than {minimum} ids in common, which one of them asks for: check that all use the same "
        "ids, written alike, or ask for fewer"
    )


def _spans(count: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + CHUNK, count)) for start in range(0, count, CHUNK))


def _send(channel: Channel, kind: type[Chunked], items: bytes, width: int) -> None:
    for start, end in _spans(len(items) // width):
        channel.send(kind(items[start * width : end * width]))


def _receive(channel: Channel, sender: str, kind: type[Chunked], count: int, width: int) -> bytes:
    """`count` items of `width` bytes, in chunks."""
    return b"".join(_chunk(channel, sender, kind, end - start, width) for start, end in _spans(count))


def _chunk(channel: Channel, sender: str, kind: type[Chunked], count: int, width: int) -> bytes:
    items = channel.recv(kind, LIMIT).items
    if len(items) != count * width:
        raise PeerError(f"{sender} sent {len(items)} bytes in a {kind.__name__}, expected {count * width}")
    return items
