"""The AES-128 counter-mode stream of a key in pages, by whichever of OpenSSL's two ways is faster on this machine.

    fill = pages(key, size)
    fill(3, output)            # the first bytes of page 3, as many as `output` has without its last TAG_BYTES

Block j of page i is AES of the 128-bit counter i * 2^32 + j + 2. These are the ciphertexts of AES-128-GCM for zeros
under the nonces 0, 1, 2, ... without their tags, and they are those of plain counter mode. OpenSSL runs the two on
different units of a processor: plain counter mode was measured at half the speed of GCM on one machine (8 against
15 GB/s), at twice its speed on another, and the same on a third. So both are timed once in a process, at the first
stream that is long enough to gain (below 1 ms), and the stream does not depend on what was chosen.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["KEY_BYTES", "PAGE_BYTES", "TAG_BYTES", "Fill", "pages"]

KEY_BYTES = 16
PAGE_BYTES = 1 << 18  # the longest page: fits the second-level cache
TAG_BYTES = 16
_ZEROS = bytes(PAGE_BYTES)
_FIRST_BLOCK = 2  # GCM keeps the counters 0 and 1 of each nonce for itself
_SHORT = PAGE_BYTES  # bytes below which GCM's cheaper start decides: 3 µs a key against 11
_ROUNDS = 5
_PLAINLY = 0.9

Fill = Callable[[int, Any], None]  # (page, output): a writeable buffer of bytes


def pages(key: bytes, size: int) -> Fill:
    """The stream of `key`, of which about `size` bytes will be taken in all; no page is longer than PAGE_BYTES.

    Guarantee: without the key its bytes cannot be told from uniform ones. What is behind them, in the last TAG_BYTES of
        `output`, is overwritten or left as it is.
    Assumes: AES-128 is a pseudo-random permutation; the key is of this stream only. One thread at a time.
    Source: counter mode, NIST SP 800-38A section 6.5; the counters are those of NIST SP 800-38D section 7.1.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key of a stream has {KEY_BYTES} bytes, got {len(key)}")
    return _by_gcm(key) if size < _SHORT else _faster()(key)


def _by_gcm(key: bytes) -> Fill:
    encrypt_into = AESGCM(key).encrypt_into

    def fill(page: int, output: Any) -> None:
        encrypt_into(page.to_bytes(12, "big"), memoryview(_ZEROS)[: len(output) - TAG_BYTES], None, output)

    return fill


def _by_counter_mode(key: bytes) -> Fill:
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def fill(page: int, output: Any) -> None:
        size = len(output) - TAG_BYTES
        stream.reset_nonce((page << 32 | _FIRST_BLOCK).to_bytes(16, "big"))
        stream.update_into(memoryview(_ZEROS)[:size], output[:size])

    return fill


@functools.cache
def _faster() -> Callable[[bytes], Fill]:
    """The way that makes some pages in less time, measured in turn; counter mode only if it is plainly faster, as a key
    costs it more."""
    output = memoryview(bytearray(PAGE_BYTES + TAG_BYTES))
    ways = (_by_gcm, _by_counter_mode)
    fills = [way(bytes(KEY_BYTES)) for way in ways]
    least = [float("inf")] * len(ways)
    for page in range(_ROUNDS):
        for place, fill in enumerate(fills):
            start = time.perf_counter()
            fill(page, output)
            least[place] = min(least[place], time.perf_counter() - start)
    return _by_counter_mode if least[1] < _PLAINLY * least[0] else _by_gcm
