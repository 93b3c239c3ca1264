"""Oblivious transfers and trees once more, in plain integers and one block at a time: what the tests compare with.

Nothing here uses `tacit.crypto.ot` or `fixed_key`, except `ends`, which makes the two ends of a session without base
transfers.
"""

from __future__ import annotations

import hashlib
import random

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tacit.crypto.ot import Receiver, Sender

SESSION = bytes(range(32))


def framed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def one_block(key: bytes, block: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)  # noqa: S305 -- one block


def aes(key: bytes, value: int) -> int:
    return int.from_bytes(one_block(key, value.to_bytes(16, "little")), "little")


class Pi:
    """The permutation of one purpose."""

    def __init__(self, purpose: str, session: bytes = SESSION) -> None:
        self.key = hashlib.sha256(framed(b"tacit fixed-key AES", session, purpose.encode())).digest()[:16]

    def __call__(self, value: int) -> int:
        return aes(self.key, value)

    def hash(self, value: int, tweak: int) -> int:
        return self(self(value) ^ tweak) ^ self(value)

    def keyed(self, key: int, number: int) -> int:
        return self(key ^ number) ^ key

    def compress(self, value: int) -> int:
        return self(value) ^ value


def stream(seed: bytes, start: int, count: int) -> list[int]:
    """Bits of AES in counter mode, lowest bit of each byte first."""
    bits: list[int] = []
    block = start // 128
    while len(bits) < start % 128 + count:
        data = one_block(seed, block.to_bytes(16, "big"))
        bits += [byte >> place & 1 for byte in data for place in range(8)]
        block += 1
    return bits[start % 128 :][:count]


def seeds_of(number: int) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Δ and 128 pairs of seeds."""
    draw = random.Random(number)
    return draw.getrandbits(128), [(draw.randbytes(16), draw.randbytes(16)) for _ in range(128)]


def ends(number: int = 0) -> tuple[Sender, Receiver]:
    """Both ends of a session, as after base transfers."""
    delta, pairs = seeds_of(number)
    chosen = [pair[delta >> place & 1] for place, pair in enumerate(pairs)]
    return Sender(delta.to_bytes(16, "little"), chosen, SESSION), Receiver(pairs, SESSION)


def extended(number: int, choices: list[int]) -> tuple[bytes, list[int], list[tuple[int, int]]]:
    """The first extension of such a session: the message, the receiver's blocks and the sender's pairs."""
    delta, pairs = seeds_of(number)
    padded = -(-len(choices) // 64) * 64
    bits = choices + [0] * (padded - len(choices))
    zeros, ones = [stream(zero, 0, padded) for zero, _ in pairs], [stream(one, 0, padded) for _, one in pairs]
    message = b""
    for zero, one in zip(zeros, ones, strict=True):
        row = sum((a ^ b ^ c) << place for place, (a, b, c) in enumerate(zip(zero, one, bits, strict=True)))
        message += row.to_bytes(padded // 8, "little")
    pi = Pi("oblivious transfer")
    chosen, both = [], []
    for place, choice in enumerate(choices):
        t = sum(row[place] << index for index, row in enumerate(zeros))
        q = t ^ (delta if choice else 0)
        chosen.append(pi.hash(t, place))
        both.append((pi.hash(q, place), pi.hash(q ^ delta, place)))
    return message, chosen, both


def numbers(blocks) -> list[int]:
    """An array of blocks as integers."""
    return [int(low) | int(high) << 64 for low, high in blocks.reshape(-1, 2)]
