"""Millions of oblivious transfers from 128: the IKNP extension.

    invite(rng)                      the receiver's first move
    join(message, rng)               the sender's answer, and the `Sender`
    invitation.receiver(message)     the `Receiver`
    receiver.extend(choices)         its message, and one random block for each choice
    sender.extend(message, count)    two random blocks for each transfer, of which the receiver has the chosen one

The sender holds 128 secret bits Δ and chose with them in the base transfers, so that it can expand one seed of each of
128 pairs and the receiver both. A receiver with choices c sends u = t ⊕ t' ⊕ c for each pair of streams t, t'; the
sender's rows are q = t ⊕ Δ·c. The blocks are H(q, i) and H(q ⊕ Δ, i), the receiver's is H(t, i); i counts all transfers
of the session, on both sides, and is used once.

Guarantee: u is pseudo-random, so the sender learns nothing about the choices. Of each pair the receiver knows the block
    of its choice; the other is pseudo-random to it.
Assumes: both parties follow the protocol. AES-128 in counter mode is a pseudo-random generator; `fixed_key`'s hash is
    tweakable correlation-robust; the base transfers are secure. A receiver that deviates, with different choices in
    different rows of one transfer, can find bits of Δ: nothing here checks that.
Source: Ishai, Kilian, Nissim, Petrank 2003, the protocol for semi-honest parties; Asharov, Lindell, Schneider, Zohner
    2013 (random transfers, short messages); the hash as in Guo, Katz, Wang, Yu 2020, section 7.4.

Messages of any other length than the right one are refused before anything is computed from them. At most `MOST`
transfers are made at once, about 100 bytes of memory each. The objects hold streams that must not be used twice, so
they are not copied or pickled: after a restart parties make new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from tacit.crypto.byte_strings import random_bytes
from tacit.crypto.fixed_key import BLOCK_BYTES, Blocks, permutation
from tacit.crypto.ot import base
from tacit.crypto.ot.transpose import COLUMNS_A_WORD, ROWS, transpose
from tacit.errors import PeerError

__all__ = ["MOST", "Invitation", "Receiver", "Sender", "invite", "join", "message_bytes"]

MOST = 1 << 20
_ZEROS = bytes(MOST // 8)
_SPARE = BLOCK_BYTES - 1  # bytes that `update_into` wants behind its output


def message_bytes(count: int) -> int:
    """The length of a receiver's message for so many transfers."""
    return ROWS * 8 * _words(count)


class Invitation:
    """The receiver before the sender has answered."""

    def __init__(self, offer: base.Offer) -> None:
        self._offer = offer
        self.message = offer.message

    def receiver(self, message: bytes) -> Receiver:
        """The receiver of this session, from the sender's answer."""
        return Receiver(self._offer.keys(message), base.session(self.message, message))


def invite(rng: Generator | None = None) -> Invitation:
    """The receiver's first move: send its `message`."""
    return Invitation(base.Offer(rng))


def join(message: bytes, rng: Generator | None = None) -> tuple[bytes, Sender]:
    """The sender's answer to an invitation, and the sender of this session."""
    delta = random_bytes(rng, ROWS // 8)
    bits = np.unpackbits(np.frombuffer(delta, dtype=np.uint8), bitorder="little")
    reply, keys = base.answer(message, bits.tolist(), rng)
    return reply, Sender(delta, keys, base.session(message, reply))


class _End:
    """What both ends have: the session, how many transfers were made, and the hash."""

    def __init__(self, session: bytes) -> None:
        self.session = session
        self.used = 0
        self._hash = permutation(session, "oblivious transfer").hash

    def _tweaks(self, count: int) -> NDArray[np.uint64]:
        tweaks = np.arange(self.used, self.used + count, dtype=np.uint64)
        self.used += count
        return tweaks

    def __reduce__(self) -> NoReturn:
        raise TypeError("an end of oblivious transfers is not copied: its streams would be used twice; make a new one")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret, {self.used} transfers made)"


class Receiver(_End):
    """The end that chooses."""

    def __init__(self, seeds: Sequence[tuple[bytes, bytes]], session: bytes) -> None:
        super().__init__(session)
        self._zeros = [_stream(zero) for zero, _ in seeds]
        self._ones = [_stream(one) for _, one in seeds]

    def extend(self, choices: ArrayLike) -> tuple[bytes, Blocks]:
        """The message for the sender, and for each choice (0 or 1) the chosen block of a pair that the sender gets."""
        bits = _checked(choices)
        count = len(bits)
        words = _words(count)
        packed = np.zeros(words * 8, dtype=np.uint8)
        packed[: -(-count // 8)] = np.packbits(bits, bitorder="little")
        kept, message = _expand(self._zeros, words), _expand(self._ones, words)
        message ^= kept
        message ^= packed.view("<u8")
        chosen = self._hash(transpose(kept)[:count], self._tweaks(count))
        return message.tobytes(), chosen


class Sender(_End):
    """The end that gets both blocks."""

    def __init__(self, delta: bytes, seeds: Sequence[bytes], session: bytes) -> None:
        super().__init__(session)
        self._delta = np.frombuffer(delta, dtype="<u8")
        # All bits of a word set, if the bit of Δ is: a product that takes the same time for either.
        bits = np.unpackbits(self._delta.view(np.uint8), bitorder="little").astype(np.uint64)
        self._masks = (np.uint64(0) - bits)[:, None]
        self._streams = [_stream(seed) for seed in seeds]

    def extend(self, message: bytes, count: int) -> tuple[Blocks, Blocks]:
        """The blocks for choice 0 and for choice 1 of `count` transfers, from the receiver's message."""
        _check_count(count)
        if len(message) != message_bytes(count):
            raise PeerError(
                f"a message for {count} oblivious transfers has {message_bytes(count)} bytes, got {len(message)}"
            )
        rows = np.frombuffer(message, dtype="<u8").reshape(ROWS, -1) & self._masks
        rows ^= _expand(self._streams, _words(count))
        blocks, tweaks = transpose(rows)[:count], self._tweaks(count)
        zeros = self._hash(blocks, tweaks)
        blocks ^= self._delta
        return zeros, self._hash(blocks, tweaks)


def _words(count: int) -> int:
    return -(-count // COLUMNS_A_WORD)


def _check_count(count: int) -> None:
    if not 0 <= count <= MOST:
        raise ValueError(f"0 to {MOST} oblivious transfers are made at once, got {count}: make them in blocks")


def _checked(choices: ArrayLike) -> NDArray[np.uint8]:
    bits: NDArray[Any] = np.asarray(choices)
    if bits.ndim != 1:
        raise ValueError(f"choices are one list of bits, got an array of {bits.ndim} dimensions")
    _check_count(len(bits))
    if len(bits) and (bits.dtype.kind not in "biu" or not 0 <= int(bits.min()) <= int(bits.max()) <= 1):
        raise ValueError("choices are 0 or 1")
    return bits.astype(np.uint8)


def _stream(seed: bytes) -> CipherContext:
    return Cipher(algorithms.AES(seed), modes.CTR(bytes(BLOCK_BYTES))).encryptor()


def _expand(streams: Sequence[CipherContext], words: int) -> Blocks:
    """The next words of each stream, as rows."""
    rows = np.empty((len(streams), words), dtype="<u8")
    zeros, size = memoryview(_ZEROS)[: words * 8], words * 8
    output = np.empty(size + _SPARE, dtype=np.uint8)
    for row, stream in zip(rows, streams, strict=True):
        stream.update_into(zeros, output.data)
        row.view(np.uint8)[:] = output[:size]
    return rows
