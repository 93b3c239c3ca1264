"""Masks: the AES-128 counter-mode stream of a key, added into a buffer of ring words.

    add_mask(buffer, key)             add or subtract one mask, modulo 2^16, 2^32 or 2^64
    add_masks(buffer, signed_keys)    many masks in one go, for less memory traffic
    page_columns(dtype)               cut shards at multiples of this: elsewhere a part of a page is made for nothing

A mask is a function of key and column. The stream is cut into pages of 256 KiB; block j of page i is AES of the 128-bit
counter i * 2^32 + j + 2, and words are little-endian: see `key_stream`, which makes it by the faster of two ways. A
page begins at its own counter, so that any range of columns can be expanded alone.

Measured on one core, per million 32-bit words: 0.28 ms to expand, 0.15 ms to add. The choices behind it:
- Pages of 256 KiB: a page and its columns fit the second-level cache, and what a call and the hand-over of the
  interpreter lock cost no longer shows. With 64 KiB it takes 10% longer on one thread and twice as long on two.
- `add_masks` goes page by page through all keys, so that the columns stay in the cache: 15% less time at 10^6 columns
  and 30% less at 10^7 than key by key.
- A cipher is made once per key and thread: one per key and page would add 1 µs to each 25 µs.
- Threads take whole pages; OpenSSL and numpy release the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.key_stream import KEY_BYTES, PAGE_BYTES, TAG_BYTES, pages

__all__ = ["KEY_BYTES", "PAGE_BYTES", "add_mask", "add_masks", "page_columns"]

Words = NDArray[np.uint16] | NDArray[np.uint32] | NDArray[np.uint64]

_LAST_COLUMN = 2**63  # of a mask; far below the end of the 96-bit nonces
_KEYS_AT_ONCE = 256  # whose ciphers are open together: their memory does not grow with the number of keys
_PAGES_A_THREAD = 16  # below this (0.4 ms) a thread costs more than it saves

_Step = tuple[bytes, Callable[..., Any]]  # a key, and how its mask enters


def add_mask(buffer: Words, key: bytes, *, negative: bool = False, first_column: int = 0, threads: int = 1) -> None:
    """Add the mask of `key`, or subtract it, in place. `buffer[0]` is column `first_column` of the whole vector.

    Guarantee: without the key, the buffer cannot be told from uniform words, whatever it held. The mask of
        a range of columns is that range of the mask, bit for bit, for any first column and number of threads.
    Assumes: AES-128 is a pseudo-random permutation; the key comes from an agreement or a CSPRNG, makes one mask and
        is used for nothing else.
    Source: counter mode, NIST SP 800-38A section 6.5; the counters are those of NIST SP 800-38D section 7.1.
    """
    add_masks(buffer, [(key, -1 if negative else 1)], first_column=first_column, threads=threads)


def add_masks(
    buffer: Words, signed_keys: Iterable[tuple[bytes, int]], *, first_column: int = 0, threads: int = 1
) -> None:
    """Add each key's mask times its sign (1 or -1) in place: the same as `add_mask` for each, in any order.

    `signed_keys` may be a generator: keys are taken by the hundred, so that the caller need not hold all of them. After
    a ValueError for a bad key or sign the masks of earlier ones may have been added.
    """
    _check(buffer, first_column, threads)
    keys = iter(signed_keys)
    while steps := _steps(keys):
        first, *others = _split_by_pages(buffer, first_column, min(threads, _worthwhile(buffer, len(steps))))
        if not others:
            _add_pages(*first, steps)
            continue
        with ThreadPoolExecutor(len(others)) as pool:
            running = [pool.submit(_add_pages, *part, steps) for part in others]
            _add_pages(*first, steps)
        for part in running:
            part.result()


def page_columns(dtype: Any) -> int:
    """The columns in one page of a mask for buffers of this type."""
    return PAGE_BYTES // int(np.dtype(dtype).itemsize)


def _add_pages(buffer: Words, first_column: int, steps: Sequence[_Step]) -> None:
    page_words = page_columns(buffer.dtype)
    streams = [(pages(key, buffer.nbytes), combine) for key, combine in steps]
    end_column = first_column + len(buffer)
    width = buffer.itemsize
    longest = min(page_words, end_column - first_column // page_words * page_words)
    scratch_bytes = np.empty(longest * width + TAG_BYTES, dtype=np.uint8)
    scratch = scratch_bytes.view(buffer.dtype.newbyteorder("<"))
    for page in range(first_column // page_words, -(-end_column // page_words)):
        start = max(first_column, page * page_words)
        end = min(end_column, (page + 1) * page_words)
        made = end - page * page_words  # from the first word of the page: a message cannot be entered in its middle
        output = scratch_bytes.data[: made * width + TAG_BYTES]
        mask = scratch[start - page * page_words : made]
        columns = buffer[start - first_column : end - first_column]
        for fill, combine in streams:
            fill(page, output)
            combine(columns, mask, columns)
    scratch.fill(0)


def _steps(keys: Iterator[tuple[bytes, int]]) -> list[_Step]:
    steps: list[_Step] = []
    for key, sign in islice(keys, _KEYS_AT_ONCE):
        if len(key) != KEY_BYTES:
            raise ValueError(f"a mask key has {KEY_BYTES} bytes, got {len(key)}")
        if isinstance(sign, bool) or sign not in (1, -1):
            raise ValueError(f"the sign of a mask is 1 or -1, got {sign!r}")
        steps.append((key, np.add if sign == 1 else np.subtract))
    return steps


def _split_by_pages(buffer: Words, first_column: int, parts: int) -> list[tuple[Words, int]]:
    """At most `parts` stretches of whole pages, each with its first column."""
    page_words = page_columns(buffer.dtype)
    first_page = first_column // page_words
    pages = -(-(first_column + len(buffer)) // page_words) - first_page
    parts = max(1, min(parts, pages))
    cuts = [max(0, (first_page + pages * i // parts) * page_words - first_column) for i in range(parts)]
    ends = [*cuts[1:], len(buffer)]
    return [(buffer[start:end], first_column + start) for start, end in zip(cuts, ends, strict=True)]


def _worthwhile(buffer: Words, keys: int) -> int:
    return buffer.nbytes * keys // (_PAGES_A_THREAD * PAGE_BYTES)


def _check(buffer: Words, first_column: int, threads: int) -> None:
    if buffer.dtype not in (np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64)):
        raise ValueError(f"masks are added to uint16, uint32 or uint64 words, got {buffer.dtype}")
    if buffer.ndim != 1 or not buffer.flags.c_contiguous or not buffer.flags.writeable:
        raise ValueError("masks are added in place: give a writeable, contiguous, one-dimensional buffer")
    if not 0 <= first_column <= _LAST_COLUMN - len(buffer):
        raise ValueError(f"first_column must be from 0 to 2^63 less the buffer's length, got {first_column}")
    if threads < 1:
        raise ValueError(f"threads must be 1 or more, got {threads}")
