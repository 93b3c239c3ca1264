"""Shares against plain Python integers; too few say nothing; wrong ones are found out."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.crypto import shamir
from tacit.crypto.reed_solomon import PRIME
from tacit.crypto.shamir import LIMBS, combine, combine_many, from_bytes, recover, split, to_bytes
from tacit.errors import PeerError
from tacit.randomness import random_words, seeded_rng

SECRETS = st.binary(min_size=32, max_size=32)
SEEDS = st.integers(0, 2**32)
LARGEST = b"\xff" * 32


def interpolate(points, values, at):
    """Lagrange's formula modulo p in plain integers."""
    total = 0
    for i, x in enumerate(points):
        numerator = denominator = 1
        for j, other in enumerate(points):
            if i != j:
                numerator = numerator * (at - other) % PRIME
                denominator = denominator * (x - other) % PRIME
        total += values[i] * numerator * pow(denominator, -1, PRIME)
    return total % PRIME


def limbs(secret):
    number = int.from_bytes(secret, "little")
    return [number >> 30 * i & (1 << 30) - 1 for i in range(LIMBS)]


@st.composite
def sizes(draw, largest=20):
    shares = draw(st.integers(1, largest))
    return shares, draw(st.integers(1, shares))


@given(st.lists(SECRETS, min_size=1, max_size=3), sizes(), SEEDS, st.randoms(use_true_random=False))
def test_rows_are_values_of_a_polynomial_through_the_secret(secrets, size, seed, random):
    shares, threshold = size
    rows = split(secrets, shares, threshold, seeded_rng(seed))
    assert rows.shape == (len(secrets), shares, LIMBS)
    assert rows.dtype == np.uint32
    points = random.sample(range(1, shares + 1), threshold)
    for secret, of_secret in zip(secrets, rows.tolist(), strict=True):
        for limb, expected in enumerate(limbs(secret)):
            values = [of_secret[x - 1][limb] for x in points]
            assert interpolate(points, values, 0) == expected
            for x in range(1, shares + 1):  # no more than `threshold` coefficients
                assert interpolate(points, values, x) == of_secret[x - 1][limb]


@given(st.lists(SECRETS, min_size=1, max_size=3), sizes(), SEEDS, st.randoms(use_true_random=False))
def test_any_threshold_of_rows_gives_the_secrets_back(secrets, size, seed, random):
    shares, threshold = size
    rows = split(secrets, shares, threshold, seeded_rng(seed))
    points = random.sample(range(1, shares + 1), threshold)
    chosen = rows[:, np.array(points) - 1]
    assert combine_many(points, chosen) == secrets
    assert [combine(points, row) for row in chosen] == secrets


@pytest.mark.parametrize(("shares", "threshold"), [(88, 36), (130, 64), (130, 65), (150, 129), (1000, 501)])
def test_large_sharings_are_exact(shares, threshold):
    rng = seeded_rng(threshold)
    secrets = [LARGEST, bytes(32), rng.bytes(32)]
    rows = split(secrets, shares, threshold, rng)
    for points in (range(1, threshold + 1), range(shares, shares - threshold, -1)):
        assert combine_many(list(points), rows[:, np.array(points) - 1]) == secrets
    assert interpolate(range(1, threshold + 1), rows[0, :threshold, 0].tolist(), 0) == 2**30 - 1


@given(st.integers(1, 200), SEEDS)
@settings(max_examples=30)
def test_products_are_exact_for_the_largest_numbers_too(terms, seed):
    rng = seeded_rng(seed)
    left = PRIME - 1 - rng.integers(0, 3, (2, terms))
    right = PRIME - 1 - rng.integers(0, 3, (terms, 4))
    product = shamir._product(shamir._halves(left), right)
    assert product.tolist() == (left.astype(object) @ right.astype(object) % PRIME).tolist()


@given(SECRETS, SECRETS, st.integers(2, 8), SEEDS)
@settings(max_examples=50)
def test_fewer_rows_than_the_threshold_fit_every_secret(secret, candidate, threshold, seed):
    """For the rows of t - 1 points and any other secret there is one polynomial that explains both."""
    points = list(range(1, threshold))
    rows = split([secret], threshold, threshold, seeded_rng(seed))[0, : threshold - 1].tolist()
    for limb, wanted in enumerate(limbs(candidate)):
        known = [row[limb] for row in rows]
        missing = interpolate([0, *points], [wanted, *known], threshold)  # the row that would make it so
        assert interpolate([*points, threshold], [*known, missing], 0) == wanted


def test_rows_of_one_point_are_uniform_whatever_the_secret():
    rng = seeded_rng(5)
    for secret in (bytes(32), LARGEST):
        rows = split([secret] * 4000, 3, 2, rng)
        for share in range(3):
            counts = np.bincount((rows[:, share].ravel() >> 27), minlength=16)
            expected = counts.sum() / 16
            statistic = ((counts - expected) ** 2 / expected).sum()
            assert statistic < 60  # chi-squared with 15 degrees of freedom: 2.3e-7 lie above


def test_the_number_that_is_not_canonical_is_drawn_again(monkeypatch):
    draws = iter([np.full(2, 2**64 - 1, np.uint64), np.array([5 << 32 | 3, 2**64 - 1], np.uint64)])
    asked = []

    def words(rng, count):
        asked.append(count)
        return next(draws, np.full(count, 7, np.uint64))[:count]

    monkeypatch.setattr(shamir, "random_words", words)
    assert shamir._field_elements(seeded_rng(1), 4).tolist() == [3, 5, 7, 0]
    assert asked == [2, 2, 1]


def test_coefficients_come_from_the_generator_that_was_given():
    assert np.array_equal(split([LARGEST], 5, 3, seeded_rng(1)), split([LARGEST], 5, 3, seeded_rng(1)))
    assert not np.array_equal(split([LARGEST], 5, 3, seeded_rng(1)), split([LARGEST], 5, 3, seeded_rng(2)))
    assert not np.array_equal(split([LARGEST], 5, 3), split([LARGEST], 5, 3))
    assert not np.array_equal(*split([LARGEST, LARGEST], 5, 3))


def recovery(shares, threshold, wrong, seed=1):
    """A secret, its rows by point with those of the points in `wrong` altered, and a check that counts its calls."""
    rng = seeded_rng(seed)
    secret = rng.bytes(32)
    rows = {x: row.copy() for x, row in enumerate(split([secret], shares, threshold, rng)[0], start=1)}
    for x in wrong:
        rows[x] = (random_words(rng, LIMBS) % PRIME).astype(np.uint32)
    return secret, rows


@given(sizes(), SEEDS)
def test_recovery_of_sound_rows(size, seed):
    shares, threshold = size
    secret, rows = recovery(shares, threshold, (), seed)
    assert recover(rows, threshold, lambda found: found == secret) == (secret, ())


@pytest.mark.parametrize(("shares", "threshold"), [(2, 1), (4, 3), (10, 9), (7, 5), (9, 5), (7, 2), (6, 1)])
def test_recovery_whichever_rows_are_wrong(shares, threshold):
    most = max(1, (shares - threshold) // 2)
    for count in range(1, most + 1):
        for wrong in combinations(range(1, shares + 1), count):
            secret, rows = recovery(shares, threshold, wrong)
            found, points = recover(rows, threshold, secret.__eq__)
            assert found == secret
            assert set(points) <= set(wrong)
            if wrong[0] <= threshold:  # otherwise the first rows are right, and the others are not looked at
                assert points == wrong


@st.composite
def spoilt(draw):
    """Sizes, wrong points as many as can be, and which limbs of each are wrong and how."""
    threshold = draw(st.integers(1, 40))
    spare = draw(st.integers(1, 20))
    shares = threshold + spare
    count = draw(st.integers(1, max(1, spare // 2)))
    wrong = draw(st.lists(st.integers(1, shares), min_size=count, max_size=count, unique=True))
    rows = st.lists(st.integers(0, 3), min_size=LIMBS, max_size=LIMBS).filter(any)  # often the same error in many
    return shares, threshold, {point: draw(rows) for point in wrong}


@given(spoilt(), SEEDS)
def test_as_many_wrong_rows_as_a_code_corrects_are_found(case, seed):
    shares, threshold, errors = case
    secret, rows = recovery(shares, threshold, (), seed)
    for point, added in errors.items():
        rows[point] = ((rows[point].astype(np.int64) + added) % PRIME).astype(np.uint32)
    found, points = recover(rows, threshold, lambda found: found == secret)
    assert found == secret
    assert set(points) <= errors.keys()


@pytest.mark.parametrize(
    ("shares", "threshold", "wrong"),
    [
        (62, 36, 13),
        (601, 400, 100),
        (601, 600, 1),
        (1000, 513, 243),
        pytest.param(2001, 1001, 500, marks=pytest.mark.slow),  # 2 s
    ],
)
def test_recovery_of_large_sharings(shares, threshold, wrong):
    chosen = np.random.default_rng(wrong).choice(threshold, wrong, replace=False) + 1  # all among those tried first
    secret, rows = recovery(shares, threshold, chosen.tolist())
    asked = []
    found, points = recover(rows, threshold, lambda found: asked.append(found) or found == secret)
    assert (found, points) == (secret, tuple(sorted(chosen.tolist())))
    assert len(asked) <= 3


def test_errors_that_cancel_in_a_combination_of_limbs_are_found_limb_by_limb(monkeypatch):
    secret, rows = recovery(9, 5, ())
    for point in (1, 2):
        rows[point][:2] = (rows[point][:2].astype(np.int64) + np.array([1, -1])) % PRIME
    monkeypatch.setattr(shamir, "_field_elements", lambda rng, count: np.ones(count, np.uint32))
    assert recover(rows, 5, lambda found: found == secret) == (secret, (1, 2))


def test_wrong_limbs_in_more_rows_than_a_code_corrects_are_found_limb_by_limb():
    secret, rows = recovery(13, 5, ())
    for point in range(1, 10):  # nine of thirteen rows, and no limb in more than one
        rows[point][point - 1] ^= 1
    assert recover(rows, 5, lambda found: found == secret) == (secret, tuple(range(1, 10)))


@given(st.integers(1, 12), st.integers(0, 8), SEEDS)
@settings(max_examples=50)
def test_recovery_of_nothing_but_wrong_rows_ends(threshold, spare, seed):
    shares = threshold + spare
    secret, rows = recovery(shares, threshold, range(1, shares + 1), seed)
    asked = []
    with pytest.raises(PeerError, match="too many are wrong"):
        recover(rows, threshold, lambda found: bool(asked.append(found)))
    assert secret not in asked
    assert len(asked) <= shares + 3


def test_recovery_leaves_out_rows_that_are_not_canonical():
    secret, rows = recovery(5, 4, ())
    rows[2][3] = PRIME
    assert recover(rows, 4, lambda found: found == secret) == (secret, (2,))
    rows[3][0] = 2**32 - 1
    with pytest.raises(PeerError, match="3 usable shares of 5, the threshold is 4"):
        recover(rows, 4, lambda found: found == secret)


def test_recovery_needs_threshold_rows():
    secret, rows = recovery(5, 4, ())
    del rows[1], rows[5]
    with pytest.raises(PeerError, match="3 shares, the threshold is 4"):
        recover(rows, 4, lambda found: found == secret)
    with pytest.raises(PeerError, match="0 shares"):
        recover({}, 1, lambda found: True)


def test_a_secret_that_is_not_canonical_is_refused():
    def constant(*values):
        return np.array([[*values, *[0] * (LIMBS - len(values))]], np.uint32)  # threshold 1: the row is the secret

    assert combine([3], constant(2**30 - 1)) == (2**30 - 1).to_bytes(32, "little")
    with pytest.raises(PeerError, match="do not belong together"):
        combine([3], constant(2**30))
    assert combine([3], constant(0, 0, 0, 0, 0, 0, 0, 0, 2**16 - 1))[-2:] == b"\xff\xff"
    with pytest.raises(PeerError, match="do not belong together"):
        combine([3], constant(0, 0, 0, 0, 0, 0, 0, 0, 2**16))
    with pytest.raises(PeerError, match="the largest is"):
        combine([3], constant(PRIME))


@given(st.lists(st.integers(0, PRIME - 1), min_size=LIMBS, max_size=LIMBS), st.integers(1, 4))
def test_rows_survive_the_wire(row, count):
    rows = np.array([row] * count, np.uint32)
    data = to_bytes(rows)
    assert data == b"".join(value.to_bytes(4, "little") for value in row) * count
    assert np.array_equal(from_bytes(data, count), rows)


@given(st.binary(max_size=100), st.integers(1, 3))
def test_bytes_that_are_no_rows_are_refused(data, count):
    values = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    if len(data) == count * 36 and max(values) < PRIME:
        assert from_bytes(data, count).ravel().tolist() == values
    else:
        with pytest.raises(PeerError):
            from_bytes(data, count)


@pytest.mark.parametrize("value", [PRIME, PRIME + 1, 2**32 - 1])
@pytest.mark.parametrize("position", [0, 8])
def test_a_row_that_is_not_canonical_is_refused(value, position):
    row = np.zeros((1, LIMBS), np.uint32)
    row[0, position] = value
    with pytest.raises(PeerError, match=f"a value of {value}"):
        from_bytes(to_bytes(row))
    with pytest.raises(PeerError, match=f"a value of {value}"):
        combine([1], row)


@pytest.mark.parametrize(("shares", "threshold"), [(3, 0), (3, 4), (0, 0), (2**16 + 1, 2), (3, -1)])
def test_impossible_sharings_are_the_callers_mistake(shares, threshold):
    with pytest.raises(ValueError, match="1 <= threshold <= shares"):
        split([LARGEST], shares, threshold)


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33)])
def test_secrets_of_another_length_are_the_callers_mistake(secret):
    with pytest.raises(ValueError, match="32 bytes"):
        split([secret], 3, 2)


@pytest.mark.parametrize("points", [[1, 1], [0, 1], [-1, 1], [1, 2**16 + 1], []])
def test_impossible_points_are_the_callers_mistake(points):
    with pytest.raises(ValueError, match="distinct"):
        combine(points, np.zeros((len(points), LIMBS), np.uint32))


@pytest.mark.parametrize("rows", [np.zeros((2, 8), np.uint32), np.zeros((3, 9), np.uint32), np.zeros((2, 9), np.int64)])
def test_rows_of_another_shape_or_type_are_the_callers_mistake(rows):
    with pytest.raises(ValueError, match="rows must be uint32 of shape"):
        combine([1, 2], rows)


@pytest.mark.parametrize("row", [np.zeros(8, np.uint32), np.zeros((1, 9), np.uint32), np.zeros(9, np.int64)])
def test_recovery_of_rows_of_another_shape_or_type_is_the_callers_mistake(row):
    with pytest.raises(ValueError, match="rows must be uint32 of shape"):
        recover({1: row, 2: row}, 1, lambda found: True)


def test_recovery_without_a_threshold_is_the_callers_mistake():
    with pytest.raises(ValueError, match="threshold must be 1 or more"):
        recover({}, 0, lambda found: True)
