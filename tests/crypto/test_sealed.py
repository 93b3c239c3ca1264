"""Sealed messages open for the right key and associated data only."""

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.sealed import OVERHEAD_BYTES, nonces, seal, unseal
from tacit.errors import PeerError
from tacit.randomness import seeded_rng

KEYS = st.binary(min_size=32, max_size=32)
PARTS = st.lists(st.binary(max_size=8), max_size=4).map(tuple)

# McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 13 to 15: key, nonce, plaintext, ciphertext, tag
GCM_VECTORS = [
    ("00" * 32, "00" * 12, "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
    ("00" * 32, "00" * 12, "00" * 16, "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"),
    (
        "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
        "b094dac5d93471bdec1a502270e3cc6c",
    ),
]


@pytest.mark.parametrize(("key", "nonce", "plaintext", "ciphertext", "tag"), GCM_VECTORS)
def test_published_vectors_open(key, nonce, plaintext, ciphertext, tag):
    assert unseal(bytes.fromhex(key), bytes.fromhex(nonce + ciphertext + tag), ()) == bytes.fromhex(plaintext)


def test_associated_data_are_the_parts_behind_their_lengths():
    key, nonce = bytes(range(32)), bytes(12)
    sealed = nonce + AESGCM(key).encrypt(nonce, b"text", bytes(7) + b"\2ab" + bytes(7) + b"\1c")
    assert unseal(key, sealed, (b"ab", b"c")) == b"text"


@given(KEYS, st.binary(max_size=100), PARTS)
def test_what_was_sealed_opens(key, plaintext, associated):
    sealed = seal(key, plaintext, associated)
    assert len(sealed) == len(plaintext) + OVERHEAD_BYTES
    assert unseal(key, sealed, associated) == plaintext


@given(KEYS, PARTS, PARTS)
def test_other_associated_data_are_refused(key, associated, other):
    if associated != other:
        with pytest.raises(PeerError):
            unseal(key, seal(key, b"text", associated), other)


def test_a_part_cannot_lend_bytes_to_its_neighbour():
    key = bytes(32)
    with pytest.raises(PeerError):
        unseal(key, seal(key, b"text", (b"ab", b"c")), (b"a", b"bc"))


def test_every_flipped_bit_is_noticed():
    key = bytes(range(32))
    sealed = seal(key, b"share", (b"session",), seeded_rng(1))
    for position in range(8 * len(sealed)):
        altered = bytearray(sealed)
        altered[position // 8] ^= 1 << position % 8
        with pytest.raises(PeerError):
            unseal(key, bytes(altered), (b"session",))


def test_another_key_and_every_truncation_are_refused():
    key = bytes(range(32))
    sealed = seal(key, b"share", ())
    with pytest.raises(PeerError, match="another key"):
        unseal(bytes(32), sealed, ())
    for length in range(len(sealed)):
        with pytest.raises(PeerError):
            unseal(key, sealed[:length], ())
    with pytest.raises(PeerError):
        unseal(key, sealed + b"\0", ())


@given(st.binary(max_size=80))
def test_random_bytes_are_refused(data):
    with pytest.raises(PeerError):
        unseal(bytes(32), data, ())


def test_nonces_are_fresh_and_come_from_the_generator():
    key = bytes(32)
    assert len({seal(key, b"", ())[:12] for _ in range(100)}) == 100
    rng = seeded_rng(1)
    assert len({seal(key, b"", (), rng)[:12] for _ in range(100)}) == 100
    assert seal(key, b"text", (), seeded_rng(2)) == seal(key, b"text", (), seeded_rng(2))


@pytest.mark.parametrize("length", [0, 16, 24, 31, 33])
def test_keys_of_other_lengths_are_the_callers_mistake(length):
    with pytest.raises(ValueError, match=f"32 bytes, got {length}"):
        seal(bytes(length), b"", ())
    with pytest.raises(ValueError, match=f"32 bytes, got {length}"):
        unseal(bytes(length), bytes(40), ())


def test_nonces_drawn_together_are_those_drawn_one_by_one_and_each_of_them_is_another():
    key, rng = bytes(32), seeded_rng(4)
    together = nonces(seeded_rng(4), 50)
    assert [seal(key, b"text", (), rng)[:12] for _ in range(50)] == together
    assert len(set(together)) == len(set(nonces(None, 50))) == 50
    sealed = seal(key, b"text", (b"part",), nonce=together[0])
    assert sealed[:12] == together[0]
    assert unseal(key, sealed, (b"part",)) == b"text"
    with pytest.raises(ValueError, match="a nonce has 12 bytes, got 16"):
        seal(key, b"text", (), nonce=bytes(16))
