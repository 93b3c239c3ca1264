"""A signature holds for one key, context and message."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto.signing import SigningKey, verify
from tacit.errors import PeerError
from tacit.randomness import seeded_rng

# RFC 8032, section 7.1: seed, public key, message, signature
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]
KEY = SigningKey.generate(seeded_rng(1))
SHORT = st.binary(max_size=12)


@pytest.mark.parametrize(("seed", "public", "message", "signature"), RFC_8032)
def test_published_vectors(seed, public, message, signature):
    assert SigningKey(bytes.fromhex(seed)).public.hex() == public
    primitive = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    assert primitive.sign(bytes.fromhex(message)).hex() == signature


def test_domain_context_and_message_are_signed_behind_their_lengths():
    signed = b"".join(len(part).to_bytes(8, "big") + part for part in (b"tacit signature 1", b"roster", b"message"))
    assert KEY.sign(b"roster", b"message") == Ed25519PrivateKey.from_private_bytes(KEY.seed).sign(signed)


@given(SHORT, SHORT)
@settings(max_examples=30)
def test_a_signature_is_accepted_for_what_was_signed(context, message):
    verify(KEY.public, KEY.sign(context, message), context, message)


@given(SHORT, SHORT, SHORT, SHORT)
@settings(max_examples=50)
def test_another_context_or_message_is_refused(context, message, other_context, other_message):
    if (context, message) != (other_context, other_message):
        with pytest.raises(PeerError):
            verify(KEY.public, KEY.sign(context, message), other_context, other_message)


def test_a_context_cannot_borrow_from_the_message():
    with pytest.raises(PeerError):
        verify(KEY.public, KEY.sign(b"ab", b"c"), b"a", b"bc")


def test_another_key_is_refused():
    with pytest.raises(PeerError, match="is not that of"):
        verify(SigningKey.generate().public, KEY.sign(b"", b""), b"", b"")


def test_a_signature_of_the_bare_message_is_refused():
    bare = Ed25519PrivateKey.from_private_bytes(KEY.seed).sign(b"message")
    with pytest.raises(PeerError):
        verify(KEY.public, bare, b"", b"message")


def test_every_flipped_bit_is_noticed():
    signature = KEY.sign(b"roster", b"message")
    for position in range(8 * len(signature)):
        altered = bytearray(signature)
        altered[position // 8] ^= 1 << position % 8
        with pytest.raises(PeerError):
            verify(KEY.public, bytes(altered), b"roster", b"message")


@pytest.mark.parametrize("length", [0, 31, 33, 64, 1000])
def test_keys_and_signatures_of_another_length_are_refused(length):
    with pytest.raises(PeerError, match=f"public key has 32 bytes, got {length}"):
        verify(bytes(length), KEY.sign(b"", b""), b"", b"")
    with pytest.raises(PeerError, match=f"signature has 64 bytes, got {length + 1}"):
        verify(KEY.public, bytes(length + 1), b"", b"")


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=64, max_size=64))
def test_random_keys_and_signatures_of_the_right_length_are_refused(public, signature):
    with pytest.raises(PeerError):
        verify(public, signature, b"context", b"message")


def test_keys_are_fresh_and_come_from_the_generator():
    assert SigningKey.generate().public != SigningKey.generate().public
    assert SigningKey.generate(seeded_rng(1)).public == KEY.public


def test_a_seed_of_another_length_is_the_callers_mistake():
    with pytest.raises(ValueError, match="32 bytes, got 31"):
        SigningKey(bytes(31))


def test_printing_a_key_shows_no_secret():
    assert KEY.seed.hex() not in repr(KEY)
    assert KEY.public.hex() in repr(KEY)
