"""Base transfers: both ends have the same keys, choices stay hidden, and malformed points are refused."""

import hashlib

import pytest

from tacit.crypto.ot import base
from tacit.crypto.ristretto import BASE, FixedBase, decode, encode, multiply, subtract
from tacit.errors import PeerError
from tacit.randomness import seeded_rng
from tests.crypto.ot.plain import framed

BITS = [number * number % 7 % 2 for number in range(128)]

KNOWN = ["3c53c3fcd25d5a13", "b9c30952035069a2", "ad8bf753b6496a99"]
KNOWN_SESSION = "09c34c23e649d05a"


@pytest.fixture(scope="module")
def exchange():
    offer = base.Offer(seeded_rng(1))
    message, keys = base.answer(offer.message, BITS, seeded_rng(2))
    return offer, message, keys


def test_the_receiver_has_the_key_of_its_bit_and_no_other(exchange):
    offer, message, keys = exchange
    pairs = offer.keys(message)
    assert [pair[bit] for pair, bit in zip(pairs, BITS, strict=True)] == keys
    assert len({key for pair in pairs for key in pair}) == 256
    assert not {pair[1 - bit] for pair, bit in zip(pairs, BITS, strict=True)} & set(keys)


def test_keys_are_hashes_of_diffie_hellman_points(exchange):
    """The protocol from the paper, from the receiver's message and the two secrets, which are drawn again."""
    offer, message, _ = exchange
    secret = offer._secret
    constant = decode(offer.message[:32])
    assert encode(multiply(secret, BASE)) == offer.message[32:]
    for number, pair in enumerate(offer.keys(message)[:5]):
        point = decode(message[32 * number : 32 * number + 32])
        for key, element in zip(pair, (point, subtract(constant, point)), strict=True):
            domain = b"tacit base oblivious transfer, version 1"
            data = framed(domain, b"key", offer.message, number.to_bytes(8, "big"), encode(multiply(secret, element)))
            assert hashlib.sha256(data).digest()[:16] == key


def test_known_answers(exchange):
    """Any change of what parties send, or of the keys, is a change of the protocol."""
    offer, message, keys = exchange
    digests = [hashlib.sha256(part).hexdigest()[:16] for part in (offer.message, message, b"".join(keys))]
    assert digests == KNOWN
    assert base.session(offer.message, message).hex()[:16] == KNOWN_SESSION


def test_a_point_is_as_likely_for_either_bit():
    """For k with bit 0 and c - k with bit 1 the point is the same, so no computation on it can tell the bit."""
    table, c, k = FixedBase(BASE), 987654321, 123456789
    assert encode(subtract(table.multiply(c), table.multiply(k))) == encode(table.multiply(c - k))


@pytest.mark.parametrize("length", [0, base.OFFER_BYTES - 1, base.OFFER_BYTES + 1])
def test_an_offer_of_a_wrong_length_is_refused(length):
    with pytest.raises(PeerError, match=f"{length} bytes, not {base.OFFER_BYTES}"):
        base.answer(bytes(length), BITS)


@pytest.mark.parametrize("length", [0, base.ANSWER_BYTES - 32, base.ANSWER_BYTES + 1])
def test_an_answer_of_a_wrong_length_is_refused(exchange, length):
    with pytest.raises(PeerError, match=f"{length} bytes, not {base.ANSWER_BYTES}"):
        exchange[0].keys(bytes(length))


@pytest.mark.parametrize(
    ("data", "words"), [(bytes(32), "zero of the group"), (b"\1" + bytes(31), "canonical"), (b"\xff" * 32, "canonical")]
)
def test_points_that_a_peer_may_not_send_are_refused(exchange, data, words):
    offer, message, _ = exchange
    with pytest.raises(PeerError, match=f"the point 3 of the base transfers .*{words}"):
        offer.keys(message[:96] + data + message[128:])
    for number in range(2):
        changed = offer.message[: 32 * number] + data + offer.message[32 * number + 32 :]
        with pytest.raises(PeerError, match=f"the point {number} of the base transfers .*{words}"):
            base.answer(changed, BITS)


def test_the_constant_itself_is_refused_as_an_answer(exchange):
    offer, message, _ = exchange
    with pytest.raises(PeerError, match=r"the point 0 .* is the constant"):
        offer.keys(offer.message[:32] + message[32:])


def test_a_wrong_number_of_bits_is_the_callers_mistake(exchange):
    with pytest.raises(ValueError, match="got 3 bits"):
        base.answer(exchange[0].message, [0, 1, 1])


def test_secrets_are_not_shown():
    assert repr(base.Offer(seeded_rng(3))) == "Offer(secret)"
