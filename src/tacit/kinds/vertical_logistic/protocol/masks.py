"""Scores as ring words, and the zero-sum masks under which several passives send them.

    agree_masks(channels, me, others, session)    a key with each other passive, from fresh X25519 pairs
    Hidden(keys, parties).hide(scores)            words to send; each call takes new columns of every mask
    total(received, count)                        the sum of all passives' words: the masks cancel
    decoded(words, parties, outputs)              the sum of their scores, (rows, outputs)

Each pair of passives shares one stream; one adds it, the other subtracts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tacit.channel import Channel
from tacit.crypto.agreement import KeyPair, agree
from tacit.crypto.byte_strings import frame
from tacit.crypto.prg import KEY_BYTES, add_masks
from tacit.errors import Diverged, PeerError
from tacit.fixedpoint import Floats, Grid, Ring
from tacit.kinds.vertical_logistic.protocol.messages import HEAD, MaskKey

FRACTION_BITS = 32
LARGEST = 2.0**20  # of one party's score: what is larger has diverged
Keys = tuple[tuple[bytes, int], ...]  # each with the sign of its mask


def ring(parties: int) -> Ring:
    """The ring in which the scores of so many parties are added."""
    return Ring(64, Grid(FRACTION_BITS), LARGEST * parties)


def agree_masks(
    channels: Mapping[str, Channel],
    me: str,
    others: Sequence[str],
    session: bytes,
    rng: Generator | None = None,
    *,
    order: bytes = b"",
    position: int = 0,
) -> Keys:
    """A mask key with each of the other passives. They are spoken to directly: the active only relays what is sealed.

    Guarantee: the sum of all passives' masks is zero; a party that holds none of the keys, such as the active, cannot
        tell a passive's words from uniform ones, and learns their sum only. Passives with a different `order`, a digest
        of their rows, or another `position`, the step they begin at, get different masks: an active that aligned them
        differently, or sends them back to different steps, to compare sums over changing pairs of rows, sees noise.
    Assumes: the channels are authenticated; at least two passives do not tell the active their keys.
    Source: Bonawitz et al. 2017, section 4.0.1 (masking with one-time pads), without dropouts.
    """
    pair = KeyPair.generate(rng)
    for other in others:
        channels[other].send(MaskKey(pair.public))
    keys = []
    for other in others:
        public = channels[other].recv(MaskKey, HEAD).public
        first, second = sorted((me, other))
        context = frame(
            b"tacit vertical score masks", session, first.encode(), second.encode(), order, position.to_bytes(8, "big")
        )
        keys.append((agree(pair, public, context=context, length=KEY_BYTES), 1 if me == first else -1))
    pair.erase()
    return tuple(keys)


class Hidden:
    """A passive's scores on their way out. It counts columns: no part of a mask is used twice."""

    def __init__(self, keys: Keys, parties: int) -> None:
        self._keys = keys
        self._ring = ring(parties)
        self._column = 0

    def hide(self, scores: Floats) -> bytes:
        """The scores as words, row after row; under masks where there are other passives."""
        largest = float(np.abs(scores).max())
        if not largest <= LARGEST:
            raise Diverged(
                f"a score of {largest:.3g}, at most {LARGEST:.3g} can be sent: the training diverged, lower "
                "train.learning_rate or set scale: true"
            )
        words = np.ascontiguousarray(self._ring.encode(scores), dtype=np.uint64).reshape(-1)
        add_masks(words, self._keys, first_column=self._column)
        self._column += len(words)
        return words.astype("<u8").tobytes()


def total(received: Mapping[str, bytes], count: int) -> NDArray[np.uint64]:
    """The sum of the passives' `count` words: the same whatever their masks."""
    words = np.zeros(count, dtype=np.uint64)
    for name, data in received.items():
        if len(data) != 8 * count:
            raise PeerError(f"{name} sent {len(data)} bytes of scores, {8 * count} are due")
        words += np.frombuffer(data, dtype="<u8")
    return words


def decoded(words: NDArray[np.uint64], parties: Sequence[str], outputs: int = 1) -> Floats:
    """The sum of the scores of these parties, (rows, outputs)."""
    try:
        return ring(len(parties)).decode(words).reshape(-1, outputs)
    except ValueError:
        raise PeerError(
            f"the scores of {', '.join(parties)} add up to more than {LARGEST:.3g} each: one of them diverged, or "
            "their masks do not cancel"
        ) from None
