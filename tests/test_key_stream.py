"""The stream of a key: block by block against AES, the same by both ways, and which of them is taken."""

import os
import time

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tacit import key_stream
from tacit.crypto import prg
from tacit.key_stream import KEY_BYTES, PAGE_BYTES, TAG_BYTES, pages

KEY = bytes(range(16))
WAYS = [key_stream._by_gcm, key_stream._by_counter_mode]


def made(fill: key_stream.Fill, page: int, size: int) -> bytes:
    output = bytearray(size + TAG_BYTES)
    fill(page, memoryview(output))
    return bytes(output[:size])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("page", [0, 1, 255, 2**32, 2**64 + 3])
def test_a_block_is_aes_of_its_counter(way, page):
    block = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()  # noqa: S305 -- the oracle
    counters = b"".join((page * 2**32 + j + 2).to_bytes(16, "big") for j in range(4))
    assert made(way(KEY), page, 64) == block.update(counters)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000, PAGE_BYTES])
def test_both_ways_give_the_same_stream_in_any_order_of_pages(size):
    key = os.urandom(KEY_BYTES)
    one, other = (way(key) for way in WAYS)
    for page in (7, 0, 7, 3):
        assert made(one, page, size) == made(other, page, size)


def test_masks_are_this_stream():
    buffer = np.zeros(PAGE_BYTES // 4 + 10, dtype=np.uint32)
    prg.add_mask(buffer, KEY)
    fill = pages(KEY, buffer.nbytes)
    assert made(fill, 0, PAGE_BYTES) + made(fill, 1, 40) == buffer.astype("<u4").tobytes()


@pytest.mark.parametrize("slow", WAYS)
def test_the_way_that_takes_less_time_is_taken_for_long_streams(slow, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    for way in WAYS:

        def timed(key, way=way):
            fill = way(key)

            def run(page, output):
                now[0] += 2.0 if way is slow else 1.0
                fill(page, output)

            return run

        monkeypatch.setattr(key_stream, way.__name__, timed)
    key_stream._faster.cache_clear()
    try:
        before = now[0]
        assert made(pages(KEY, PAGE_BYTES), 5, 100) == made(WAYS[0](KEY), 5, 100)
        measured, before = now[0] - before, now[0]
        made(pages(KEY, PAGE_BYTES), 5, 100)
        assert now[0] - before == 1.0  # by the other way, without measuring again
        assert measured > 1.0
    finally:
        key_stream._faster.cache_clear()


def test_short_streams_are_not_measured(monkeypatch):
    monkeypatch.setattr(key_stream, "_faster", lambda: pytest.fail("measured"))
    assert len(made(pages(KEY, 100), 0, 100)) == 100


def test_a_key_of_another_length_is_refused():
    with pytest.raises(ValueError, match="16 bytes, got 5"):
        pages(b"short", 100)
