"""Points of Curve25519: hashed from texts, multiplied by secrets, refused where a peer could cheat with them."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto.curve import ORDER, PRIME, Scalar, check_points, hash_all, hash_to_curve, multiply
from tacit.errors import PeerError
from tacit.randomness import seeded_rng

# RFC 7748, section 5.2: scalar, u, result. The second u is given with its unused bit cleared.
RFC_7748 = [
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a413",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
]
# Points of small order on the curve or its twist, in their one reduced encoding
SMALL_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    PRIME - 1,
]
TEXTS = st.text(max_size=30)
SECRETS = st.binary(min_size=32, max_size=32)


def ladder(scalar: int, x: int) -> int:
    """The Montgomery ladder in plain integers (RFC 7748, section 5)."""
    x2, z2, x3, z3 = 1, 0, x, 1
    for bit in reversed(range(255)):
        if scalar >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        x3, z3 = pow(d * a + c * b, 2, PRIME), x * pow(d * a - c * b, 2, PRIME) % PRIME
        e = a * a - b * b
        x2, z2 = a * a * b * b % PRIME, e * (a * a + 121665 * e) % PRIME
        if scalar >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return x2 * pow(z2, PRIME - 2, PRIME) % PRIME


def number(point: bytes) -> int:
    return int.from_bytes(point, "little")


def on_curve(x: int) -> bool:
    return pow(x**3 + 486662 * x**2 + x, (PRIME - 1) // 2, PRIME) == 1


@pytest.mark.parametrize(("scalar", "point", "result"), RFC_7748)
def test_vectors_of_rfc_7748(scalar, point, result):
    assert multiply(Scalar(bytes.fromhex(scalar)), bytes.fromhex(point)).hex() == result


@given(SECRETS, st.lists(TEXTS, max_size=3))
@settings(max_examples=10)
def test_multiples_are_those_of_plain_integers(secret, texts):
    scalar, points = Scalar(secret), hash_all(texts)
    expected = [ladder(number(scalar.secret), number(hash_to_curve(text.encode()))) for text in texts]
    got = multiply(scalar, points)
    assert [number(got[start : start + 32]) for start in range(0, len(got), 32)] == expected


@given(SECRETS, SECRETS, st.lists(TEXTS, min_size=1, max_size=5))
def test_secrets_commute(one, other, texts):
    one, other, points = Scalar(one), Scalar(other), hash_all(texts)
    assert multiply(one, multiply(other, points)) == multiply(other, multiply(one, points))


@given(SECRETS, st.integers(0, 2**32), TEXTS)
def test_an_inverse_takes_its_scalar_off(other, seed, text):
    blind, other, point = Scalar.generate(seeded_rng(seed)), Scalar(other), hash_all([text])
    assert multiply(blind.inverse(), multiply(other, multiply(blind, point))) == multiply(other, point)


@given(TEXTS)
def test_hashed_texts_lie_on_the_curve_and_never_on_the_twist(text):
    x = number(hash_to_curve(text.encode()))
    assert x < PRIME
    assert on_curve(x)


def test_hashing_is_a_fixed_function():
    # Another release must find the same points, or parties of both would have nothing in common.
    assert hash_to_curve(b"customer 1").hex() == "77afbb167cd9983444757f671d38e54621ba32cc57c3bc8a0641a8356a0b0c58"
    assert len({hash_to_curve(str(index).encode()) for index in range(2000)}) == 2000


def test_any_text_has_a_point():
    assert len(hash_all(["", "\0", "\ud800", "日本", "e\u0301", "\u00e9"])) == 6 * 32


@given(SECRETS)
@settings(max_examples=20)
def test_multiples_lie_in_the_subgroup_of_prime_order(secret):
    point = number(multiply(Scalar(secret), hash_all(["x"])))
    # ORDER·P is infinity: x = 0 with z = 0 in the ladder, hence (ORDER ± 1)·P has P's own x.
    assert ladder(ORDER + 1, point) == point == ladder(ORDER - 1, point)


@pytest.mark.parametrize("x", SMALL_ORDER)
def test_points_of_small_order_are_refused(x):
    points = hash_all(["a"]) + x.to_bytes(32, "little")
    with pytest.raises(PeerError, match="small order"):
        multiply(Scalar.generate(), points)


@pytest.mark.parametrize("x", [PRIME, PRIME + 1, PRIME + 9, 2**255 - 1, 2**255, 2**255 + 9, 2**256 - 1])
def test_points_that_are_not_reduced_are_refused(x):
    with pytest.raises(PeerError, match="point 1 is not reduced"):
        multiply(Scalar.generate(), hash_all(["a"]) + x.to_bytes(32, "little"))


def test_the_largest_reduced_points_pass():
    check_points((PRIME - 1).to_bytes(32, "little") + (2**255 - 2**192).to_bytes(32, "little"))


@pytest.mark.parametrize("length", [1, 31, 33, 63])
def test_broken_points_are_refused(length):
    with pytest.raises(PeerError, match="not points"):
        multiply(Scalar.generate(), bytes([9]) * length)


def test_a_scalar_shows_nothing_and_reaches_worker_processes():
    scalar = Scalar.generate()
    assert scalar.secret.hex() not in repr(scalar)
    copy = pickle.loads(pickle.dumps(scalar))  # noqa: S301 # what the pool of processes does with it
    assert multiply(copy, hash_all(["a"])) == multiply(scalar, hash_all(["a"]))


def test_fresh_scalars_differ():
    assert len({Scalar.generate().secret for _ in range(50)}) == 50


def test_a_scalar_of_another_length_is_the_callers_mistake():
    with pytest.raises(ValueError, match="32 bytes, got 31"):
        Scalar(bytes(31))
