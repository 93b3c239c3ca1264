"""Hashes from AES under a public key: as computed one block at a time, for any shape and number of blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto import fixed_key
from tacit.crypto.fixed_key import Permutation, permutation
from tests.crypto.ot.plain import SESSION, Pi, numbers

BLOCKS = st.lists(st.integers(0, 2**128 - 1), max_size=20)
WORDS = st.integers(0, 2**64 - 1)


def array(values):
    return np.array([[value % 2**64, value >> 64] for value in values], dtype=np.uint64).reshape(-1, 2)


def test_the_permutation_is_aes_128():
    # FIPS 197, appendix C.1
    blocks = np.frombuffer(bytes.fromhex("00112233445566778899aabbccddeeff"), dtype="<u8")
    assert Permutation(bytes(range(16))).apply(blocks).tobytes().hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"


@given(BLOCKS, WORDS)
@settings(max_examples=20)
def test_blocks_are_hashed_as_one_at_a_time(values, first):
    pi, plain = permutation(SESSION, "test"), Pi("test")
    tweaks = np.arange(len(values), dtype=np.uint64) + np.uint64(first)
    blocks = array(values)
    assert numbers(pi.compress(blocks)) == [plain.compress(value) for value in values]
    expected = [plain.hash(value, int(tweak)) for value, tweak in zip(values, tweaks, strict=True)]
    assert numbers(pi.hash(blocks, tweaks)) == expected
    expected = [plain.keyed(value, int(tweak)) for value, tweak in zip(values, tweaks, strict=True)]
    assert numbers(pi.keyed(blocks, tweaks)) == expected
    assert numbers(pi.keyed(blocks, first)) == [plain.keyed(value, first) for value in values]
    assert numbers(blocks) == values  # nothing was written over


def test_a_long_array_is_hashed_in_parts_without_a_seam(monkeypatch):
    blocks, tweaks = np.arange(66, dtype=np.uint64).reshape(-1, 2), np.arange(33, dtype=np.uint64)
    whole = permutation(SESSION, "test").hash(blocks, tweaks)
    monkeypatch.setattr(fixed_key, "_AT_ONCE", 8)
    assert (permutation(SESSION, "test").hash(blocks, tweaks) == whole).all()


def test_views_that_are_not_contiguous_are_hashed_by_value():
    blocks = np.arange(24, dtype=np.uint64).reshape(2, 6, 2)
    pi = permutation(SESSION, "test")
    assert (pi.compress(blocks[:, ::2]) == pi.compress(blocks)[:, ::2]).all()
    assert (pi.keyed(blocks[:, ::2], 3) == pi.keyed(blocks, 3)[:, ::2]).all()


def test_sessions_and_purposes_have_permutations_of_their_own():
    blocks = np.zeros((1, 2), dtype=np.uint64)
    made = [
        permutation(session, purpose).apply(blocks).tobytes()
        for session in (SESSION, bytes(32))
        for purpose in ("one", "other")
    ]
    assert len(set(made)) == 4


def test_a_session_of_another_length_is_refused():
    with pytest.raises(ValueError, match="32 bytes, got 16"):
        permutation(bytes(16), "test")
