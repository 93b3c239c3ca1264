"""ristretto255: the vectors of RFC 9496, the laws of a group, and OpenSSL's curves as the oracle for multiples."""

import hashlib
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto import ristretto
from tacit.crypto.curve import ORDER, PRIME
from tacit.crypto.ristretto import BASE, IDENTITY, FixedBase, add, decode, encode, is_identity, multiply, subtract
from tacit.errors import PeerError
from tacit.randomness import seeded_rng

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "ristretto255.json").read_text())
SCALARS = st.integers(0, ORDER - 1)
FIXED = FixedBase(BASE)
_Y = 4 * pow(5, -1, PRIME) % PRIME  # the base point of Ed25519 (RFC 8032, section 5.1), in the subgroup of prime order
_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
ED25519 = ristretto.Point(_X, _Y, 1, _X * _Y % PRIME)


@pytest.mark.parametrize(("number", "encoding"), list(enumerate(VECTORS["multiples"])))
def test_multiples_of_the_generator_are_those_of_the_rfc(number, encoding):
    for point in (multiply(number, BASE), FIXED.multiply(number), decode(bytes.fromhex(encoding))):
        assert encode(point).hex() == encoding


@pytest.mark.parametrize("encoding", VECTORS["invalid"])
def test_encodings_that_the_rfc_calls_invalid_are_refused(encoding):
    with pytest.raises(PeerError, match="ristretto255"):
        decode(bytes.fromhex(encoding))


@pytest.mark.parametrize("length", [0, 31, 33])
def test_an_encoding_of_a_wrong_length_is_refused(length):
    with pytest.raises(PeerError, match=f"the key has {length} bytes"):
        decode(bytes(length), "the key")


@given(SCALARS, SCALARS)
@settings(max_examples=20)
def test_scalars_and_points_follow_the_laws_of_a_group(one, other):
    a, b = FIXED.multiply(one), FIXED.multiply(other)
    assert encode(add(a, b)) == encode(FIXED.multiply((one + other) % ORDER))
    assert encode(subtract(a, b)) == encode(FIXED.multiply((one - other) % ORDER))
    assert encode(multiply(other, a)) == encode(FIXED.multiply(one * other % ORDER))
    assert encode(FixedBase(a).multiply(other)) == encode(multiply(other, a))
    assert encode(decode(encode(a))) == encode(a)
    assert is_identity(subtract(a, a))
    assert is_identity(a) == (one == 0)


def test_the_order_times_a_point_is_the_zero_of_the_group():
    assert is_identity(add(multiply(ORDER - 1, BASE), BASE))
    assert encode(IDENTITY) == bytes(32)
    assert encode(ED25519) == encode(BASE)
    assert is_identity(decode(bytes(32)))


def test_the_four_points_of_an_element_have_one_encoding():
    point = FIXED.multiply(12345)
    root = ristretto._ROOT
    quarter = ristretto.Point(root, root * 0, root * 0 + 1, root * 0)  # (√-1, 0), of order 4
    encodings = set()
    for _ in range(4):
        encodings.add(encode(point))
        point = add(point, quarter)
    assert len(encodings) == 1


@given(st.binary(min_size=32, max_size=32))
@settings(max_examples=20)
def test_multiples_of_the_generator_are_those_of_openssls_ed25519(seed):
    digest = hashlib.sha512(seed).digest()[:32]
    scalar = int.from_bytes(bytes([digest[0] & 248, *digest[1:31], digest[31] & 127 | 64]), "little") % ORDER
    point = multiply(scalar, ED25519)
    inverse = pow(int(point.z), -1, PRIME)
    x, y = int(point.x) * inverse % PRIME, int(point.y) * inverse % PRIME
    expected = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    assert (y | (x & 1) << 255).to_bytes(32, "little") == expected


def on_montgomery_curve(point):
    """The x-coordinate on Curve25519 (RFC 7748, section 4.1)."""
    return int((point.z + point.y) * pow(int(point.z - point.y), -1, PRIME) % PRIME).to_bytes(32, "little")


@given(st.integers(1, ORDER - 1), st.binary(min_size=32, max_size=32))
@settings(max_examples=20)
def test_multiples_of_any_point_are_those_of_openssls_x25519(one, secret):
    point = multiply(one, ED25519)
    clamped = bytes([secret[0] & 248, *secret[1:31], secret[31] & 127 | 64])
    scalar = int.from_bytes(clamped, "little") % ORDER
    peer = X25519PublicKey.from_public_bytes(on_montgomery_curve(point))
    expected = X25519PrivateKey.from_private_bytes(clamped).exchange(peer)
    assert on_montgomery_curve(multiply(scalar, point)) == expected


@pytest.mark.parametrize("scalar", [-1, ORDER])
def test_scalars_outside_the_order_are_refused(scalar):
    for act in (FIXED.multiply, lambda value: multiply(value, BASE)):
        with pytest.raises(ValueError, match="below the order"):
            act(scalar)


def test_random_scalars_fill_the_range_and_are_repeatable():
    rng = seeded_rng(1)
    drawn = [ristretto.random_scalar(rng) for _ in range(400)]
    assert ristretto.random_scalar(seeded_rng(1)) == drawn[0]
    assert len(set(drawn)) == 400
    assert all(0 < scalar < ORDER for scalar in drawn)
    quarters = [sum(scalar * 4 // ORDER == quarter for scalar in drawn) for quarter in range(4)]
    assert min(quarters) > 60  # 100 each; 4.6 standard deviations
