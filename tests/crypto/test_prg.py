"""Masks are the AES counter-mode stream, exactly, wherever the columns are cut."""

from itertools import pairwise

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto import prg
from tacit.crypto.prg import PAGE_BYTES, add_mask, add_masks, page_columns
from tacit.randomness import seeded_rng

KEY = bytes(range(16))
KEYS = st.binary(min_size=16, max_size=16)
DTYPES = st.sampled_from([np.uint16, np.uint32, np.uint64])


def stream(key, length):
    """The mask's bytes from plain counter mode, page by page."""
    pages = []
    for page in range(-(-length // PAGE_BYTES)):
        counter = (page << 32) + 2
        cipher = Cipher(algorithms.AES(key), modes.CTR(counter.to_bytes(16, "big"))).encryptor()
        pages.append(cipher.update(bytes(PAGE_BYTES)))
    return b"".join(pages)[:length]


def whole_mask(key, columns, dtype):
    return np.frombuffer(stream(key, columns * np.dtype(dtype).itemsize), np.dtype(dtype).newbyteorder("<"))


def made_mask(key, columns, dtype, **options):
    buffer = np.zeros(columns, dtype)
    add_mask(buffer, key, **options)
    return buffer


def test_published_vector():
    """McGrew and Viega's GCM test case 2: the first block for the zero key."""
    assert made_mask(bytes(16), 4, np.uint32).astype("<u4").tobytes().hex() == "0388dace60b6a392f328c2b971b2fe78"


def test_the_page_size_is_a_part_of_the_definition():
    """Parties with different pages would hold different masks, and no sum would come out."""
    assert PAGE_BYTES == 256 * 1024
    assert (page_columns(np.uint32), page_columns(np.uint64)) == (65_536, 32_768)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_a_mask_is_the_counter_mode_stream_over_several_pages(dtype):
    columns = 2 * page_columns(dtype) + 777
    assert np.array_equal(made_mask(KEY, columns, dtype), whole_mask(KEY, columns, dtype))


@given(KEYS, DTYPES, st.lists(st.integers(0, 2**64 - 1), max_size=40))
@settings(max_examples=50)
def test_adding_wraps_around_the_ring(key, dtype, values):
    modulus = 1 << 8 * np.dtype(dtype).itemsize
    values = [value % modulus for value in values]
    mask = whole_mask(key, len(values), dtype).tolist()
    buffer = np.array(values, dtype)
    add_mask(buffer, key)
    assert buffer.tolist() == [(value + word) % modulus for value, word in zip(values, mask, strict=True)]
    add_mask(buffer, key, negative=True)
    assert buffer.tolist() == values
    add_mask(buffer, key, negative=True)
    assert buffer.tolist() == [(value - word) % modulus for value, word in zip(values, mask, strict=True)]


PAGE_32 = page_columns(np.uint32)
NEAR_A_CUT = [st.integers(max(0, page * PAGE_32 - 5), page * PAGE_32 + 5) for page in range(4)]
CUTS = st.lists(st.one_of(*NEAR_A_CUT, st.integers(0, 3 * PAGE_32)), max_size=4)


@given(CUTS, DTYPES)
@settings(max_examples=25)
def test_a_range_of_columns_is_that_range_of_the_mask(cuts, dtype):
    columns = 3 * PAGE_32 + 5
    buffer = np.zeros(columns, dtype)
    cuts = sorted({0, *(min(cut, columns) for cut in cuts), columns})
    for start, end in pairwise(cuts):
        add_mask(buffer[start:end], KEY, first_column=start)
    assert np.array_equal(buffer, made_mask(KEY, columns, dtype))


@pytest.mark.parametrize("threads", [2, 3, 5, 100])
@pytest.mark.parametrize("first_column", [0, 1, PAGE_32 - 1, PAGE_32, 2 * PAGE_32 + 3])
def test_threads_change_nothing(threads, first_column, monkeypatch):
    monkeypatch.setattr(prg, "_PAGES_A_THREAD", 1)
    keys = [(bytes([i]) * 16, 1 - 2 * (i % 2)) for i in range(4)]
    expected, buffer = np.zeros((2, 3 * PAGE_32 + 5), np.uint32)
    add_masks(expected, keys, first_column=first_column)
    add_masks(buffer, keys, first_column=first_column, threads=threads)
    assert np.array_equal(buffer, expected)


def test_a_failure_in_a_thread_is_not_lost(monkeypatch):
    def fail_beyond_the_first_page(buffer, first_column, steps):
        if first_column:
            raise MemoryError("no room for a page")

    monkeypatch.setattr(prg, "_PAGES_A_THREAD", 1)
    monkeypatch.setattr(prg, "_add_pages", fail_beyond_the_first_page)
    with pytest.raises(MemoryError, match="no room"):
        add_mask(np.zeros(2 * PAGE_32, np.uint32), KEY, threads=2)


@pytest.mark.parametrize("columns", [0, 1, PAGE_32 - 1, PAGE_32, PAGE_32 + 1, 5 * PAGE_32])
@pytest.mark.parametrize("first_column", [0, 1, PAGE_32 - 1, PAGE_32])
@pytest.mark.parametrize("parts", [1, 2, 3, 10])
def test_threads_share_out_every_column_once_in_whole_pages(columns, first_column, parts):
    split = prg._split_by_pages(np.arange(columns, dtype=np.uint32), first_column, parts)
    assert len(split) <= parts
    assert np.concatenate([part for part, _ in split]).tolist() == list(range(columns))
    assert [start for _, start in split[1:]] == [first_column + part[0] for part, _ in split[1:]]
    assert all(start % PAGE_32 == 0 for _, start in split[1:])
    assert all(len(part) for part, _ in split) or columns == 0


@given(st.lists(st.tuples(KEYS, st.sampled_from([1, -1])), max_size=8), st.integers(0, 10**6))
@settings(max_examples=50)
def test_many_masks_are_the_sum_of_each(keys, first_column):
    expected, buffer = np.zeros((2, 50), np.uint64)
    for key, sign in keys:
        add_mask(expected, key, negative=sign == -1, first_column=first_column)
    add_masks(buffer, iter(keys), first_column=first_column)
    assert np.array_equal(buffer, expected)


def test_more_keys_than_are_open_at_once(monkeypatch):
    monkeypatch.setattr(prg, "_KEYS_AT_ONCE", 3)
    keys = [(bytes([i]) * 16, 1) for i in range(10)]
    buffer = np.zeros(20, np.uint32)
    add_masks(buffer, keys)
    expected = np.sum([whole_mask(key, 20, np.uint32) for key, _ in keys], axis=0, dtype=np.uint32)
    assert np.array_equal(buffer, expected)


def test_opposite_masks_cancel():
    values = seeded_rng(1).integers(0, 2**32, 10_000, dtype=np.uint32)
    here, there = values.copy(), values.copy()
    add_masks(here, [(KEY, 1)])
    add_masks(there, [(KEY, -1)])
    assert not np.array_equal(here, values)
    assert np.array_equal(here + there, values + values)


def test_far_columns_can_be_reached():
    first_column = 2**63 - 10
    buffer = made_mask(KEY, 10, np.uint64, first_column=first_column)
    page, column = divmod(first_column, page_columns(np.uint64))
    counter = (page << 32) + 2
    cipher = Cipher(algorithms.AES(KEY), modes.CTR(counter.to_bytes(16, "big"))).encryptor()
    assert np.array_equal(buffer, np.frombuffer(cipher.update(bytes(PAGE_BYTES)), "<u8")[column : column + 10])


def test_different_keys_and_pages_give_different_masks():
    page = made_mask(KEY, PAGE_32, np.uint32)
    assert not np.any(page[:100] == made_mask(bytes(16), 100, np.uint32))
    assert not np.any(page[:100] == made_mask(KEY, 100, np.uint32, first_column=PAGE_32))


@pytest.mark.parametrize("key", [b"", bytes(15), bytes(17), bytes(24), bytes(32)])
def test_keys_of_another_length_are_refused(key):
    with pytest.raises(ValueError, match="16 bytes"):
        add_mask(np.zeros(1, np.uint32), key)


@pytest.mark.parametrize("sign", [0, 2, True, False, -2])
def test_signs_other_than_plus_and_minus_one_are_refused(sign):
    with pytest.raises(ValueError, match="1 or -1"):
        add_masks(np.zeros(1, np.uint32), [(KEY, sign)])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64, np.uint8, np.int16, ">u2", ">u4", ">u8"])
def test_other_types_of_buffer_are_refused(dtype):
    with pytest.raises(ValueError, match="uint16, uint32 or uint64"):
        add_mask(np.zeros(4, dtype), KEY)


def test_buffers_that_cannot_be_changed_in_place_are_refused():
    frozen = np.zeros(4, np.uint32)
    frozen.flags.writeable = False
    for buffer in (frozen, np.zeros(8, np.uint32)[::2], np.zeros((2, 2), np.uint32), np.uint32(0)):
        with pytest.raises(ValueError, match="writeable, contiguous, one-dimensional"):
            add_mask(buffer, KEY)


@pytest.mark.parametrize("options", [{"first_column": -1}, {"first_column": 2**63}, {"threads": 0}, {"threads": -1}])
def test_numbers_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        add_mask(np.zeros(1, np.uint32), KEY, **options)


def test_an_empty_buffer_stays_empty():
    add_masks(np.zeros(0, np.uint32), [(KEY, 1)], first_column=5, threads=4)
