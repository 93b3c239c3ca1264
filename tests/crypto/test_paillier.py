"""Paillier against plain integers: sums, products with a matrix, packing, fresh randomness."""

import math
from collections import Counter

import numpy as np
import pytest
from gmpy2 import jacobi, mpz
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from tacit.crypto import paillier
from tacit.crypto.paillier import Ciphertexts, PublicKey, multiexp, packing
from tacit.crypto.paillier.fixed_base import FixedBase
from tacit.errors import PeerError
from tacit.fixedpoint import Grid

KEY = paillier.generate(512, insecure_bits=True)
PUBLIC = KEY.public
N = PUBLIC.n
LARGEST = (N - 1) // 2
OTHER = paillier.generate(512, insecure_bits=True)
TINY = PublicKey(7 * 11)  # all 60 ciphertexts of a plaintext can be counted
PRIME, BASE = 2**61 - 1, 3**50
TABLE = FixedBase(mpz(BASE), mpz(PRIME), 6)
RARE = 1e-7  # chance of a false alarm in a test of randomness

PLAINTEXTS = st.one_of(
    st.sampled_from([0, 1, -1, LARGEST, -LARGEST]), st.integers(-LARGEST, LARGEST), st.integers(-(2**40), 2**40)
)
VECTORS = st.lists(PLAINTEXTS, max_size=6)
ENTRIES = st.one_of(
    st.integers(-5, 5),
    st.integers(-(2**20), 2**20),
    st.integers(-(2**62) + 1, 2**62 - 1),
    st.sampled_from([2**62 - 1, 1 - 2**62, 0, 2**20, -(2**20), 63, 64, -64]),
)


def signed(value):
    """The representative modulo n nearest to 0, by trying."""
    return min((value % N, value % N - N), key=abs)


@st.composite
def products(draw):
    columns = draw(st.integers(1, 12))
    rows = draw(st.lists(st.lists(ENTRIES, min_size=columns, max_size=columns), min_size=1, max_size=4))
    vector = draw(st.lists(st.integers(-(2**64), 2**64), min_size=columns, max_size=columns))
    return np.array(rows, dtype=np.int64), vector


@given(VECTORS)
def test_whoever_encrypts_the_owner_reads_it(values):
    for encrypt in (KEY.encrypt, PUBLIC.encrypt):
        vector = encrypt(values)
        assert KEY.decrypt(vector) == values
        assert KEY.decrypt_unsigned(vector) == [value % N for value in values]


@pytest.mark.parametrize("value", [LARGEST + 1, -LARGEST - 1, N, 2**4000], ids=["n/2", "-n/2", "n", "longer"])
def test_a_value_that_does_not_fit_is_refused(value):
    for encrypt in (KEY.encrypt, PUBLIC.encrypt):
        with pytest.raises(ValueError, match=r"value 1 has \d+ bits, a key of 512 bits encrypts integers between"):
            encrypt([0, value])


def test_only_integers_are_encrypted():
    assert KEY.decrypt(KEY.encrypt(np.array([3, -4], dtype=np.int64))) == [3, -4]
    for encrypt in (KEY.encrypt, PUBLIC.encrypt):
        with pytest.raises(TypeError):
            encrypt([0.5])


@given(st.lists(st.tuples(PLAINTEXTS, PLAINTEXTS, st.integers(-N + 1, N - 1)), max_size=5))
def test_sums_are_modulo_n(triples):
    left, right, plain = ([triple[i] for triple in triples] for i in range(3))
    encrypted = KEY.encrypt(left)
    assert KEY.decrypt(PUBLIC.add(encrypted, KEY.encrypt(right))) == [
        signed(a + b) for a, b in zip(left, right, strict=True)
    ]
    assert KEY.decrypt(PUBLIC.add_plain(encrypted, plain)) == [signed(a + b) for a, b in zip(left, plain, strict=True)]


def test_sums_of_different_lengths_or_beyond_n_are_refused():
    two, three = KEY.encrypt([1, 2]), KEY.encrypt([1, 2, 3])
    with pytest.raises(ValueError, match="cannot add 2 to 3 ciphertexts"):
        PUBLIC.add(two, three)
    with pytest.raises(ValueError, match="cannot add 3 integers to 2 ciphertexts"):
        PUBLIC.add_plain(two, [1, 2, 3])
    for value in (N, -N):
        with pytest.raises(ValueError, match="not between -n and n"):
            PUBLIC.add_plain(two, [0, value])


@given(products())
def test_a_matrix_times_an_encrypted_vector(product):
    matrix, vector = product
    encrypted = KEY.encrypt(vector)
    result = PUBLIC.multiply(matrix, encrypted)
    n_squared = N * N
    for row, ciphertext in zip(matrix.tolist(), result.values, strict=True):  # the very ciphertext, by plain powers
        expected = 1
        for entry, base in zip(row, encrypted.values, strict=True):
            expected = expected * pow(int(base), entry, n_squared) % n_squared
        assert ciphertext == expected
    assert KEY.decrypt(result) == [sum(x * v for x, v in zip(row, vector, strict=True)) for row in matrix.tolist()]


@pytest.mark.parametrize("window", range(2, 11))
def test_every_width_of_digits_gives_the_same_powers(window, monkeypatch):
    rng = np.random.default_rng(window)
    matrix = rng.integers(-(2**21), 2**21, (3, 40))
    encrypted = KEY.encrypt(rng.integers(-9, 9, 40))
    expected = PUBLIC.multiply(matrix, encrypted)
    monkeypatch.setattr(multiexp, "_window", lambda bits, terms: window)
    assert PUBLIC.multiply(matrix, encrypted) == expected


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0)])
def test_an_empty_or_zero_matrix_gives_zeros(shape):
    result = PUBLIC.multiply(np.zeros(shape, dtype=np.int64), KEY.encrypt([5] * shape[1]))
    assert KEY.decrypt(result) == [0] * shape[0]


def test_a_product_that_could_wrap_is_refused():
    vector = KEY.encrypt([1, 1])
    matrix = np.array([[1, 2], [-4, 4]], dtype=np.int64)
    fits = LARGEST // 8
    assert KEY.decrypt(PUBLIC.multiply(matrix, KEY.encrypt([fits, -fits]), bound=fits)) == [-fits, -8 * fits]
    with pytest.raises(ValueError, match="can leave the plaintexts of 512 bits"):
        PUBLIC.multiply(matrix, vector, bound=fits + 1)
    with pytest.raises(ValueError, match="bound must be 0 or more"):
        PUBLIC.multiply(matrix, vector, bound=-1)
    huge = np.full((1, 2), 2**62 - 1)  # the sum of its absolute values fits no int64
    assert KEY.decrypt(PUBLIC.multiply(huge, KEY.encrypt([3, 4]), bound=4)) == [7 * (2**62 - 1)]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3), dtype=np.int64), "int64 with 2 columns, got int64 of shape"),
        (np.ones(2, dtype=np.int64), "int64 with 2 columns"),
        (np.ones((2, 2)), "got float64"),
        (np.ones((2, 2), dtype=np.int32), "got int32"),
        (np.array([[2**62, 0]]), "the largest entry is 2\\^62 - 1"),
        (np.array([[-(2**63), 0]]), "the matrix reaches 9223372036854775808"),
    ],
)
def test_a_matrix_that_cannot_be_multiplied_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        PUBLIC.multiply(matrix, KEY.encrypt([1, 2]))


@given(st.integers(2, 300), st.data())
def test_packed_integers_come_out_again(slot_bits, data):
    largest = 2 ** (slot_bits - 1) - 1
    slot = st.one_of(st.sampled_from([largest, -largest, 0]), st.integers(-largest, largest))
    values = data.draw(st.lists(slot, max_size=12))
    packed = PUBLIC.pack(KEY.encrypt(values), slot_bits)
    assert len(packed) == -(-len(values) // PUBLIC.slots(slot_bits))
    assert PUBLIC.unpack(KEY.decrypt(packed), slot_bits, len(values)) == values
    assert PUBLIC.unpack(KEY.decrypt_unsigned(packed), slot_bits, len(values)) == values


@given(st.integers(2, 128), st.lists(st.integers(0, 1), min_size=1, max_size=8))
def test_full_slots_of_either_sign_fit_the_smallest_modulus(slot_bits, signs):
    """n of `bits` bits can be as small as 2^(bits-1)."""
    bits = slot_bits * len(signs) + 1
    largest = 2 ** (slot_bits - 1) - 1
    values = [largest * (2 * sign - 1) for sign in signs]
    assert packing.slots(bits, slot_bits) == len(signs)
    packed = sum(value << slot_bits * place for place, value in enumerate(values))
    assert 2 * abs(packed) < 2 ** (bits - 1)
    assert paillier.unpack(packed, slot_bits, len(values)) == values


def test_more_than_the_slots_hold_is_the_peers_fault():
    assert paillier.unpack(-1, 8, 3) == [-1, 0, 0]
    for value in (2**24, 2**23, -(2**24)):
        with pytest.raises(PeerError, match="does not fit 3 slots of 8 bits"):
            paillier.unpack(value, 8, 3)
    with pytest.raises(PeerError, match="does not fit"):
        PUBLIC.unpack([LARGEST], 8, 3)


def test_slots_that_make_no_sense_are_refused():
    for slot_bits in (1, 512):
        with pytest.raises(ValueError, match="slot_bits must be from 2 to 511"):
            PUBLIC.pack(KEY.encrypt([1]), slot_bits)
    with pytest.raises(ValueError, match="fill 1 integers, got 2"):
        PUBLIC.unpack([1, 2], 8, 3)
    with pytest.raises(ValueError, match="need slot_bits of 2 or more"):
        paillier.unpack(5, 1, 2)


def test_rerandomised_ciphertexts_differ_and_say_the_same():
    values = [5, 5, -5, 0]
    vector = KEY.encrypt(values)
    again = PUBLIC.rerandomize(vector)
    assert KEY.decrypt(again) == values
    assert not set(again.values) & set(vector.values)
    assert len({value % N for value in again.values + vector.values}) == 8  # the rⁿ differ, not only the plaintexts


def encrypted():
    return TINY.encrypt([20])


def rerandomized():
    return TINY.rerandomize(Ciphertexts(TINY, (1 + 20 * 77,)))


@pytest.mark.parametrize("make", [encrypted, rerandomized])
def test_others_draw_each_ciphertext_of_a_plaintext_alike(make):
    """With n = 77 there are φ(77) = 60 of them: (1 + 77 * 20) r^77 for the units r."""
    expected = {(1 + 77 * 20) * pow(r, 77, 77**2) % 77**2 for r in range(77) if math.gcd(r, 77) == 1}
    counts = Counter(int(make()[0]) for _ in range(30_000))
    assert set(counts) == expected
    assert len(expected) == 60
    assert chisquare([counts[value] for value in expected]).pvalue > RARE


def test_the_owners_ciphertexts_are_fresh_and_of_jacobi_symbol_1():
    zeros = KEY.encrypt([0] * 6000)
    assert len({value % N for value in zeros.values}) == 6000
    assert all(jacobi(value, N) == 1 for value in zeros.values)
    primes = {jacobi(value, KEY.p) for value in zeros.values}
    assert primes == {1, -1}  # both signs: it is -x² that is raised, not x²
    tops = [int(value) * 16 // (N * N) for value in zeros.values]
    assert chisquare(np.bincount(tops, minlength=16)).pvalue > RARE


def test_exponents_are_half_as_long_as_the_modulus():
    for key in (KEY, OTHER):
        for table in (key._tables.p, key._tables.q):
            assert 8 * len(table._units) == key.public.bits // 2


def test_two_keys_from_the_same_primes_use_other_bases():
    twin = paillier.PrivateKey(KEY.p, KEY.q)
    assert twin == KEY
    assert KEY._tables.p._units[0][1] != twin._tables.p._units[0][1]


@given(st.lists(st.tuples(st.binary(min_size=6, max_size=6), st.integers(-(2**80), 2**80)), max_size=5))
def test_tables_give_powers(pairs):
    exponents = [bytes([exponent[k] for exponent, _ in pairs]) for k in range(6)]
    found = TABLE.powers_times(exponents, [mpz(slope) for _, slope in pairs])
    square = PRIME**2
    assert found == [
        pow(BASE, int.from_bytes(exponent, "little"), square) * (1 + PRIME * slope) % square
        for exponent, slope in pairs
    ]


def test_masks_are_uniform_over_all_plaintexts():
    masks = PUBLIC.uniform(20_000)
    assert 0 <= min(masks) <= max(masks) < N
    for view in (lambda mask: mask * 64 // N, lambda mask: mask % 64):
        assert chisquare(np.bincount([view(mask) for mask in masks], minlength=64)).pvalue > RARE
    assert {*TINY.uniform(3000)} == set(range(77))  # both ends included


def test_a_masked_plaintext_comes_back():
    masks = PUBLIC.uniform(3)
    opened = KEY.decrypt_unsigned(PUBLIC.add_plain(KEY.encrypt([1, -2, LARGEST]), masks))
    assert [PUBLIC.signed(value - mask) for value, mask in zip(opened, masks, strict=True)] == [1, -2, LARGEST]


def test_vectors_behave_like_tuples():
    vector = KEY.encrypt([1, 2, 3, 4])
    assert len(vector) == 4
    assert KEY.decrypt(vector[1:3]) == [2, 3]
    assert KEY.decrypt(vector[3:] + vector[:1]) == [4, 1]
    assert vector[2] == vector.values[2]
    assert [*vector] == list(vector.values)  # type: ignore[misc]
    assert repr(vector) == "<4 ciphertexts of 512 bits>"


def test_ciphertexts_of_another_key_are_refused():
    mine, foreign = KEY.encrypt([1]), OTHER.encrypt([1])
    for call in (
        lambda: PUBLIC.add(mine, foreign),
        lambda: PUBLIC.add_plain(foreign, [1]),
        lambda: PUBLIC.multiply(np.ones((1, 1), dtype=np.int64), foreign),
        lambda: PUBLIC.pack(foreign, 8),
        lambda: PUBLIC.rerandomize(foreign),
        lambda: KEY.decrypt(foreign),
    ):
        with pytest.raises(ValueError, match="belong to another key"):
            call()
    with pytest.raises(ValueError, match="under different keys"):
        mine + foreign


@pytest.mark.parametrize("bits", [512, 2048, 3072])
def test_a_step_of_vertical_logistic_regression(bits):
    key = KEY if bits == 512 else paillier.generate(bits)
    rng = np.random.default_rng(1)
    rows, columns = (64, 10) if bits == 512 else (8, 3)
    residues, features = rng.uniform(-1, 1, rows), rng.normal(size=(rows, columns))
    integers, matrix = Grid(30).encode(residues).tolist(), Grid(16).encode(features.T)
    public = PublicKey.from_bytes(key.public.to_bytes(), insecure_bits=bits == 512)
    received = Ciphertexts.from_bytes(public, key.encrypt(integers).to_bytes(), rows)
    packed = public.pack(public.multiply(matrix, received, bound=2**30), 60)
    masks = public.uniform(len(packed))
    masked = public.rerandomize(public.add_plain(packed, masks))
    opened = key.decrypt_unsigned(masked)
    found = public.unpack([value - mask for value, mask in zip(opened, masks, strict=True)], 60, columns)
    assert found == [sum(x * r for x, r in zip(row, integers, strict=True)) for row in matrix.tolist()]
    np.testing.assert_allclose(Grid(46).decode_wide(found), features.T @ residues, atol=1e-3)
