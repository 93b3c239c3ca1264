"""Words of any width, packed: the layout against Python integers, sums under masks, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import PeerError
from tacit.fixedpoint import word_type
from tacit.randomness import seeded_rng
from tacit.secagg.packed_words import pack, packed_bytes, unpack
from tacit.secagg.settings import Settings
from tests.secagg.federation import Federation, vectors_for

WIDTHS = st.integers(8, 64)


def width_of(bits: int) -> int:
    return 16 if bits <= 16 else 32 if bits <= 32 else 64


def packed_by_hand(words: list[int], bits: int) -> bytes:
    """The layout of the module's docstring, with Python's integers."""
    width = width_of(bits)
    lanes, planes = width // math.gcd(bits, width), bits // math.gcd(bits, width)
    length = -(-len(words) // lanes)
    padded = words + [0] * (lanes * length - len(words))
    columns = []
    for place in range(length):
        string = sum(padded[lane * length + place] << (lane * bits) for lane in range(lanes))
        columns.append([(string >> (plane * width)) % 2**width for plane in range(planes)])
    return b"".join(column[plane].to_bytes(width // 8, "little") for plane in range(planes) for column in columns)


@given(WIDTHS, st.data())
def test_the_layout_is_the_one_that_is_described(bits, data):
    words = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=150))
    array = np.array(words, dtype=word_type(bits))
    packed = pack(array, bits)
    assert packed == packed_by_hand(words, bits)
    assert len(packed) == packed_bytes(len(words), bits)
    assert unpack(packed, len(words), bits).tolist() == words


@pytest.mark.parametrize("bits", [9, 15, 23, 33, 53])
def test_long_vectors_are_packed_block_by_block(bits):
    words = seeded_rng(bits).integers(0, 2**bits, 150_001, dtype=word_type(bits))
    packed = pack(words, bits)
    assert packed == b"".join(packed_by_hand(words[i : i + 65_536].tolist(), bits) for i in range(0, 150_001, 65_536))
    assert (unpack(packed, len(words), bits) == words).all()


@given(WIDTHS, st.integers(1, 10**9))
def test_a_vector_takes_its_bits_and_little_more(bits, columns):
    assert 0 <= packed_bytes(columns, bits) - columns * bits / 8 < 512


def test_at_full_width_words_are_sent_as_they_are():
    words = np.array([1, 2**32 - 1], dtype=np.uint32)
    assert pack(words, 32) == words.astype("<u4").tobytes()


@given(WIDTHS, st.integers(1, 200), st.integers(0, 2**32))
def test_bits_above_the_width_are_left_out(bits, count, seed):
    rng = seeded_rng(seed)
    words = rng.integers(0, 2 ** width_of(bits), count, dtype=word_type(bits))
    assert unpack(pack(words, bits), count, bits).tolist() == [word % 2**bits for word in words.tolist()]


@given(WIDTHS, st.integers(1, 100), st.integers(-600, 600).filter(bool))
def test_another_length_is_refused(bits, columns, more):
    data = bytes(max(0, packed_bytes(columns, bits) + more))
    with pytest.raises(PeerError, match=r"a packed vector of \d+ bytes, \d+ are due"):
        unpack(data, columns, bits)


@pytest.mark.parametrize(("bits", "columns"), [(15, 17), (15, 31), (23, 1), (53, 650), (12, 9)])
def test_padding_that_is_not_zero_is_refused(bits, columns):
    lanes = width_of(bits) // math.gcd(bits, width_of(bits))
    places = -(-columns // lanes) * lanes
    for place in range(columns, places):
        words = np.zeros(places, dtype=word_type(bits))
        words[place] = 2 ** (bits - 1)
        with pytest.raises(PeerError, match="padding is not zero"):
            unpack(pack(words, bits), columns, bits)


def test_words_of_another_type_are_not_packed():
    with pytest.raises(ValueError, match="15-bit words are packed from uint16, got uint32"):
        pack(np.zeros(3, np.uint32), 15)


@pytest.mark.parametrize("bits", [9, 15, 23, 53])
def test_masked_words_are_uniform_at_odd_widths(bits):
    """Each bit of what leaves a client is 0 as often as 1, and no two neighbouring bits go together."""
    config = Settings(3, 20_000, modulus_bits=bits, mode="semi_honest", share_secrets_ratio=1.0)
    sent = []
    fed = Federation(config, dict.fromkeys(range(3), np.zeros(20_000, word_type(bits))))
    fed.to_server = lambda sender, message: sent.append(message) or message
    assert not fed.aggregate().words.any()
    uploads = [message for message in sent if type(message).__name__ == "Masked"]
    assert len(uploads) == 3
    for upload in uploads:
        words = unpack(upload.words, 20_000, bits)
        found = np.array([(words >> words.dtype.type(bit)) & words.dtype.type(1) for bit in range(bits)])
        both = found[:-1] == found[1:]
        for ones in (*found.sum(axis=1), *both.sum(axis=1)):
            # A fair bit fails this once in 10^12 times, and there are a few hundred of them.
            assert stats.binomtest(int(ones), 20_000).pvalue > 1e-12


@pytest.mark.parametrize("bits", [8, 11, 15, 16, 17, 27, 41, 64])
def test_a_vector_of_the_wrong_length_is_refused_by_the_server(bits):
    config = Settings(5, 40, modulus_bits=bits, mode="semi_honest", share_secrets_ratio=0.8)
    vectors = vectors_for(config)
    fed = Federation(config, vectors)
    short = next(iter(vectors))

    def cut(sender, message):
        if sender == short and type(message).__name__ == "Masked":
            return type(message)(message.session, message.sender, message.words[:-1])
        return message

    fed.to_server = cut
    fed.run()
    assert "are due" in str(fed.server_errors)
    assert short not in fed.server.finish().survivors
