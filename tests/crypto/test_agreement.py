"""Two parties agree on keys that nobody else can compute."""

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto.agreement import KeyPair, agree, agree_each_way, public_of
from tacit.errors import PeerError
from tacit.randomness import seeded_rng

# RFC 7748, section 6.1
ALICE = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
ALICE_PUBLIC = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
BOB = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
BOB_PUBLIC = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
SHARED = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"

# RFC 7748, section 5.2: scalar, u, result (the second u has its unused bit set)
RFC_7748 = [
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
]

# RFC 5869, appendix A, test cases 1 and 3: salt, info, output from 22 bytes 0b
RFC_5869 = [
    (
        "000102030405060708090a0b0c",
        "f0f1f2f3f4f5f6f7f8f9",
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    ),
    ("", "", "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"),
]

# Every encoding of a point of low order on the curve or its twist; the unused bit does not change the point.
LOW_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]

PRIVATE = st.binary(min_size=32, max_size=32)
CONTEXT = st.binary(max_size=40)


def hkdf(secret, salt, info, length):
    """HKDF-SHA256 straight from RFC 5869."""
    key = hmac.digest(salt or bytes(32), secret, hashlib.sha256)
    output, block = b"", b""
    for counter in range(1, 1 + -(-length // 32)):
        block = hmac.digest(key, block + info + bytes([counter]), hashlib.sha256)
        output += block
    return output[:length]


@pytest.mark.parametrize(("salt", "info", "expected"), RFC_5869)
def test_the_oracle_for_hkdf_meets_the_published_vectors(salt, info, expected):
    assert hkdf(b"\x0b" * 22, bytes.fromhex(salt), bytes.fromhex(info), 42).hex() == expected


@pytest.mark.parametrize(("private", "public", "shared"), RFC_7748)
def test_published_exchanges(private, public, shared):
    assert KeyPair(bytes.fromhex(private)).exchange(bytes.fromhex(public)).hex() == shared


def test_published_key_pairs():
    alice, bob = KeyPair(bytes.fromhex(ALICE)), KeyPair(bytes.fromhex(BOB))
    assert (alice.public.hex(), bob.public.hex()) == (ALICE_PUBLIC, BOB_PUBLIC)
    assert alice.exchange(bob.public).hex() == bob.exchange(alice.public).hex() == SHARED


@pytest.mark.parametrize("length", [16, 32, 64, 100])
def test_the_agreed_key_is_hkdf_of_the_exchange(length):
    key = agree(KeyPair(bytes.fromhex(ALICE)), bytes.fromhex(BOB_PUBLIC), context=b"session", length=length)
    assert key == hkdf(bytes.fromhex(SHARED), b"", b"session", length)


@given(PRIVATE, PRIVATE, CONTEXT)
@settings(max_examples=50)
def test_both_parties_agree(own, other, context):
    here, there = KeyPair(own), KeyPair(other)
    assert agree(here, there.public, context=context) == agree(there, here.public, context=context)
    if here.public != there.public:
        sending, receiving = agree_each_way(here, there.public, context=context)
        assert agree_each_way(there, here.public, context=context) == (receiving, sending)
        assert sending != receiving


def test_another_context_gives_another_key():
    here, there = KeyPair.generate(), KeyPair.generate()
    keys = {agree(here, there.public, context=context) for context in (b"", b"mask", b"seal", b"mask 2")}
    assert len(keys) == 4
    assert agree_each_way(here, there.public, context=b"a") != agree_each_way(here, there.public, context=b"b")


def test_a_peer_that_shows_this_partys_own_key_is_refused():
    here = KeyPair.generate()
    with pytest.raises(PeerError, match="own"):
        agree_each_way(here, here.public, context=b"")


@pytest.mark.parametrize("public", LOW_ORDER)
def test_public_keys_of_low_order_are_refused(public):
    for function in (agree, agree_each_way):
        with pytest.raises(PeerError, match="low order"):
            function(KeyPair.generate(seeded_rng(1)), bytes.fromhex(public), context=b"")


@given(st.binary(max_size=70).filter(lambda public: len(public) != 32))
def test_public_keys_of_another_length_are_refused(public):
    for function in (agree, agree_each_way):
        with pytest.raises(PeerError, match="32 bytes"):
            function(KeyPair(bytes(32)), public, context=b"")


@pytest.mark.parametrize("length", [0, 31, 33])
def test_private_keys_of_another_length_are_the_callers_mistake(length):
    for function in (KeyPair, public_of):
        with pytest.raises(ValueError, match=f"got {length}"):
            function(bytes(length))


@given(PRIVATE)
@settings(max_examples=30)
def test_a_private_key_put_together_again_is_known_by_its_public_key(private):
    assert public_of(private) == public_of(bytearray(private)) == KeyPair(private).public


def test_key_pairs_are_fresh_and_come_from_the_generator():
    assert KeyPair.generate().public != KeyPair.generate().public
    assert KeyPair.generate(seeded_rng(1)).private == KeyPair.generate(seeded_rng(1)).private


def test_erasing_overwrites_the_key_in_place_and_ends_its_use():
    pair = KeyPair.generate()
    buffer, public = pair.private, pair.public
    assert any(buffer)
    pair.erase()
    pair.erase()
    assert pair.private is buffer
    assert buffer == bytes(32)
    assert pair.public == public
    with pytest.raises(ValueError, match="erased"):
        agree(pair, KeyPair.generate().public, context=b"")


def test_erasing_a_pair_leaves_the_callers_own_buffer_alone():
    private = bytearray(range(32))
    KeyPair(private).erase()
    assert private == bytes(range(32))


def test_printing_a_key_pair_shows_no_secret():
    pair = KeyPair.generate()
    assert bytes(pair.private).hex() not in repr(pair)
    assert pair.public.hex() in repr(pair)
