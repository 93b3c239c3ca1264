"""Hashes and keyed functions from AES under a public key: 128-bit blocks by the million.

    permutation(session, purpose)     a public permutation π of blocks, for one purpose of one session
    π.hash(blocks, tweaks)            TMMO: π(π(x) ⊕ i) ⊕ π(x), a tweakable correlation-robust hash
    π.compress(blocks)                MMO: π(x) ⊕ x, for blocks that are uniform and independent
    π.keyed(keys, inputs)             π(K ⊕ i) ⊕ K, a pseudo-random function of i under the secret block K

Blocks are arrays of 64-bit words whose last axis has length 2, the low word first. A tweak is a 64-bit number that is
added (xor) to the low word. `keyed(K, i)` is `hash(π⁻¹(K), i)`: for a uniform K both are the same hash.

Guarantee: with p blocks hashed, an adversary that evaluates AES q times tells the results from uniform blocks with an
    advantage of the order of (p·q + p²)/2^128, if no pair of an input and a tweak is used twice.
Assumes: AES under a public key that both parties had a part in is an ideal permutation (the ideal-cipher model, not
    just a pseudo-random permutation); permutations under different keys are independent.
Source: Guo, Katz, Wang, Yu 2020 (IEEE S&P; ePrint 2019/074): section 7.2 for MMO, 7.4 for TMMO. `keyed`: Dunkelman,
    Keller, Shamir 2012, the single-key Even-Mansour scheme.
"""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from tacit.crypto.byte_strings import frame

__all__ = ["BLOCK_BYTES", "SESSION_BYTES", "Blocks", "Permutation", "Tweaks", "permutation"]

Blocks = NDArray[np.uint64]
Tweaks = NDArray[np.uint64]
BLOCK_BYTES = 16
SESSION_BYTES = 32
_AT_ONCE = 1 << 13  # blocks: two buffers of 128 KiB stay in the second-level cache
_SPARE = BLOCK_BYTES - 1  # bytes that `update_into` wants behind its output


def permutation(session: bytes, purpose: str) -> Permutation:
    """The permutation of one purpose. `session` is 32 public bytes to which both parties contributed."""
    if len(session) != SESSION_BYTES:
        raise ValueError(f"a session has {SESSION_BYTES} bytes, got {len(session)}")
    return Permutation(hashlib.sha256(frame(b"tacit fixed-key AES", session, purpose.encode())).digest()[:BLOCK_BYTES])


class Permutation:
    """AES-128 under a public key. Not for two threads at once."""

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 -- a permutation, no cipher

    def apply(self, blocks: Blocks) -> Blocks:
        """π of each block, in a new array."""
        data = np.ascontiguousarray(blocks, dtype="<u8")
        output = np.empty(data.nbytes + _SPARE, dtype=np.uint8)
        self._encryptor.update_into(data.reshape(-1).view(np.uint8).data, output.data)
        return output[: data.nbytes].view("<u8").reshape(data.shape)

    def compress(self, blocks: Blocks) -> Blocks:
        """π(x) ⊕ x of each block."""
        result = self.apply(blocks)
        result ^= blocks
        return result

    def hash(self, blocks: Blocks, tweaks: Tweaks) -> Blocks:
        """π(π(x) ⊕ i) ⊕ π(x) of each block x and its tweak i; `blocks` has shape (n, 2), `tweaks` (n,)."""
        result = np.empty(blocks.shape, dtype=np.uint64)
        for start in range(0, len(blocks), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            result[part] = self.keyed(self.apply(blocks[part]), tweaks[part])
        return result

    def keyed(self, keys: Blocks, inputs: Tweaks | int) -> Blocks:
        """π(K ⊕ i) ⊕ K of each key K; `inputs` are numbers below 2^64 that fit the shape of the keys."""
        mixed = np.array(keys, dtype="<u8", order="C")
        mixed[..., 0] ^= np.asarray(inputs, dtype=np.uint64)
        result = self.apply(mixed)
        result ^= keys
        return result
