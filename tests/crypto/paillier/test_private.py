"""Keys and ciphertexts as bytes; what is malformed is refused; vectors of another implementation."""

import json
import math
import pickle
from pathlib import Path

import pytest
from gmpy2 import is_prime, next_prime
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto import paillier
from tacit.crypto.paillier import Ciphertexts, PrivateKey, PublicKey
from tacit.errors import PeerError

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "paillier.json").read_text())["vectors"]
KEY = paillier.generate(512, insecure_bits=True)
PUBLIC = KEY.public
LONG = PrivateKey(int(VECTORS[-1]["p"], 16), int(VECTORS[-1]["q"], 16))  # of 2048 bits
WIDTH = 128  # bytes of a ciphertext of 512 bits


class Textbook:
    """Paillier 1999 as printed, with g = 1 + n."""

    def __init__(self, p, q):
        self.n = p * q
        self.secret = math.lcm(p - 1, q - 1)
        self.inverse = pow((pow(1 + self.n, self.secret, self.n**2) - 1) // self.n, -1, self.n)

    def encrypt(self, value, r):
        return pow(1 + self.n, value % self.n, self.n**2) * pow(r, self.n, self.n**2) % self.n**2

    def decrypt(self, ciphertext):
        return (pow(ciphertext, self.secret, self.n**2) - 1) // self.n * self.inverse % self.n


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_vectors_of_phe(vector):
    p, q, plaintext, r, ciphertext = (int(vector[name], 16) for name in ("p", "q", "plaintext", "r", "ciphertext"))
    key = PrivateKey(p, q)
    assert Textbook(p, q).encrypt(plaintext, r) == ciphertext
    assert key.decrypt(Ciphertexts(key.public, (ciphertext,))) == [plaintext]


def test_the_randomness_of_a_ciphertext_is_that_of_paillier(monkeypatch):
    monkeypatch.setattr("secrets.randbelow", lambda n: 12345)
    assert PUBLIC.encrypt([-7])[0] == Textbook(KEY.p, KEY.q).encrypt(-7, 12345)


@settings(max_examples=25)
@given(st.integers(-(2**500), 2**500))
def test_the_textbook_reads_what_we_encrypt(value):
    textbook = Textbook(KEY.p, KEY.q)
    for encrypt in (KEY.encrypt, PUBLIC.encrypt):
        assert textbook.decrypt(encrypt([value])[0]) == value % PUBLIC.n


@pytest.mark.parametrize("bits", [128, 512, 2048, 3072])
def test_new_keys_are_what_damgard_jurik_and_nielsen_need(bits):
    key = paillier.generate() if bits == 3072 else paillier.generate(bits, insecure_bits=bits < 2048)
    assert is_prime(key.p)
    assert is_prime(key.q)
    assert key.p != key.q
    assert key.p % 4 == key.q % 4 == 3
    assert math.gcd(key.p - 1, key.q - 1) == 2
    assert key.p.bit_length() == key.q.bit_length() == bits // 2
    assert key.public.bits == bits
    assert math.gcd(key.public.n, (key.p - 1) * (key.q - 1)) == 1


@pytest.mark.parametrize("bits", [512, 1024, 2047, 3000, 8192])
def test_other_sizes_are_refused(bits):
    with pytest.raises(ValueError, match=f"bits must be one of 2048, 3072, 4096, got {bits}"):
        paillier.generate(bits)


@pytest.mark.parametrize("bits", [96, 520, 8192])
def test_sizes_for_tests_have_bounds_too(bits):
    with pytest.raises(ValueError, match="multiple of 32 from 128 to 4096"):
        paillier.generate(bits, insecure_bits=True)


def test_keys_survive_storage():
    assert PublicKey.from_bytes(PUBLIC.to_bytes(), insecure_bits=True) == PUBLIC
    assert PublicKey.from_bytes(LONG.public.to_bytes()) == LONG.public
    assert PrivateKey.from_bytes(KEY.to_bytes(), insecure_bits=True) == KEY
    again = PrivateKey.from_bytes(LONG.to_bytes())
    assert again.decrypt(LONG.encrypt([-3])) == [-3]


def test_nothing_secret_is_shown_or_pickled():
    for text in (repr(KEY), repr(PUBLIC), repr(KEY.encrypt([1]))):
        assert text.startswith("<")
        assert len(text) < 60
    KEY.encrypt([1])
    with pytest.raises(TypeError, match="use to_bytes"):
        pickle.dumps(KEY)


def test_a_short_public_key_is_refused_where_nobody_asked_for_it():
    with pytest.raises(PeerError, match="a public key has 2048, 3072, 4096 bits, got 512"):
        PublicKey.from_bytes(PUBLIC.to_bytes())


def only_text(value):
    """Names of tests must not change with the key: those that run in parallel are compared."""
    return value if isinstance(value, str) else "bytes"


def modulus(value, bits=512):
    return value.to_bytes(bits // 8, "big")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "got 0"),
        (PUBLIC.to_bytes()[:-1], "got 504"),
        (PUBLIC.to_bytes() + b"\0", "got 520"),
        (b"\0" * 1024, "got 8192"),
        (modulus(0), "the modulus has 0 bits"),
        (b"\0" + PUBLIC.to_bytes() + b"\1", "the modulus has"),
        (modulus(PUBLIC.n - 1), "a factor below 65536"),
        (modulus((1 << 511) + 65521 - (1 << 511) % 65521), "a factor below 65536"),
        (modulus(int(next_prime(3 << 510))), "the modulus is prime"),
        (modulus(KEY.p**2), "a power of another number"),
    ],
    ids=only_text,
)
def test_a_malformed_public_key_is_refused(data, message):
    with pytest.raises(PeerError, match=message):
        PublicKey.from_bytes(data, insecure_bits=True)


@given(st.binary(max_size=600))
def test_random_bytes_are_no_key(data):
    with pytest.raises(PeerError):
        PublicKey.from_bytes(data)
    with pytest.raises(ValueError, match=r"not a Paillier private key|bits must be"):
        PrivateKey.from_bytes(data)


def private(p, q):
    return PrivateKey(int(p), int(q)).to_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x" + KEY.to_bytes(), "not a Paillier private key"),
        (KEY.to_bytes()[:-1], "bits must be"),
        (KEY.to_bytes() + b"\0", "bits must be"),
        (private(KEY.p, KEY.p), "damaged"),
        (private(KEY.p, KEY.q + 4), "damaged"),
        (private(KEY.p, KEY.q - 2), "damaged"),
        (KEY.to_bytes()[:-64] + bytes(64), "damaged"),
    ],
    ids=only_text,
)
def test_a_damaged_private_key_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        PrivateKey.from_bytes(data, insecure_bits=True)


def test_a_prime_that_is_1_modulo_4_is_refused():
    q = next_prime(KEY.q)
    while q % 4 != 1:
        q = next_prime(q)
    with pytest.raises(ValueError, match="damaged"):
        PrivateKey.from_bytes(private(KEY.p, q), insecure_bits=True)


@given(st.lists(st.integers(-100, 100), max_size=4))
def test_ciphertexts_survive_the_wire(values):
    vector = KEY.encrypt(values)
    data = vector.to_bytes()
    assert len(data) == WIDTH * len(values)
    assert Ciphertexts.from_bytes(PUBLIC, data, len(values)) == vector


def wire(value):
    return value.to_bytes(WIDTH, "big")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "2 ciphertexts have 256 bytes, got 0"),
        (wire(1), "2 ciphertexts have 256 bytes, got 128"),
        (wire(1) * 3, "2 ciphertexts have 256 bytes, got 384"),
        (wire(1) + wire(0), "ciphertext 1 is not between 0 and n²"),
        (wire(PUBLIC.n**2) + wire(1), "ciphertext 0 is not between 0 and n²"),
        (wire(2 ** (8 * WIDTH) - 1) + wire(1), "ciphertext 0 is not between 0 and n²"),
        (wire(1) + wire(KEY.p * 6), "a ciphertext shares a factor with n"),
        (wire(PUBLIC.n) + wire(1), "a ciphertext shares a factor with n"),
        (wire(PUBLIC.n**2 - KEY.q) + wire(1), "a ciphertext shares a factor with n"),
    ],
    ids=only_text,
)
def test_what_is_no_ciphertext_is_refused(data, message):
    with pytest.raises(PeerError, match=message):
        Ciphertexts.from_bytes(PUBLIC, data, 2)


@given(st.binary(max_size=300), st.integers(-1, 3))
def test_random_bytes_decode_or_are_the_peers_fault(data, count):
    try:
        vector = Ciphertexts.from_bytes(PUBLIC, data, count)
    except PeerError:
        return
    assert vector.to_bytes() == data
    assert len(KEY.decrypt(vector)) == count
