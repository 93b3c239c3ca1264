"""Random bits: ChaCha20 keyed from the operating system, as a numpy Generator.

    secure_rng()        a fresh generator nobody can predict: noise, masks, keys
    seeded_rng(seed)    the same generator with a known key: tests and simulations only
    shared_rng(secret)  the same generator in several processes that hold one secret
    random_words(rng, n)    n uniform 64-bit words, at the speed of OpenSSL's ChaCha20 for both of the above

Every sampler of the package takes one of these, or any other `numpy.random.Generator`, as its `rng`.
A generator from `secure_rng` takes a new key in a forked child and refuses to be pickled, so that two processes
never share noise. Draws are serialised by a lock, so that two threads do not either.
"""

from __future__ import annotations

import hashlib
import operator
import os
import threading
import weakref
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms
from numpy.random import Generator
from numpy.typing import NDArray
from randomgen import ChaCha

_CHUNK_BYTES = 1 << 17  # stays in the second-level cache
_ZEROS = bytes(_CHUNK_BYTES)
_BYTES_PER_KEY = 1 << 30  # then the stream replaces its own key: what was drawn before cannot be recomputed


_keyed_from_os: weakref.WeakSet[ChaCha20] = weakref.WeakSet()


class ChaCha20(ChaCha):  # type: ignore[misc]  # randomgen ships no types
    """randomgen's ChaCha with 20 rounds, plus a bulk stream of words from OpenSSL under a second key."""

    def __init__(self, key: bytes, *, from_os: bool) -> None:
        if len(key) != 64:
            raise ValueError(f"a ChaCha20 generator takes a key of 64 bytes, got {len(key)}")
        super().__init__(key=int.from_bytes(key[:32], "little"), rounds=20)
        self._from_os = from_os
        if from_os:
            _keyed_from_os.add(self)
        self._words_lock = threading.Lock()
        self._set_key(key[32:])

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` uniform 64-bit words."""
        output = np.empty(count, dtype="<u8")
        view = output.data.cast("B")
        with self._words_lock:
            for start in range(0, len(view), _CHUNK_BYTES):
                part = view[start : start + _CHUNK_BYTES]
                self._stream.update_into(memoryview(_ZEROS)[: len(part)], part)
                self._left -= len(part)
                if self._left <= 0:
                    self._set_key(self._stream.update(bytes(32)))
        return output

    def _set_key(self, key: bytes) -> None:
        self._stream: CipherContext = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
        self._left = _BYTES_PER_KEY

    def _rekey_in_child(self) -> None:
        key = os.urandom(64)
        self._set_key(key[32:])
        fresh = ChaCha(key=int.from_bytes(key[:32], "little"), rounds=20).state
        self.state = {**fresh, "bit_generator": type(self).__name__}

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a ChaCha20 generator is not pickled: two processes would draw the same noise; make one in each"
        )


_held: list[ChaCha20] = []  # whose locks are taken over a fork, so that a child never inherits one that is in use


def _before_fork() -> None:
    for bit_generator in list(_keyed_from_os):
        bit_generator.lock.acquire()
        bit_generator._words_lock.acquire()
        _held.append(bit_generator)


def _release() -> None:
    while _held:
        bit_generator = _held.pop()
        bit_generator._words_lock.release()
        bit_generator.lock.release()


def _after_in_child() -> None:
    _release()
    for bit_generator in list(_keyed_from_os):
        bit_generator._rekey_in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_release, after_in_child=_after_in_child)


def secure_rng() -> Generator:
    """A generator keyed from the operating system."""
    return Generator(ChaCha20(os.urandom(64), from_os=True))


def seeded_rng(seed: int) -> Generator:
    """A reproducible generator. Anyone who knows the seed can subtract the noise: for tests and simulations only."""
    seed = operator.index(seed)
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}")
    digest = hashlib.shake_256(b"tacit seeded_rng" + seed.to_bytes((seed.bit_length() + 7) // 8, "big")).digest(64)
    return Generator(ChaCha20(digest, from_os=False))


def shared_rng(secret: bytes) -> Generator:
    """The generator of a secret, the same for all who have it: for draws that several processes make alike.

    As secret as `secret` is, which is to have 32 bytes or more from operating systems.
    """
    if len(secret) < 32:
        raise ValueError(f"a shared secret has 32 bytes or more, got {len(secret)}")
    digest = hashlib.shake_256(b"tacit shared_rng" + secret).digest(64)
    return Generator(ChaCha20(digest, from_os=False))


def is_secure(rng: Generator) -> bool:
    """Whether `rng` was keyed from the operating system."""
    bit_generator: Any = rng.bit_generator
    return isinstance(bit_generator, ChaCha20) and bit_generator._from_os


def random_words(rng: Generator, count: int) -> NDArray[np.uint64]:
    """`count` uniform 64-bit words from `rng`."""
    bit_generator: Any = rng.bit_generator
    if isinstance(bit_generator, ChaCha20):
        return bit_generator.words(count)
    return rng.integers(0, 2**64, size=count, dtype=np.uint64)
